//! Decides what to do about a cluster. Pure.
//!
//! A plan has at most one step that disturbs a member; then the next round observes again. The order of the steps:
//! children, then a majority, then members that are half added or damaged, then size, then space, then version and
//! settings. A step for the members that
//! only waits does not delay the recovery of space.

mod accepted;
mod auth;
mod backup;
mod certificates;
mod children;
mod defrag;
mod downgrade;
mod earlier;
mod leadership;
mod majority;
mod members;
mod recovery;
mod restore;
mod rollout;
mod space;
mod status;
mod strangers;
mod transport;
mod unwell;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;

use causeway_api::etcdcluster::DowngradeStatus;
use causeway_api::{EtcdCluster, EtcdClusterStatus};
use causeway_databases::ChildAction;
use causeway_databases::etcd::{Endpoint, Member};
use causeway_databases::foreign::NAME_TAKEN;
use causeway_databases::pod_trouble::{Fields, beside};
use causeway_databases::restore_from::join;
use causeway_databases::step::{PROGRESS_INTERVAL, RESYNC_INTERVAL, RETRY_INTERVAL};
use causeway_runtime::{Health, Plan};

use super::action::Action;
use super::damage;
use super::damage::{DamagedPod, Loss};
use super::facts::{Claim, Observed, Pod};
use super::membership;
use super::names::SKIP;
use super::tls::Transport;

/// The fields of the spec that decide about pods.
const FIELDS: Fields = Fields {
    image: "spec.version and spec.image",
    others: &[("install", "spec.recovery"), (SKIP, "spec.recovery")],
    apart: "spec.affinity",
    storage: "spec.storage.className",
};
/// Reasons why a pod does not start until a user corrects the spec, or provides what it asks for.
const NEVER_STARTS: [&str; 3] = ["ImagePullFailed", "Unschedulable", "PodRefused"];

/// How often to look again at what only a user can correct, such as a Secret: no watch reports it.
const CORRECTION_INTERVAL: Duration = Duration::from_secs(15);

/// The reason to replace pods whose members have never answered.
const UNHEARD: &str = "it does not answer, and was made from an earlier spec";

/// The reason while the majority is lost, and writes are refused.
const QUORUM_LOST: &str = "QuorumLost";
/// The reason while a majority may be well, but cannot be asked.
const UNREACHABLE: &str = "MembersUnreachable";

/// The facts about a cluster, and conclusions from them.
struct View<'a> {
    /// The object; until a downgrade is prepared, with the version that members run instead of the one that it asks for.
    object: &'a EtcdCluster,
    /// The object as it was written.
    written: &'a EtcdCluster,
    /// The stage of the downgrade to the version that the object asks for.
    downgrade: Option<DowngradeStatus>,
    observed: &'a Observed,
    /// Our members as a majority knows them, by ordinal; empty while there is no majority.
    members: BTreeMap<i32, &'a Member>,
    now: Timestamp,
    /// The transport that pods are to use: plain, TLS or both.
    transport: OnceCell<Transport>,
    /// The revision of the template from which pods are made.
    revision: OnceCell<String>,
}

/// A step, and the health of the cluster meanwhile.
type Step = causeway_databases::Step<Action>;

/// The facts of one look that its steps share.
struct Turn<'a> {
    view: &'a View<'a>,
    /// True if the spec can be followed.
    accepted: bool,
}

/// Returns a step if there is something to do.
type Attempt = fn(&Turn<'_>) -> Option<Step>;

/// The steps by their names in ARCHITECTURE.md, in their order: the first that has something to do is taken.
const STEPS: [(&str, Attempt); 22] = [
    ("label pods and claims", |turn| turn.view.observed.set.label()),
    ("replace pods that never started", |turn| children::replace_never_started(turn.view, turn.accepted)),
    ("renew certificates", |turn| certificates::step(turn.view, turn.accepted)),
    ("apply children", |turn| children::step(turn.view, turn.accepted)),
    ("wake the controller of pods", |turn| turn.view.observed.set.hurry(&turn.view.object.name_any())),
    ("bring back the last spec that worked", |turn| children::bring_back(turn.view)),
    ("grow a full volume", |turn| children::relieve(turn.view, turn.accepted)),
    ("recover from one member", |turn| recovery::step(turn.view)),
    ("wait for a password", |turn| auth::await_password(turn.view, turn.accepted)),
    ("wait for a majority", |turn| without_majority(turn.view, turn.accepted)),
    ("disarm alarms of members that are gone", |turn| space::stale(turn.view)),
    ("switch authentication", |turn| auth::step(turn.view, turn.accepted)),
    ("remove strangers", |turn| strangers::step(turn.view)),
    ("mend members and free space", help),
    ("roll out", |turn| rollout::step(turn.view, turn.accepted)),
    ("downgrade", |turn| downgrade::step(turn.view, turn.accepted)),
    ("change the transport of peers", |turn| transport::step(turn.view, turn.accepted)),
    ("grow volumes", |turn| children::grow(turn.view, turn.accepted)),
    ("apply the backup", |turn| backup::step(turn.view, turn.accepted)),
    ("report strangers", |turn| strangers::trouble(turn.view)),
    ("defragment", |turn| defrag::step(turn.view)),
    ("delete pods on lost nodes", |turn| members::left_on_lost_node(turn.view)),
];

/// The members' own steps. One that only waits holds up neither help for another nor what frees space.
fn help(turn: &Turn<'_>) -> Option<Step> {
    let (view, accepted) = (turn.view, turn.accepted);
    let (help, waiting) = by_urgency(members::step(view, accepted));
    let (freeing, full) = if help.is_none() { by_urgency(space::step(view, accepted)) } else { (None, None) };
    help.or(freeing).or_else(|| space::differ(view)).or(full).or(waiting)
}

/// Decides what to do so that the cluster is as the object says.
pub fn decide(object: &EtcdCluster, observed: &Observed, now: Timestamp) -> Plan<Action, EtcdClusterStatus> {
    let (transport, revision) = (OnceCell::new(), OnceCell::new());
    let unanswered = earlier::without_answers(object, observed);
    let observed = unanswered.as_ref().unwrap_or(observed);
    let downgrade = downgrade::stage(object, observed);
    let held = downgrade::hold_version(object, downgrade.as_ref());
    let (written, object) = (object, held.as_ref().unwrap_or(object));
    let members = observed.members(object);
    let view = View { object, written, downgrade, observed, members, now, transport, revision };
    let (step, rests) = step(&view);
    let next = if rests { defrag::next(&view) } else { None };
    let again = [next, certificates::unread_for(&view)].into_iter().flatten().fold(step.again, Duration::min);
    let plan = Plan {
        parts: status::parts(&view),
        status: EtcdClusterStatus { defrag: defrag::record(&view, &step, rests), ..status::status(&view) },
        write_status_first: recovery::ends(&view)
            || recovery::is_another(&view)
            || auth::begins(&view)
            || defrag::takes_turn(&view, &step)
            || downgrade::is_new(&view)
            || space::is_new(&view, &step),
        health: step.health,
        actions: step.actions,
        requeue: Some(again),
    };
    let restore = |step| ChildAction::Restore(step).into();
    let joined = join(plan, &restore::database(&view), restore, |status, restored| status.restored = restored);
    unless_unsure(&view, joined)
}

/// A member that does not answer for a moment may be as well as before: on a busy machine that happens all the time. If
/// there is nothing to do, status and conditions stay as they are, and the next look comes soon.
fn unless_unsure(view: &View<'_>, plan: Plan<Action, EtcdClusterStatus>) -> Plan<Action, EtcdClusterStatus> {
    let idle = plan.actions.is_empty() && !plan.write_status_first;
    let Some(before) = view.object.status.clone().filter(|_| idle && view.observed.unsure) else { return plan };
    plan.leave_unchanged(before, PROGRESS_INTERVAL / 2)
}

/// Returns the step that comes before everything else, whatever the spec says.
fn first(view: &View<'_>) -> Option<Step> {
    let unknown = || {
        let members: Vec<String> =
            view.observed.quorum.iter().flat_map(|quorum| &quorum.members).map(membership::describe).collect();
        let message = format!(
            "the volumes hold a cluster whose member names differ: {}. Causeway cannot tell which is which, and leaves them \
             alone: back its data up (etcdctl snapshot save) and restore them into another cluster",
            members.join(", ")
        );
        let is_unknown = view.observed.quorum.is_some() && view.members.is_empty();
        is_unknown.then(|| Step::stalled("ForeignMembers", message))
    };
    let set = &view.observed.set;
    children::take_back(view)
        .or_else(|| children::foreign(view))
        .or_else(|| earlier::step(view))
        .or_else(unknown)
        .or_else(|| set.replace_stranded())
        .or_else(|| set.killed(|pod| !pod.own.forced && (!view.is_outdated(pod) || view.is_proven())))
        .or_else(|| set.belated())
}

/// The step, and whether nothing is left to do.
fn step(view: &View<'_>) -> (Step, bool) {
    if let Some(step) = first(view) {
        return (step, false);
    }
    // A spec that cannot be accepted changes nothing; members that are in trouble are helped all the same.
    let complaint = accepted::complaint(view);
    let turn = Turn { view, accepted: complaint.is_none() };
    let step = STEPS.iter().find_map(|(_, step)| step(&turn));
    let step = step.map(|step| space::describe(view, step));
    let refusal = children::report_refused(view, step.is_none()).or_else(|| children::others(view));
    let complaint = complaint.map(|complaint| beside(complaint, view.pod_trouble()));
    match (step, complaint, refusal) {
        (Some(step), None, None) => (step, false),
        // A step that stops the cluster as a whole matters more than a child.
        (Some(step), None, Some(_)) if matches!(step.health, Health::Stalled(_)) => (step, false),
        (Some(step), Some((reason, message)), _) | (Some(step), None, Some((reason, message))) => {
            (Step { health: Health::stalled(reason, message), ..step }, false)
        }
        (None, Some((reason, message)), _) | (None, None, Some((reason, message))) => {
            let is_soon = is_about_secrets(reason) || reason == NAME_TAKEN || view.observed.set.asks_again(view.object);
            let again = if is_soon { CORRECTION_INTERVAL } else { RESYNC_INTERVAL };
            (Step { again, ..Step::stalled(reason, message) }, true)
        }
        (None, None, None) => {
            let members = view.members.len();
            let description = if members == 1 {
                "the member is healthy".into()
            } else {
                format!("all {members} members are healthy")
            };
            let health = Health::ready("AllMembersHealthy", description);
            (Step { health, again: RESYNC_INTERVAL, ..Step::wait("AllMembersHealthy", "") }, true)
        }
    }
}

/// The step, apart from one that only waits. Waiting must not hold up help that others need.
fn by_urgency(step: Option<Step>) -> (Option<Step>, Option<Step>) {
    match step {
        Some(step) if step.actions.is_empty() => (None, Some(step)),
        step => (step, None),
    }
}

/// Reports whether the user is to mend a Secret, or to let us read it.
fn is_about_secrets(reason: &str) -> bool {
    let reasons =
        ["SecretInvalid", "SecretLost", "SecretNotShared", "SecretsDenied", "PasswordMissing", "PasswordInvalid"];
    reasons.contains(&reason)
}

/// Without a majority, nothing is changed that could cost data: only pods that do not run are replaced. They are
/// not replaced before the spec is accepted either, for a new pod would be like the one before. One that has run goes alone, and
/// the next only when the present spec has brought up a pod. Pods that are ready although no member has ever answered go one at
/// a time.
fn without_majority(view: &View<'_>, accepted: bool) -> Option<Step> {
    if view.observed.quorum.is_some() {
        return None;
    }
    let may_go =
        |ordinal: i32, pod: &Pod| accepted && !pod.terminating && !view.answers_at(ordinal) && view.is_outdated(pod);
    // No member has ever answered: they may require certificates that are lost, or only Causeway cannot reach them.
    let (votes, _) = view.last_votes();
    let unheard = |pod: &Pod| votes == 0 && !pod.young;
    let why = |(ordinal, pod): (&i32, &Pod)| {
        if pod.ready || !may_go(*ordinal, pod) {
            None
        } else if pod.trouble.is_some() {
            Some("it does not start, and was made from an earlier spec")
        } else {
            unheard(pod).then_some(UNHEARD)
        }
    };
    let pods = view.observed.set.pods.iter();
    let mut due: Vec<_> = pods.filter_map(|(at, pod)| Some((pod, why((at, pod))?))).collect();
    due.retain(|(pod, _)| pod.trouble.is_none() || !view.must_stay(pod));
    // The first one shows whether the present spec brings up pods. Nothing is lost with those that have never run.
    if !view.is_proven() && due.iter().any(|(pod, _)| pod.trouble.is_some() && pod.has_run) {
        due.sort_by_key(|(pod, _)| pod.has_run);
        let fresh = due.iter().filter(|(pod, _)| !pod.has_run).count();
        due.truncate(fresh.max(1));
    }
    let replaced: Vec<Action> = due.into_iter().map(|(pod, why)| delete_pod(pod, why)).collect();
    if !replaced.is_empty() {
        return Some(Step::act(replaced, "Replacing", "replacing pods that do not start"));
    }
    let mut pods = view.observed.set.pods.iter().rev();
    if let Some((_, pod)) = pods.find(|(at, pod)| unheard(pod) && may_go(**at, pod) && others_serve(view, pod)) {
        let message = format!("replacing {}: {UNHEARD}", pod.name);
        return Some(Step::act(vec![delete_pod(pod, UNHEARD)], "Replacing", message));
    }
    let trouble = view.pod_trouble();
    if !view.has_begun() {
        let description =
            format!("{} of {} members answer", view.observed.statuses.len(), view.observed.set.pods.len());
        return Some(match trouble {
            Some((reason, text)) => Step::trouble(reason, format!("{description}; {text}")),
            None if view.silent().next().is_some() => {
                Step::wait("Bootstrapping", format!("{description}, waiting for {}", view.unwell(view.silent())))
            }
            None => Step::wait("Bootstrapping", format!("{description}, waiting for them to find each other")),
        });
    }
    let (reason, message) = view.missing_majority();
    Some(match reason {
        // Whatever ends this trouble wakes the controller.
        reason if NEVER_STARTS.contains(&reason) => Step::trouble(reason, message),
        QUORUM_LOST | UNREACHABLE => Step { again: RETRY_INTERVAL, ..Step::stalled(reason, message) },
        _ => Step::wait(reason, message),
    })
}

/// Reports whether all other pods are there and ready. If Causeway has never reached a member, it knows nothing else of a
/// cluster that may well serve its clients. A member that lost its data is not waited for: it never becomes ready.
fn others_serve(view: &View<'_>, pod: &Pod) -> bool {
    let set = &view.observed.set;
    let live = set.child("StatefulSet", &view.object.name_any());
    let count = live.and_then(|live| usize::try_from(live.value["spec"]["replicas"].as_u64()?).ok());
    let serves = |other: &Pod| other.loss().is_some() || (other.ready && !other.terminating);
    count.is_some_and(|count| set.pods.len() >= count)
        && set.pods.values().all(|other| other.name == pod.name || serves(other))
}

impl View<'_> {
    /// Reports whether the cluster has begun. From then on, a member without data must never bootstrap another one.
    fn has_begun(&self) -> bool {
        let recorded = self.object.status.as_ref().is_some_and(|status| status.cluster_id.is_some());
        let noted = || self.observed.set.claims.values().any(|claim| claim.ours && claim.member.is_some());
        recorded
            || noted()
            || self.observed.quorum.is_some()
            || children::written_start(self).is_some_and(|start| !start.begins)
    }

    /// The transport of pods that are made now.
    fn transport(&self) -> &Transport {
        self.transport.get_or_init(|| transport::transport(self))
    }

    /// The pods, without those of removed members on lost nodes: these may never stop.
    fn pods(&self) -> impl Iterator<Item = &Pod> {
        let last = self.members.keys().last().copied();
        let is_stranded =
            move |ordinal: i32, pod: &Pod| pod.lost_node.is_some() && last.is_some_and(|last| ordinal > last);
        self.observed.set.pods.iter().filter(move |(ordinal, pod)| !is_stranded(**ordinal, pod)).map(|(_, pod)| pod)
    }

    /// Reports whether the pod was made from another spec, or before a restart that was asked for.
    fn is_outdated(&self, pod: &Pod) -> bool {
        pod.revision != *self.revision() || self.observed.set.is_to_restart(self.object, pod)
    }

    /// The revision of the template from which pods are made.
    fn revision(&self) -> &String {
        let revision = || super::resources::revision(self.object, recovery::begin(self), self.transport());
        self.revision.get_or_init(revision)
    }

    /// Reports whether the member of that ordinal answers and has a leader.
    fn is_healthy(&self, ordinal: i32) -> bool {
        self.members.get(&ordinal).is_some_and(|member| self.observed.is_healthy(ordinal, member))
    }

    /// The members that vote.
    fn voters(&self) -> impl Iterator<Item = i32> {
        self.members.iter().filter(|(_, member)| !member.is_learner).map(|(ordinal, _)| *ordinal)
    }

    /// Where the voters are asked that report a status, that one left out.
    fn other_voters(&self, ordinal: i32) -> Vec<Endpoint> {
        let others = self.voters().filter(|voter| *voter != ordinal && self.observed.statuses.contains_key(voter));
        others.filter_map(|voter| self.observed.endpoint(voter)).collect()
    }

    /// How many voters are healthy, that one not counted.
    fn healthy_voters_without(&self, ordinal: i32) -> usize {
        self.voters().filter(|voter| *voter != ordinal && self.is_healthy(*voter)).count()
    }

    /// How many members vote. Strangers count, although their health is not known.
    fn votes(&self) -> usize {
        self.observed.quorum.iter().flat_map(|quorum| &quorum.members).filter(|member| !member.is_learner).count()
    }

    /// Members that another client added.
    fn strangers(&self) -> impl Iterator<Item = &Member> {
        let is_ours = |member: &&Member| self.members.values().any(|ours| ours.id == member.id);
        self.observed.quorum.iter().flat_map(|quorum| &quorum.members).filter(move |member| !is_ours(member))
    }

    /// Reports whether a majority remains while that one is away.
    fn can_miss(&self, ordinal: i32) -> bool {
        self.healthy_voters_without(ordinal) >= majority(self.votes())
    }

    /// Reports whether a majority of the rest is healthy once that one is no member any more.
    fn can_remove(&self, ordinal: i32) -> bool {
        let others = self.votes() - usize::from(self.voters().any(|voter| voter == ordinal));
        others > 0 && self.healthy_voters_without(ordinal) >= majority(others)
    }

    /// The ordinal of the leader.
    fn leader(&self) -> Option<i32> {
        let leads = |(ordinal, member): (&i32, &&Member)| {
            let status = self.observed.status_of(*ordinal, member)?;
            (status.leader == member.id).then_some(*ordinal)
        };
        self.members.iter().find_map(leads)
    }

    /// The member to send changes to: the leader if it is known, because some changes only the leader can make.
    fn via(&self) -> Option<Endpoint> {
        let leader = self.leader().or_else(|| self.voters().find(|voter| self.is_healthy(*voter)))?;
        self.observed.endpoint(leader)
    }

    /// Trouble of a pod that does not pass by itself, in words that do not change at every try.
    fn pod_trouble(&self) -> Option<(&'static str, String)> {
        self.observed.set.pod_trouble(|pod, word| {
            let name = &pod.name;
            match FIELDS.describe(name, word, &pod.evidence) {
                Some(("ImagePullFailed", _)) if pod.own.forced => {
                    let image = pod.evidence.image.as_ref().map_or_else(String::new, |image| format!(" {image}"));
                    let description = format!(
                        "pod {name} cannot pull image{image}: check spec.version, spec.image and spec.recovery.image, and \
                         whether its node may pull Causeway's own image"
                    );
                    return Some(("ImagePullFailed", description));
                }
                Some(description) => return Some(description),
                None => {}
            }
            match word {
                "CrashLoopBackOff" if let Some(loss) = pod.loss() => {
                    let what = match loss {
                        Loss::Damaged(evidence) => format!("cannot open its data ({evidence})"),
                        Loss::Empty => "has an empty volume although it was a member".into(),
                    };
                    let description = format!(
                        "pod {name} {what}: it is replaced as soon as a majority of the others is healthy (kubectl logs \
                         {name} --previous has all that it said)"
                    );
                    Some(("MemberCrashing", description))
                }
                "CrashLoopBackOff" | "RunContainerError" | "CreateContainerError" | "CreateContainerConfigError" => {
                    let api_message = pod.last_words.as_deref().and_then(damage::log_message);
                    Some(("MemberCrashing", FIELDS.crash(name, &pod.evidence, api_message.as_deref())))
                }
                _ => None,
            }
        })
    }
}

/// How many of `count` voters are a majority.
fn majority(count: usize) -> usize {
    count / 2 + 1
}

fn delete_pod(pod: &Pod, why: &str) -> Action {
    ChildAction::delete_pod(pod, why).into()
}

fn delete_claim(claim: &Claim, why: &str) -> Action {
    ChildAction::delete_claim(claim, why).into()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_architecture_lists_the_steps_in_their_order() {
        let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../ARCHITECTURE.md"));
        let names: Vec<&str> = super::STEPS.iter().map(|(name, _)| *name).collect();
        assert!(page.contains(&format!("\n1. {}\n", names.join("\n1. "))), "{names:#?}");
    }
}
