//! Rules in the security groups of the targets that let the balancer in. These groups are somebody else's.
//!
//! - Nothing is done to a group whose owner does not agree by a tag. The operator may do nothing else to it (see `iam/`).
//! - A rule is ours if it lets in the security group that was made for this balancer, and says so. No two balancers have one
//!   together, so none takes away what another one needs. A rule that a person made for our group is left alone.
//! - Which rules there are is asked of AWS by whom they let in, not remembered: what was made before a death is found, and
//!   what an edit left behind.
//! - One rule lets in on all TCP ports. It never changes, so no request is lost while ports of pods do.

use std::collections::BTreeSet;

use super::{Scene, named};
use crate::controllers::myingress::action::{Action, SecurityAction};
use crate::controllers::myingress::assets::Assets;
use crate::controllers::myingress::model::{Complaint, SecurityModel};
use crate::controllers::myingress::ownership::{Owner, entry_mark, letting_in_tag};
use crate::external::ec2::{Entry, PortRange, SecurityGroup};

const FIELD: &str = "spec.targetSecurityGroups";

/// The groups of the targets that the members name.
#[derive(Debug, Default)]
struct Targets<'a> {
    /// Ids of those that were found, whether they agree or not.
    found: BTreeSet<&'a str>,
    /// Ids of those that agree.
    agreed: BTreeSet<&'a str>,
    /// What is wrong with the others.
    complaints: Vec<Complaint>,
    /// It is not known which group is meant by one of them.
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

/// Lets our group in where that is missing.
pub fn plan(scene: &Scene, own: &SecurityGroup, actions: &mut Vec<Action>) {
    let owner = &scene.observed.owner;
    let wanted = targets(scene, own).agreed.into_iter().map(|group| entry(group, own, owner));
    let missing = wanted.filter(|entry| !scene.observed.assets.entries.iter().any(|it| it.is_same_rule(entry)));
    actions.extend(missing.map(|entry| Action::Security(SecurityAction::LetIn(entry))));
}

/// Takes away the rules of ours that nobody asks for any more. As long as that is not sure, they stay.
pub fn clear(scene: &Scene, own: &SecurityGroup, actions: &mut Vec<Action>) {
    let targets = targets(scene, own);
    if targets.unclear || scene.frozen.iter().any(|member| !scene.is_guest(member)) {
        return;
    }
    let owner = &scene.observed.owner;
    // Where consent was taken back nothing is done any more, not even this.
    let asked_for = |it: &Entry| {
        targets.found.contains(it.group.as_str())
            && (!targets.agreed.contains(it.group.as_str()) || it.is_same_rule(&entry(&it.group, own, owner)))
    };
    let surplus = ours(&scene.observed.assets, owner).filter(|it| it.from == own.id && !asked_for(it));
    actions.extend(surplus.map(shut_out));
}

/// The rules that were made for an owner.
pub fn ours<'a>(assets: &'a Assets, owner: &Owner) -> impl Iterator<Item = &'a Entry> {
    let mark = entry_mark(owner);
    assets.entries.iter().filter(move |entry| entry.description == mark)
}

/// Takes a rule away.
pub fn shut_out(entry: &Entry) -> Action {
    Action::Security(SecurityAction::ShutOut(entry.clone()))
}

/// What keeps our group from being let in.
pub fn trouble(scene: &Scene) -> Option<(&'static str, String)> {
    let own = scene.observed.assets.security_groups.values().next()?;
    let first = targets(scene, own).complaints.into_iter().next()?;
    Some((first.reason, first.message))
}
