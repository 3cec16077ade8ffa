//! Decides what to do about a cluster. Pure.
//!
//! At most one step that disturbs a member is taken at a time; then the world is observed again. What comes first:
//! children, then a majority, then members that are half added or damaged, then size, then version and settings.

mod accepted;
mod auth;
mod backup;
mod certificates;
mod children;
mod defrag;
mod majority;
mod members;
mod recovery;
mod restore;
mod rollout;
mod space;
mod status;
mod strangers;
mod transport;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::action::Action;
use super::damage;
use super::facts::{Loss, Observed, Pod};
use super::tls::Transport;
use crate::api::{EtcdCluster, EtcdClusterStatus};
use crate::controllers::pod_trouble::{Fields, Unmade};
use crate::controllers::restore_from::join;
use crate::external::etcd::{Endpoint, Member};
use crate::runtime::{Health, Plan};

/// What decides about pods.
const FIELDS: Fields = Fields {
    image: "spec.version and spec.image",
    others: &[],
    apart: "spec.affinity",
    storage: "spec.storageClassName",
};
/// Trouble of a pod that ends only when its spec is mended, or what that asks for is there.
const NEVER_STARTS: [&str; 3] = ["ImagePullFailed", "Unschedulable", "PodRefused"];

/// Look again while something is on its way: members do not tell when they have caught up.
const SOON: Duration = Duration::from_secs(1);
/// Look again while something is in trouble.
const SELDOM: Duration = Duration::from_secs(5);
/// Look again while all is well: whatever happens to members wakes us.
const LATER: Duration = Duration::from_mins(1);

/// Look again while a Secret is to be mended: nobody tells of that.
const OFTEN: Duration = Duration::from_secs(15);

/// Why nothing is written any more.
const QUORUM_LOST: &str = "QuorumLost";

/// What is known, and what follows from it.
struct View<'a> {
    object: &'a EtcdCluster,
    observed: &'a Observed,
    /// Our members as a majority knows them, by ordinal; empty while there is no majority.
    members: BTreeMap<i32, &'a Member>,
    now: Timestamp,
    /// What pods are to speak.
    transport: OnceCell<Transport>,
    /// What pods are to be made from.
    revision: OnceCell<String>,
}

/// A step, and how the cluster is meanwhile.
struct Step {
    actions: Vec<Action>,
    health: Health,
    /// Look again after this.
    again: Duration,
    /// Nothing is left to do.
    rests: bool,
}

impl Step {
    /// Act, and say why.
    fn act(actions: Vec<Action>, reason: &'static str, message: impl Into<String>) -> Self {
        Self { actions, health: Health::progressing(reason, message), again: SOON, rests: false }
    }

    /// Nothing to do now but to wait.
    fn wait(reason: &'static str, message: impl Into<String>) -> Self {
        Self::act(Vec::new(), reason, message)
    }

    /// Trouble that somebody outside may have to end: whatever ends it wakes us.
    fn trouble(reason: &'static str, message: impl Into<String>) -> Self {
        Self { again: SELDOM, ..Self::act(Vec::new(), reason, message) }
    }

    /// Nothing can be done until somebody outside does something.
    fn stalled(reason: &'static str, message: impl Into<String>) -> Self {
        Self { health: Health::stalled(reason, message), again: LATER, ..Self::wait(reason, "") }
    }
}

/// What to do so that the cluster is as the object says.
pub fn decide(object: &EtcdCluster, observed: &Observed, now: Timestamp) -> Plan<Action, EtcdClusterStatus> {
    let (transport, revision) = (OnceCell::new(), OnceCell::new());
    let view = View { object, observed, members: observed.members(object), now, transport, revision };
    let step = step(&view);
    let next = if step.rests { defrag::next(&view) } else { None };
    let again = next.map_or(step.again, |next| next.min(step.again));
    let plan = Plan {
        parts: status::parts(&view),
        status: EtcdClusterStatus { defrag: defrag::record(&view, &step), ..status::status(&view) },
        record_first: recovery::ends(&view)
            || recovery::is_another(&view)
            || auth::begins(&view)
            || defrag::takes_turn(&view, &step),
        health: step.health,
        actions: step.actions,
        requeue: Some(again),
    };
    let joined = join(plan, &restore::database(&view), Action::Restore, |status, restored| status.restored = restored);
    unless_unsure(&view, joined)
}

/// Whoever does not answer for a moment may be as well as before: on a busy machine that happens all the time. Nothing is told
/// of it, nothing written, and it is looked at again soon.
fn unless_unsure(view: &View<'_>, plan: Plan<Action, EtcdClusterStatus>) -> Plan<Action, EtcdClusterStatus> {
    let idle = plan.actions.is_empty() && !plan.record_first;
    let Some(before) = view.object.status.clone().filter(|_| idle && view.observed.unsure) else { return plan };
    let health = Health::Unchanged(Box::new(plan.health));
    let requeue = plan.requeue.map(|again| again.min(SOON / 2));
    Plan { status: before, parts: Vec::new(), health, requeue, ..plan }
}

fn step(view: &View<'_>) -> Step {
    if let Some(step) = children::foreign(view) {
        return step;
    }
    if view.observed.quorum.is_some() && view.members.is_empty() {
        let told = "the volumes hold a cluster whose members are called otherwise: Causeway cannot tell which is which, and \
                    leaves them alone";
        return Step::stalled("ForeignMembers", told);
    }
    if let Some(step) = stranded(view).or_else(|| killed(view)) {
        return step;
    }
    // What cannot be accepted changes nothing; members that are in trouble are helped all the same.
    let complaint = accepted::complaint(view);
    let step = children::label(view)
        .or_else(|| certificates::step(view, complaint.is_none()))
        .or_else(|| children::step(view, complaint.is_none()))
        .or_else(|| recovery::step(view))
        .or_else(|| auth::shut(view, complaint.is_none()))
        .or_else(|| without_majority(view))
        .or_else(|| space::stale(view))
        .or_else(|| auth::step(view, complaint.is_none()))
        .or_else(|| strangers::step(view))
        .or_else(|| members::step(view, complaint.is_none()))
        .or_else(|| space::step(view))
        .or_else(|| rollout::step(view, complaint.is_none()))
        .or_else(|| transport::step(view, complaint.is_none()))
        .or_else(|| children::grow(view, complaint.is_none()))
        .or_else(|| backup::step(view, complaint.is_none()))
        .or_else(|| strangers::trouble(view))
        .or_else(|| defrag::step(view));
    match (step, complaint) {
        (Some(step), None) => step,
        (Some(step), Some((reason, message))) => Step { health: Health::stalled(reason, message), ..step },
        (None, Some((reason, message))) => {
            let again = if is_about_secrets(reason) || reason == "NameTaken" { OFTEN } else { LATER };
            Step { rests: true, again, ..Step::stalled(reason, message) }
        }
        (None, None) => {
            let members = view.members.len();
            let told = if members == 1 {
                "the member is healthy".into()
            } else {
                format!("all {members} members are healthy")
            };
            Step { actions: Vec::new(), health: Health::ready("AllMembersHealthy", told), again: LATER, rests: true }
        }
    }
}

/// Whether the user is to mend a Secret, or to let us read it.
fn is_about_secrets(reason: &str) -> bool {
    ["SecretInvalid", "SecretLost", "SecretsDenied", "PasswordMissing", "PasswordInvalid"].contains(&reason)
}

/// Pods that got a node before their claims were made anew. Where volumes are provided for the node of the pod that wants
/// one, nobody provides these: only a pod without a node asks for that.
/// <https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode>
fn stranded(view: &View<'_>) -> Option<Step> {
    let waits = |(ordinal, pod): &(&i32, &Pod)| {
        let claim = view.observed.claims.get(ordinal);
        pod.placed && !pod.ready && !pod.terminating && claim.is_some_and(|claim| !claim.bound && !claim.terminating)
    };
    let why = "its volume claim was made after it got its node";
    let actions: Vec<Action> = view.observed.pods.iter().filter(waits).map(|(_, pod)| delete_pod(pod, why)).collect();
    (!actions.is_empty()).then(|| Step::act(actions, "Replacing", "replacing pods whose volumes nobody provides"))
}

/// Pods that would wait for minutes to be started again, for their processes were killed.
fn killed(view: &View<'_>) -> Option<Step> {
    let helped = |pod: &Pod| {
        let why = pod.revival.clone().filter(|_| !pod.terminating && !pod.forced && pod.lost_node.is_none())?;
        Some(Action::Revive { name: pod.name.clone(), uid: pod.uid.clone(), why })
    };
    let actions: Vec<Action> = view.observed.pods.values().filter_map(helped).collect();
    (!actions.is_empty()).then(|| Step::act(actions, "Replacing", "replacing pods whose processes were killed"))
}

/// While there is no majority nothing is changed but pods that never got to run: nothing that could cost data.
fn without_majority(view: &View<'_>) -> Option<Step> {
    if view.observed.quorum.is_some() {
        return None;
    }
    let hopeless = |pod: &&Pod| !pod.terminating && !pod.ready && pod.trouble.is_some() && view.is_outdated(pod);
    let answering = |ordinal: &i32| view.observed.statuses.contains_key(ordinal);
    let failing = view.observed.pods.iter().filter(|(ordinal, pod)| hopeless(pod) && !answering(ordinal));
    let why = "it does not start, and was made from an earlier spec";
    let replaced: Vec<Action> = failing.map(|(_, pod)| delete_pod(pod, why)).collect();
    if !replaced.is_empty() {
        return Some(Step::act(replaced, "Replacing", "replacing pods that do not start"));
    }
    let trouble = view.pod_trouble();
    if !view.has_begun() {
        let told = format!("{} of {} members answer", view.observed.statuses.len(), view.observed.pods.len());
        return Some(match trouble {
            Some((reason, text)) => Step::trouble(reason, format!("{told}; {text}")),
            None => Step::wait("Bootstrapping", format!("{told}, waiting for them to find each other")),
        });
    }
    let (reason, message) = view.missing_majority();
    Some(match reason {
        // Whatever ends it wakes us.
        reason if NEVER_STARTS.contains(&reason) => Step::trouble(reason, message),
        QUORUM_LOST => Step { again: SELDOM, ..Step::stalled(reason, message) },
        _ => Step::wait(reason, message),
    })
}

impl View<'_> {
    /// Whether the cluster was begun: from then on a member without data must never begin another.
    fn has_begun(&self) -> bool {
        let recorded = self.object.status.as_ref().is_some_and(|status| status.cluster_id.is_some());
        let noted = || self.observed.claims.values().any(|claim| claim.ours && claim.member.is_some());
        recorded
            || noted()
            || self.observed.quorum.is_some()
            || children::written_start(self).is_some_and(|start| !start.begins)
    }

    /// What pods are to speak that are made now.
    fn transport(&self) -> &Transport {
        self.transport.get_or_init(|| transport::transport(self))
    }

    /// Whether the pod was made from another spec.
    fn is_outdated(&self, pod: &Pod) -> bool {
        let revision = || super::resources::revision(self.object, recovery::begin(self), self.transport());
        pod.revision != *self.revision.get_or_init(revision)
    }

    /// Whether the member of that ordinal answers and has a leader.
    fn is_healthy(&self, ordinal: i32) -> bool {
        self.members.get(&ordinal).is_some_and(|member| self.observed.is_healthy(ordinal, member))
    }

    /// The members that vote.
    fn voters(&self) -> impl Iterator<Item = i32> {
        self.members.iter().filter(|(_, member)| !member.is_learner).map(|(ordinal, _)| *ordinal)
    }

    /// How many voters are healthy, that one not counted.
    fn healthy_voters_without(&self, ordinal: i32) -> usize {
        self.voters().filter(|voter| *voter != ordinal && self.is_healthy(*voter)).count()
    }

    /// How many vote, those counted too that somebody else added: of them nothing is known.
    fn votes(&self) -> usize {
        self.observed.quorum.iter().flat_map(|quorum| &quorum.members).filter(|member| !member.is_learner).count()
    }

    /// Members that somebody else added.
    fn strangers(&self) -> impl Iterator<Item = &Member> {
        let is_ours = |member: &&Member| self.members.values().any(|ours| ours.id == member.id);
        self.observed.quorum.iter().flat_map(|quorum| &quorum.members).filter(move |member| !is_ours(member))
    }

    /// Whether a majority remains while that one is away.
    fn can_miss(&self, ordinal: i32) -> bool {
        self.healthy_voters_without(ordinal) >= majority(self.votes())
    }

    /// Whether a majority of the rest is healthy once that one is no member any more.
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

    /// A member that takes changes: the leader, for only it can do all of them.
    fn via(&self) -> Option<Endpoint> {
        let leader = self.leader().or_else(|| self.voters().find(|voter| self.is_healthy(*voter)))?;
        self.observed.endpoint(leader)
    }

    /// Trouble of a pod that does not pass by itself, told without words that change at every try.
    fn pod_trouble(&self) -> Option<(&'static str, String)> {
        let unmade = || self.observed.unmade.as_ref().map(Unmade::told);
        let of_pod = |pod: &Pod| {
            let name = &pod.name;
            if let Some(node) = &pod.lost_node {
                let told = format!(
                    "pod {name} is on node {node}, which does not answer: its volume cannot follow it before the node is \
                     back or deleted (kubectl delete node {node}, once it is surely off)"
                );
                return Some(("NodeLost", told));
            }
            let word = pod.trouble.as_deref()?;
            match FIELDS.told(name, word, &pod.evidence) {
                Some(("ImagePullFailed", _)) if pod.forced => {
                    let image = pod.evidence.image.as_ref().map_or_else(String::new, |image| format!(" {image}"));
                    let told = format!(
                        "pod {name} cannot pull image{image}: check spec.version, spec.image and spec.recovery.image, and \
                         whether its node may pull Causeway's own image"
                    );
                    return Some(("ImagePullFailed", told));
                }
                Some(told) => return Some(told),
                None => {}
            }
            match word {
                "CrashLoopBackOff" if let Some(loss) = pod.loss() => {
                    let what = match loss {
                        Loss::Damaged(evidence) => format!("cannot open its data ({evidence})"),
                        Loss::Empty => "has an empty volume although it was a member".into(),
                    };
                    let told = format!(
                        "pod {name} {what}: it is replaced as soon as a majority of the others is healthy (kubectl logs \
                         {name} --previous has all that it said)"
                    );
                    Some(("MemberCrashing", told))
                }
                "CrashLoopBackOff" | "RunContainerError" | "CreateContainerError" | "CreateContainerConfigError" => {
                    let said = pod.last_words.as_deref().and_then(damage::said);
                    Some(("MemberCrashing", FIELDS.crash(name, &pod.evidence, said.as_deref())))
                }
                _ => None,
            }
        };
        self.observed.pods.values().find_map(of_pod).or_else(unmade)
    }
}

/// So many of `count` agree on everything.
fn majority(count: usize) -> usize {
    count / 2 + 1
}

fn delete_pod(pod: &Pod, why: &str) -> Action {
    Action::DeletePod { name: pod.name.clone(), uid: pod.uid.clone(), why: why.to_owned() }
}
