//! Programs with a defect by which a backup can run code in the pod that restores it. Pure, except for asking a program for
//! its version.
//!
//! Only defects that affect us are listed: those by a crafted archive or dump. CVE-2025-8714, CVE-2025-8715 and CVE-2026-18408
//! do not, because no text of a dump reaches `psql`. `mysql` takes no client commands (`--binary-mode`).
//! Looked up on 2026-11-25.

use std::process::Stdio;

use super::child::Program;
use super::{Account, PROGRAM_SILENCE_TIMEOUT};
use crate::Error;

/// A defect, and the first fixed version of each branch that got a fix.
struct Defect {
    cve: &'static str,
    /// How many numbers of a version name its branch.
    branch: usize,
    fixed: &'static [&'static [u32]],
}

/// A crafted archive runs code as the user of `pg_restore`.
/// <https://www.postgresql.org/support/security/CVE-2026-116314/>
const PG_RESTORE: Defect =
    Defect { cve: "CVE-2026-116314", branch: 1, fixed: &[&[14, 25], &[15, 20], &[16, 16], &[17, 12], &[18, 7]] };
/// A dump runs commands of the shell; later versions have `--sandbox`.
/// <https://mariadb.com/kb/en/mariadb-dump/>, <https://mariadb.com/kb/en/security/>
const MARIADB: Defect = Defect {
    cve: "CVE-2024-21096",
    branch: 2,
    fixed: &[&[10, 5, 25], &[10, 6, 18], &[10, 11, 8], &[11, 0, 6], &[11, 1, 5], &[11, 2, 4], &[11, 4, 2]],
};

/// Who wrote the backup that is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The operator recorded or signed it: our own Job wrote these bytes.
    Proven,
    /// Any client that may write into the bucket may have written it.
    Unproven,
}

/// Checks whether a program may restore a backup of that origin.
///
/// A proven backup is restored with any version: our own Job wrote that archive, and a restore after a disaster must not
/// wait for another image.
pub async fn check(name: &'static str, account: &Account, origin: Origin) -> Result<(), Error> {
    let printed = Program::new(name).args(["--version"]).run(Stdio::null(), PROGRAM_SILENCE_TIMEOUT).await?;
    let printed = printed.map_err(|failure| account.side.failed(&failure))?;
    let Some((version, fixed, cve)) = outdated(name, &printed) else { return Ok(()) };
    if origin == Origin::Proven {
        tracing::warn!(name, version, fixed, cve, "a crafted backup could run code in this pod: use a later image");
        return Ok(());
    }
    let (image, field) = (std::env::var(IMAGE).unwrap_or_default(), account.side.field(account.kind, "image"));
    Err(Error::ToolOutdated(format!(
        "{name} of the image {image} is of version {version}, in which a crafted backup runs code ({cve}), and it was not checked \
         who wrote this one: name an image with {fixed} or later in {field}, or restore a backup that is recorded or signed"
    )))
}

/// Variable with the name of the image that the process runs in.
pub const IMAGE: &str = "CAUSEWAY_IMAGE";

/// The version of a program from its output, the first version without the defect, and the CVE. None if it has no defect.
fn outdated(name: &str, printed: &str) -> Option<(String, String, &'static str)> {
    let (defect, text) = match name {
        "pg_restore" => (&PG_RESTORE, printed.split(')').nth(1)?),
        // `mariadb  Ver 15.1 Distrib 10.11.18-MariaDB, for …`, later `mariadb from 11.4.2-MariaDB, client 15.2 for …`
        "mariadb" | "mysql" => (&MARIADB, printed.split("-MariaDB").next().filter(|_| printed.contains("-MariaDB"))?),
        _ => return None,
    };
    let word = text.split_whitespace().rfind(|it| it.starts_with(|first: char| first.is_ascii_digit()));
    let word = if name == "pg_restore" { text.split_whitespace().next() } else { word }.unwrap_or_default();
    // Of `18beta1` only the leading number counts: it is then older than the fix of its branch.
    let numbers: Vec<u32> =
        word.split('.').map_while(|part| part.split(|it: char| !it.is_ascii_digit()).next()?.parse().ok()).collect();
    let branch = |version: &[u32]| version.iter().take(defect.branch).copied().collect::<Vec<_>>();
    let newest = defect.fixed.last()?;
    let first = defect.fixed.iter().find(|fixed| branch(fixed) == branch(&numbers));
    let is_fixed = match first {
        Some(first) => numbers.as_slice() >= *first,
        None => branch(&numbers) > branch(newest),
    };
    // For a branch that never got the fix, the next one that did is recommended.
    let next = first.or_else(|| defect.fixed.iter().find(|fixed| branch(fixed) > branch(&numbers))).unwrap_or(newest);
    let version = next.iter().map(u32::to_string).collect::<Vec<_>>().join(".");
    (!is_fixed).then(|| (word.to_owned(), version, defect.cve))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_outdated_until_its_branch_has_the_fix() {
        let postgres = |version: &str| format!("pg_restore (PostgreSQL) {version}\n");
        let older =
            |version: &str| format!("mariadb  Ver 15.1 Distrib {version}-MariaDB, for debian-linux-gnu (x86_64)");
        let newer =
            |version: &str| format!("mariadb from {version}-MariaDB, client 15.2 for debian-linux-gnu (x86_64)");
        for (name, printed, expected) in [
            ("pg_restore", postgres("15.18 (Debian 15.18-0+deb12u1)"), Some(("15.18", "15.20"))),
            ("pg_restore", postgres("15.20 (Debian 15.20-0+deb12u1)"), None),
            ("pg_restore", postgres("18.6"), Some(("18.6", "18.7"))),
            ("pg_restore", postgres("18.10"), None),
            ("pg_restore", postgres("18beta1"), Some(("18beta1", "18.7"))),
            ("pg_restore", postgres("19.0"), None),
            ("pg_restore", postgres("13.23"), Some(("13.23", "14.25"))),
            ("pg_restore", postgres("9.6.24"), Some(("9.6.24", "14.25"))),
            ("pg_restore", postgres("unknown"), Some(("unknown", "14.25"))),
            ("mariadb", older("10.11.18"), None),
            ("mysql", older("10.6.17"), Some(("10.6.17", "10.6.18"))),
            ("mariadb", newer("11.3.2"), Some(("11.3.2", "11.4.2"))),
            ("mariadb", newer("11.8.3"), None),
            ("mysql", "mysql  Ver 9.4.0 for Linux on x86_64 (MySQL Community Server - GPL)".into(), None),
        ] {
            let found = outdated(name, &printed);
            let found = found.as_ref().map(|(version, fixed, _)| (version.as_str(), fixed.as_str()));
            assert_eq!(found, expected, "{printed}");
        }
    }
}
