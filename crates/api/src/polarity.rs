//! Which status of a condition is the normal one, for readers that know an object only as JSON.

use super::common::{OF_ALL_KINDS, Polarity};
use super::{
    Conditioned, DatabaseBackupStatus, DatabaseRestoreStatus, EtcdClusterStatus, MyAppStatus, MyIngressStatus,
    RedisStatus,
};

/// The conditions of each kind beside those that all kinds have.
const PARTS: [&[(&str, Polarity)]; 6] = [
    DatabaseBackupStatus::PARTS,
    DatabaseRestoreStatus::PARTS,
    EtcdClusterStatus::PARTS,
    MyAppStatus::PARTS,
    MyIngressStatus::PARTS,
    RedisStatus::PARTS,
];

/// The polarity of conditions of that type; `None` if Causeway writes none of that type.
pub fn polarity(type_: &str) -> Option<Polarity> {
    all().find(|(known, _)| *known == type_).map(|(_, polarity)| *polarity)
}

fn all() -> impl Iterator<Item = &'static (&'static str, Polarity)> {
    OF_ALL_KINDS.iter().chain(PARTS.into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Argo CD's script. It cannot read the tables of this program.
    const SCRIPT: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/argocd/health.lua"));

    /// Conditions that warn, but for which Argo CD should not call an object `Degraded`, which fails a sync: a cluster of
    /// one node is no failure, a drain that waits keeps no client from a database, backups that do not count may be another cluster's,
    /// log that stays only costs room, and data need not grow as far as they may.
    const WARNINGS: [&str; 5] =
        ["EvictionsBlocked", "LogNotDeleted", "MemoryRisk", "NodeFailureRisk", "UnrecordedBackups"];

    #[test]
    fn a_type_means_the_same_for_every_kind() {
        for (type_, meant) in all() {
            assert_eq!(polarity(type_), Some(*meant), "{type_}");
        }
        assert_eq!(polarity("Audited"), None, "a condition of another controller");
    }

    #[test]
    fn argo_cd_reports_degraded_for_each_true_condition() {
        let line = SCRIPT.lines().find(|line| line.contains("ipairs({")).expect("a list of types");
        let mut listed: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
        let abnormal = PARTS.into_iter().flatten().filter(|(_, polarity)| *polarity == Polarity::AbnormalTrue);
        let mut wanted: Vec<&str> = abnormal.map(|(type_, _)| *type_).filter(|it| !WARNINGS.contains(it)).collect();
        listed.sort_unstable();
        wanted.sort_unstable();
        wanted.dedup();
        assert_eq!(listed, wanted);
    }
}
