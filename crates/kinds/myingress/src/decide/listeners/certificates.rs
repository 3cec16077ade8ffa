//! The certificates of a listener, and how old ones make room for new ones where AWS's quota has none.

use std::collections::BTreeSet;

use causeway_aws::acm::Certificate;
use causeway_aws::elbv2::ListenerSettings;

use super::{Listener, is_kept, is_listed};
use crate::action::ListenerAction;
use crate::model::certificates::{chosen, is_covered};
use crate::model::{CertificatesModel, Complaint};
use crate::region::assets::ListenerMember;

/// The certificates that a listener should have.
pub(super) struct Certificates {
    /// The default certificate; `None` without TLS.
    pub default: Option<String>,
    /// The others.
    pub further: BTreeSet<String>,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Swap {
    /// Add these.
    In(BTreeSet<String>),
    /// Remove these.
    Out(BTreeSet<String>),
}

impl Swap {
    /// The certificates that it adds.
    fn added(&self) -> Option<&BTreeSet<String>> {
        match self {
            Self::In(certificates) => Some(certificates),
            Self::Out(_) => None,
        }
    }

    /// The change of the listener.
    pub(super) fn action(self, balancer: String, arn: String, port: u16) -> ListenerAction {
        match self {
            Self::In(certificates) => ListenerAction::AddCertificates { balancer, arn, port, certificates },
            Self::Out(certificates) => ListenerAction::RemoveCertificates { balancer, arn, port, certificates },
        }
    }
}

impl Listener<'_> {
    /// The certificates that it should have, given its present settings.
    pub(super) fn certificates(&self, present: Option<&ListenerSettings>) -> Result<Certificates, Complaint> {
        let all = match &self.wanted.certificates {
            CertificatesModel::None => Vec::new(),
            CertificatesModel::Chosen { given, hosts } => {
                chosen(given, hosts, &self.scene.observed.certificates, self.port)?
            }
        };
        let found = matches!(&self.wanted.certificates, CertificatesModel::Chosen { given, .. } if given.is_empty());
        let stays = found && is_listed(self.scene, self.port);
        let present = present.filter(|it| stays && it.protocol == self.wanted.protocol);
        let mut all = present.and_then(|it| it.certificate.clone()).into_iter().chain(all);
        let default = all.next();
        let further = all.filter(|arn| Some(arn) != default.as_ref()).collect();
        Ok(Certificates { default, further })
    }

    /// The steps that add what is missing, and whether some of it waits because AWS refused it or others. `room` is for
    /// how many certificates the balancer has room beside its present ones. The rest of the unwanted ones go later.
    pub(super) fn swaps(&self, member: &ListenerMember, wanted: &Certificates, room: usize) -> (Vec<Swap>, bool) {
        let missing: BTreeSet<String> = wanted.further.difference(&member.certificates).cloned().collect();
        let tried = self.tried(member, &missing);
        let mut waits = tried.len() < missing.len();
        // The new default certificate may still be a further one, and must not go before it is the default.
        let becomes_default = |arn: &String| wanted.default.as_ref() == Some(arn);
        let stays = is_kept(self.scene, member);
        let unwanted = member.certificates.difference(&wanted.further);
        let spare = unwanted.filter(|arn| !stays && !becomes_default(arn)).cloned().collect();
        let mut served: Vec<String> = member.certificates.intersection(&wanted.further).cloned().collect();
        served.extend(member.listener.settings.certificate.clone().filter(becomes_default));
        let (mut steps, left) = swaps(&tried, spare, served, room, &self.scene.observed.certificates);
        // A certificate that becomes the default makes room then. Otherwise the call is made anyway, so AWS's error is
        // reported.
        if !left.is_empty() && !member.certificates.iter().any(becomes_default) {
            if self.scene.aside.holds_for_room(self.balancer) {
                waits = true;
            } else {
                steps.push(Swap::In(left));
            }
        }
        if waits {
            let added: BTreeSet<&String> = steps.iter().filter_map(Swap::added).flatten().collect();
            let certificates = missing.iter().filter(|arn| !added.contains(arn)).cloned().collect();
            let (balancer, arn) = (self.balancer.to_owned(), member.listener.arn.clone());
            self.scene.aside.leaves_waiting(Swap::In(certificates).action(balancer, arn, self.port));
        }
        (steps, waits)
    }

    /// Those of the missing certificates that are tried now. One that AWS refused for what it is waits: it takes no
    /// room, and nothing gives way to it.
    fn tried(&self, member: &ListenerMember, missing: &BTreeSet<String>) -> BTreeSet<String> {
        let (aside, on) = (&self.scene.aside, &member.listener.arn);
        let refused = aside.refused_certificates(on, missing);
        let tried: BTreeSet<String> = missing.difference(&refused).cloned().collect();
        let waits = !refused.is_empty() && !tried.is_empty() && aside.holds_further_certificates(on);
        if waits { BTreeSet::new() } else { tried }
    }
}

/// The steps that add what is missing, and what is left because nothing more gives way. Where there is no room, one of
/// the `spare` certificates goes for each missing one, at once before it: if AWS refuses the new one, no other is lost.
/// The first to go are those whose hosts the `served` ones cover.
fn swaps(
    missing: &BTreeSet<String>,
    mut spare: BTreeSet<String>,
    mut served: Vec<String>,
    room: usize,
    known: &[Certificate],
) -> (Vec<Swap>, BTreeSet<String>) {
    let fits: BTreeSet<String> = missing.iter().take(room).cloned().collect();
    served.extend(fits.iter().cloned());
    let mut steps: Vec<Swap> = (!fits.is_empty()).then_some(Swap::In(fits)).into_iter().collect();
    let mut left = BTreeSet::new();
    for new in missing.iter().skip(room) {
        let before = served.len();
        served.push(new.clone());
        let harm = |old: &&String| {
            let rounds = [&served[..before], served.as_slice()];
            rounds.into_iter().filter(|served| !covers(served, old, known)).count()
        };
        let Some(old) = spare.iter().min_by_key(harm).cloned() else {
            left.insert(new.clone());
            continue;
        };
        spare.remove(&old);
        steps.extend([Swap::Out([old].into()), Swap::In([new.clone()].into())]);
    }
    (steps, left)
}

/// Reports whether these certificates cover all hosts of another one. An unknown certificate is not covered.
fn covers(these: &[String], other: &str, known: &[Certificate]) -> bool {
    let other = known.iter().find(|certificate| certificate.arn == other);
    other.is_some_and(|other| other.names.iter().all(|host| is_covered(host, these, known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(arns: &[&str]) -> BTreeSet<String> {
        arns.iter().map(|arn| (*arn).to_owned()).collect()
    }

    fn certificate(arn: &str, names: &[&str]) -> Certificate {
        Certificate { arn: arn.into(), names: set(names), expires: None }
    }

    fn exchange(old: &str, new: &str) -> [Swap; 2] {
        [Swap::Out(set(&[old])), Swap::In(set(&[new]))]
    }

    #[test]
    fn where_there_is_room_nothing_gives_way() {
        let (steps, left) = swaps(&set(&["c", "d"]), set(&["a", "b"]), Vec::new(), 2, &[]);
        assert_eq!((steps, left), (vec![Swap::In(set(&["c", "d"]))], set(&[])));
        assert_eq!(swaps(&set(&[]), set(&["a"]), Vec::new(), 0, &[]), (Vec::new(), set(&[])));
    }

    #[test]
    fn as_few_certificates_as_possible_give_way() {
        let (steps, left) = swaps(&set(&["c", "d", "e", "f"]), set(&["a", "b"]), Vec::new(), 1, &[]);
        let expected = [[Swap::In(set(&["c"]))].as_slice(), &exchange("a", "d"), &exchange("b", "e")].concat();
        assert_eq!((steps, left), (expected, set(&["f"])));
    }

    #[test]
    fn covered_certificates_go_first_then_replaced_ones() {
        let known = [
            certificate("old-a", &["a.example.com"]),
            certificate("old-b", &["b.example.com"]),
            certificate("old-c", &["c.example.com"]),
            certificate("new-b", &["b.example.com"]),
            certificate("new-c", &["c.example.com", "www.c.example.com"]),
            certificate("stays", &["*.example.org"]),
            certificate("unneeded", &["x.example.org"]),
        ];
        let old = set(&["old-a", "old-b", "old-c", "unneeded"]);
        let (steps, _) = swaps(&set(&["new-b", "new-c"]), old, vec!["stays".into()], 0, &known);
        assert_eq!(steps, [exchange("unneeded", "new-b"), exchange("old-b", "new-c")].concat());
        let old = set(&["old-a", "old-b", "old-c"]);
        let (steps, _) = swaps(&set(&["new-b", "new-c"]), old, vec!["stays".into()], 0, &known);
        assert_eq!(steps, [exchange("old-b", "new-b"), exchange("old-c", "new-c")].concat());
    }
}
