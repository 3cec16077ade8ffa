//! Rules in the security groups of the targets that let the balancer in. These groups belong to others.
//!
//! - A group is changed only if its owner agrees by a tag. The operator may do nothing else to it (see `iam/`).
//! - A rule is ours if it lets in the security group that was created for this balancer, and its description says so.
//!   No two balancers share a rule, so removing one cuts off no other balancer. A rule that a person made for our group
//!   is left alone.
//! - The rules are not remembered but looked up in AWS by the group that they let in. So the operator also finds rules
//!   made before a crash, and rules left behind by an edit.
//! - One rule allows all TCP ports. It never changes, so no request is lost when ports of pods change.

use std::collections::BTreeSet;

use causeway_aws::ec2::{Entry, PortRange, SecurityGroup};

use super::{Scene, named, security};
use crate::action::{Action, SecurityAction};
use crate::model::{Complaint, SecurityModel};
use crate::ownership::{Owner, entry_mark, letting_in_tag};
use crate::region::assets::Member;

const FIELD: &str = "spec.targetSecurityGroups";

/// The groups of the targets that the members name.
#[derive(Debug, Default)]
struct Targets<'a> {
    /// Ids of those that were found, whether they agree or not.
    found: BTreeSet<&'a str>,
    /// Ids of those that agree.
    agreed: BTreeSet<&'a str>,
    /// The complaints about the others.
    complaints: Vec<Complaint>,
    /// True if some name could not be resolved to one group.
    unclear: bool,
}

fn targets<'a>(scene: &Scene<'a>, own: &SecurityGroup) -> Targets<'a> {
    let SecurityModel::Managed { targets, .. } = &scene.model.balancer.security else { return Targets::default() };
    let mut known = Targets::default();
    let (key, value) = letting_in_tag(&scene.observed.owner);
    for called in targets {
        match named::group(called, FIELD, &scene.observed.security_groups, &own.vpc) {
            Ok(group) => {
                known.found.insert(&group.id);
                if group.tags.get(&key) == Some(&value) {
                    known.agreed.insert(&group.id);
                    continue;
                }
                let id = &group.id;
                known.complaints.push(Complaint {
                    reason: "TargetSecurityGroupRefused",
                    message: format!(
                        "{FIELD}: security group {id} does not agree to let load balancers of this cluster in: give it \
                         the tag {key} with the value {value} (aws ec2 create-tags --resources {id} --tags \
                         Key={key},Value={value}), or remove it from the list"
                    ),
                });
            }
            Err(complaint) => {
                known.unclear = true;
                known.complaints.push(complaint);
            }
        }
    }
    known
}

/// The rule by which a group lets ours in.
fn entry(group: &str, own: &SecurityGroup, owner: &Owner) -> Entry {
    Entry {
        group: group.to_owned(),
        from: own.id.clone(),
        protocol: "tcp".into(),
        ports: Some(PortRange { from: 0, to: 65535 }),
        description: entry_mark(owner),
    }
}

/// Adds the rules that let our group in, where they are missing.
pub fn plan(scene: &Scene, own: &SecurityGroup, actions: &mut Vec<Action>) {
    let missing = missing(scene, own, &targets(scene, own));
    actions.extend(missing.into_iter().map(|entry| Action::Security(SecurityAction::LetIn(entry))));
}

/// The rules that are wanted and not there.
fn missing(scene: &Scene, own: &SecurityGroup, targets: &Targets) -> Vec<Entry> {
    let wanted = targets.agreed.iter().map(|group| entry(group, own, &scene.observed.owner));
    wanted.filter(|entry| !scene.observed.assets.entries.iter().any(|it| it.is_same_rule(entry))).collect()
}

/// Removes those of our rules that no member asks for any more. They stay as long as that is not certain, and while AWS
/// refuses others that are to replace them. No member asks for rules for a group in a VPC without a balancer.
pub fn clear(scene: &Scene, own: &SecurityGroup, actions: &mut Vec<Action>) {
    let targets = targets(scene, own);
    let needed = security::is_needed(scene, own);
    let is_settled = !targets.unclear
        && scene.frozen.iter().all(|member| scene.is_guest(member))
        && missing(scene, own, &targets).is_empty();
    if needed && !is_settled {
        return;
    }
    let owner = &scene.observed.owner;
    // A group whose owner has taken back consent is not changed at all, not even to remove our rule.
    let asked_for = |it: &Entry| {
        targets.found.contains(it.group.as_str())
            && (!targets.agreed.contains(it.group.as_str())
                || (needed && it.is_same_rule(&entry(&it.group, own, owner))))
    };
    let surplus = scene.observed.assets.entries_of(owner).filter(|it| it.from == own.id && !asked_for(it));
    actions.extend(surplus.map(Action::shut_out));
}

/// Returns reason and message if something keeps our group from being let in.
pub fn trouble(scene: &Scene, current: &Member) -> Option<(&'static str, String)> {
    let own = scene.observed.assets.security_group_in(&current.balancer.vpc)?;
    let first = targets(scene, own).complaints.into_iter().next()?;
    Some((first.reason, first.message))
}
