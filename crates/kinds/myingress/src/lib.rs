//! `MyIngress`: keeps an Application Load Balancer and everything that belongs to it equal to its object.
//!
//! ```text
//! members ─▶ model ──┐
//!                    ├─▶ decide ─▶ apply ─▶ region ─▶ AWS
//! region ─▶ assets ──┘      └────▶ targets (follow endpoints by themselves)
//! ```

mod action;
mod apply;
pub mod asks;
pub mod commands;
mod decide;
mod drift;
mod error;
mod members;
mod model;
mod observe;
mod ownership;
mod refusals;
mod region;
#[cfg(test)]
mod simulation;
mod targets;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use aws_config::SdkConfig;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::Controller;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Resource, ResourceExt};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout_at};

use commands::orphans::Journal;
use drift::Decided;
use error::Error;
use members::{key, members_of};
use observe::bound::Bound;
use observe::secrets::Secrets;
use ownership::{Concerned, ObjectKey, Owner, group_of};
use refusals::{Noted, Refusals};
use region::{Made, Named, Region};
use targets::{Binding, Targets};

use action::Action;
use causeway_api::{MyIngress, MyIngressStatus};
use causeway_aws::budget::Budget;
use causeway_aws::ec2::Ec2;
use causeway_aws::elbv2::Elbv2;
use causeway_runtime::cluster::Cluster;
use causeway_runtime::guardrails::Guardrails;
use causeway_runtime::leader::Fence;
use causeway_runtime::metrics::Metrics;
use causeway_runtime::{
    ActionEvent, Cause, Environment, ExtraCondition, Health, Kind, Plan, Removal, ScopedStores, Unlisted, undecodable,
};
use observe::facts::Observed;

/// The longest wait for the lists of all namespaces after the start.
const LISTED: Duration = Duration::from_secs(10);

/// The parts from which the controller of `MyIngress` is built.
pub struct Inputs {
    /// Client of the cluster, metrics, and the signal to stop.
    pub environment: Environment,
    /// Configuration of AWS clients.
    pub aws: SdkConfig,
    /// Lets changes pass only while this process leads.
    pub fence: Fence,
    /// Limits the rate of calls to AWS.
    pub budget: Budget,
    /// This cluster, as ownership tags name it.
    pub cluster: Cluster,
    /// How long a replaced load balancer goes on serving.
    pub replacement_grace: Duration,
    /// How many rules a security group may have for each address family.
    pub security_group_rules: u16,
}

/// Runs the controller. Meanwhile it keeps the snapshot of AWS fresh and lets targets follow endpoints.
pub async fn controller(inputs: Inputs) {
    let (metrics, fence) = (inputs.environment.metrics.clone(), inputs.fence.clone());
    let (budget, guardrails) = (inputs.budget, inputs.environment.guardrails.clone());
    let elb = Elbv2::new(&inputs.aws, metrics.clone(), fence.clone(), budget.clone());
    let kind = Arc::new(MyIngressKind {
        region: Region::new(&inputs.aws, &metrics, &fence, budget, elb.clone(), inputs.cluster),
        targets: Targets::new(elb, Ec2::new(&inputs.aws, metrics.clone(), fence.clone()), guardrails.clone()),
        secrets: Secrets::new(inputs.environment.client.clone()),
        stores: ScopedStores::default(),
        begun: Instant::now(),
        bound: Mutex::default(),
        groups_seen: Mutex::default(),
        refusals: Refusals::default(),
        journal: Journal::default(),
        drift: drift::DriftCache::default(),
        metrics: metrics.clone(),
        sweep: inputs.environment.sweep,
        replacement_grace: inputs.replacement_grace,
        security_group_rules: inputs.security_group_rules,
        guardrails,
    });
    let environment = inputs.environment;
    let sweep = environment.sweep;
    let run = causeway_runtime::run(kind.clone(), environment.clone());
    tokio::select! {
        ((), ()) = async { tokio::join!(run, kind.targets.run(&environment)) } => {}
        () = region::keep_fresh(&kind.region, &kind.targets, sweep) => {}
        () = commands::orphans::watch(&kind, &environment) => {}
        () = drift::rivals::watch(&kind, &environment) => {}
        () = kind.secrets.follow(|| kind.objects(), |object| kind.wake(object)) => {}
    }
}

/// The kind, with everything that its objects share.
struct MyIngressKind {
    region: Region,
    targets: Targets,
    secrets: Secrets,
    /// The bindings in force.
    bound: Mutex<Bound>,
    /// The objects, as the watches show them.
    stores: ScopedStores<MyIngress>,
    /// When this process began to list them.
    begun: Instant,
    /// The version of each group member for which the other members were woken last.
    groups_seen: Mutex<HashMap<String, (Option<i64>, bool)>>,
    /// The actions that AWS refused.
    refusals: Refusals,
    /// The objects for which this process created something.
    journal: Journal,
    /// The state that was right before, to recognise changes that others make in AWS.
    drift: drift::DriftCache,
    metrics: Metrics,
    /// How often everything is checked.
    sweep: Duration,
    /// How long a balancer that was replaced goes on serving, and a target group that nothing forwards to stays.
    replacement_grace: Duration,
    /// Rules that a security group may have for each address family.
    security_group_rules: u16,
    /// The policies on what objects may name.
    guardrails: Guardrails,
}

impl MyIngressKind {
    /// All objects that are served.
    fn objects(&self) -> Vec<Arc<MyIngress>> {
        self.stores.all_objects()
    }

    /// Uids of all owners: the served objects, and the groups that they are in.
    fn living(&self) -> BTreeSet<String> {
        self.objects().iter().map(|object| Owner::of_object(self.region.cluster(), object).uid).collect()
    }

    /// Waits until all objects that are served have been listed, but not for long: a namespace that the operator is
    /// denied must not hold up groups of others. Returns the namespaces that are not known.
    async fn listed(&self) -> Unlisted {
        let _ = timeout_at(self.begun + LISTED, self.stores.all_ready()).await;
        self.stores.unlisted_namespaces()
    }

    /// Wakes an object, or its group.
    fn wake(&self, object: &MyIngress) {
        self.region.wake(Owner::of_object(self.region.cluster(), object).concerned());
    }

    /// The bindings in force.
    fn bound(&self) -> MutexGuard<'_, Bound> {
        self.bound.lock()
    }

    /// Replaces all bindings of the owner.
    fn bind(&self, bindings: &[Binding], owner: &ObjectKey) {
        self.targets.bind(bindings.to_vec(), owner);
        self.bound().set(owner, bindings.to_vec(), Timestamp::now());
    }

    /// Binds targets after a restart. They follow their endpoints before listeners and rules have been read, and even
    /// while a spec is invalid.
    async fn bind_early(&self, object: &MyIngress) -> Result<(), Error> {
        let owner = Owner::of_object(self.region.cluster(), object);
        let place = observe::facts::key_of(&owner);
        if object.meta().deletion_timestamp.is_some() || self.bound().knows(&place) {
            return Ok(());
        }
        self.region.ready().await.map_err(Error::from_aws)?;
        if self.region.has_groups(&owner) {
            let assets = self.region.owned_by(&owner);
            let observe::Wanted { members, built, .. } = observe::read_wanted(self, object, &owner).await?;
            // Without the field that cannot be decoded, another backend may be meant. A group leaves such members out.
            let model = built.model.as_ref().filter(|_| members.grouped || undecodable(object.meta()).is_none());
            self.bind(&decide::bindings(model, &members, &owner, &assets), &place);
        }
        Ok(())
    }

    /// Wakes the other members of the object's group if the object changed: one of them may act for the group.
    fn tell_group(&self, object: &MyIngress) {
        let Some(group) = group_of(object) else { return };
        let version = (object.meta().generation, object.meta().deletion_timestamp.is_some());
        let mut seen = self.groups_seen.lock();
        if seen.insert(object.uid().unwrap_or_default(), version) != Some(version) {
            self.region.wake(Concerned::GroupBut(group, key(object)));
        }
    }

    /// The member whose part an action makes that AWS refuses with this message.
    fn blamed(&self, object: &MyIngress, owner: &Owner, action: &Action, api_message: &str) -> Option<Arc<MyIngress>> {
        let members = members_of(object, &self.objects());
        let blamed = refusals::blame::blamed(action, &members, &self.region.owned_by(owner), api_message);
        members.present.into_iter().find(|member| Some(key(member)) == blamed)
    }

    /// Wakes the other members of the object's group, so their status shows what became of it. The object itself goes
    /// on anyway. If its own failures woke it, it would never pause.
    fn wake_others(&self, object: &MyIngress) {
        if let Some(group) = group_of(object) {
            self.region.wake(Concerned::GroupBut(group, key(object)));
        }
    }
}

impl Kind for MyIngressKind {
    type Object = MyIngress;
    type Status = MyIngressStatus;
    type Observed = Observed;
    type Action = Action;
    type Error = Error;

    const NAME: &'static str = "MyIngress";
    const FINALIZER: Option<&'static str> = Some("causeway.example.com/load-balancer");
    const REMOVES_LATE: bool = true;
    const SUSPENDED: &'static str = "spec.suspend is true: nothing is checked or changed, including targets. \
         New pods get no requests, requests to pods that are gone fail, and new pods with the readiness gate do not become \
         ready: set spec.suspend to false before pods are replaced";
    const OBSERVED_CONDITIONS: &'static [&'static str] = &["TargetsHealthy"];

    fn status(object: &MyIngress) -> Option<&MyIngressStatus> {
        object.status.as_ref()
    }

    fn is_suspended(object: &MyIngress) -> bool {
        object.spec.suspend
    }

    fn note_lost(&self, metadata: &ObjectMeta, lost: bool) {
        self.stores.lost_objects().note(metadata, lost);
    }

    fn forget(&self, uid: &str) {
        let in_group = self.groups_seen.lock().remove(uid).is_some();
        let living = in_group.then(|| self.living());
        self.bound().forget_idle(|(_, owner)| owner != uid && living.as_ref().is_none_or(|it| it.contains(owner)));
        self.region.take_found_made(uid);
        self.refusals.forget(uid);
    }

    async fn observe(&self, object: &MyIngress) -> Result<Observed, Error> {
        self.tell_group(object);
        let owner = Owner::of_object(self.region.cluster(), object);
        self.journal.says(&owner, object);
        self.bind_early(object).await?;
        let mut observed = observe::observe(self, object).await?;
        observed.basis = drift::basis(&observed);
        observed.was_right = self.drift.was_right(&observed);
        if decide::retains(object, &observed) {
            self.journal.forget(&owner);
        }
        Ok(observed)
    }

    /// Targets of a suspended object stay as they are. A mistake that hides a field from us does not stop them.
    async fn stand_by(&self, object: &MyIngress) -> Result<(), Error> {
        self.tell_group(object);
        if !object.spec.suspend {
            return self.bind_early(object).await;
        }
        let owner = Owner::of_object(self.region.cluster(), object);
        let place = observe::facts::key_of(&owner);
        let bound = self.bound().get(&place).to_vec();
        let others = decide::bindings_without(object, &bound, &self.region.owned_by(&owner));
        self.bind(&others, &place);
        if others.is_empty() && members_of(object, &self.objects()).all_suspended() {
            // Nothing was decided: once it goes on, its targets follow at once, even while its spec has a mistake.
            self.bound().forget(&place);
        }
        Ok(())
    }

    fn decide(object: &MyIngress, observed: &Observed, now: Timestamp) -> Plan<Action, MyIngressStatus> {
        decide::decide(object, observed, now)
    }

    fn decide_removal(object: &MyIngress, observed: &Observed) -> Removal<Action> {
        decide::decide_removal(object, observed)
    }

    fn removal_waits_for(object: &MyIngress, observed: &Observed) -> Option<Cause> {
        decide::removal_waits_for(object, observed)
    }

    fn remains(object: &MyIngress, observed: &Observed) -> Option<(MyIngressStatus, Vec<ExtraCondition>)> {
        Some(decide::remains(object, observed))
    }

    fn review_plan(
        &self,
        object: &MyIngress,
        observed: &Observed,
        plan: &Plan<Action, MyIngressStatus>,
    ) -> Vec<ActionEvent> {
        if !decide::leads(object, observed) {
            return Vec::new();
        }
        let mut events: Vec<_> = warned(object, plan).into_iter().collect();
        let made = self.region.take_found_made(&observed.owner.uid);
        events.extend(made.iter().map(made_event));
        let now = Timestamp::now();
        let looked = now.checked_sub(self.region.age(&observed.owner)).unwrap_or(now);
        let awaits = plan.actions.is_empty() && decide::waits(object, observed, now);
        let decided = Decided::new(observed, plan, awaits, looked, now);
        let drift = self.drift.take(&observe::facts::key_of(&observed.owner), &decided);
        for difference in &drift.repaired {
            self.metrics.drift_repaired(difference.part);
        }
        events.extend(drift.note.map(|note| ActionEvent::warning("DriftRepaired", note)));
        events.extend(drift.left.map(|note| ActionEvent::warning("DriftLeft", note)));
        events
    }

    async fn apply(&self, object: &MyIngress, action: &Action) -> Result<(), Error> {
        let owner = Owner::of_object(self.region.cluster(), object);
        if action.creates() {
            self.journal.makes(&owner, object);
        }
        apply::apply(self, &owner, object, action).await?;
        self.wake_others(object);
        Ok(())
    }

    fn set_aside(&self, object: &MyIngress, action: &Action, error: &Error) -> bool {
        let owner = Owner::of_object(self.region.cluster(), object);
        let action = &refusals::blame::refused_part(action, &self.region.owned_by(&owner));
        let blamed = self.blamed(object, &owner, action, &error.to_string());
        let noted = self.refusals.note(&observe::facts::key_of(&owner), action, error, blamed.as_deref(), self.sweep);
        if noted == Noted::New {
            self.wake_others(object);
        }
        noted != Noted::Fails
    }

    fn depends(refused: &Action, later: &Action) -> bool {
        action::dependencies::depends(refused, later)
    }

    fn event(action: &Action) -> Option<ActionEvent> {
        action.event()
    }

    fn triggers(&self, controller: Controller<MyIngress>, namespace: Option<&str>) -> Controller<MyIngress> {
        let store = controller.store();
        self.stores.add(namespace, store.clone());
        let served = namespace.map(str::to_owned);
        let is_served = move |namespace: &str| served.as_ref().is_none_or(|served| *served == namespace);
        let members = move |concerned: Concerned| -> Vec<ObjectKey> {
            match concerned {
                Concerned::Object(object) => vec![object],
                Concerned::Group(group) => members_in(&store, &group),
                Concerned::GroupBut(group, but) => {
                    members_in(&store, &group).into_iter().filter(|member| *member != but).collect()
                }
            }
        };
        let changed = self.region.subscribe().flat_map(move |concerned| stream::iter(members(concerned)));
        let woken = stream::select(changed, self.targets.subscribe()).filter_map(move |(namespace, name)| {
            std::future::ready(is_served(&namespace).then(|| ObjectRef::new(&name).within(&namespace)))
        });
        controller.reconcile_on(woken).reconcile_all_on(stream::once(self.region.recovered()))
    }
}

/// The event for an object that no client can connect to from now on, or one of whose rules gets no request.
fn warned(object: &MyIngress, plan: &Plan<Action, MyIngressStatus>) -> Option<ActionEvent> {
    let before = object.status.as_ref().and_then(|status| status.warning.as_ref());
    let warning = plan.status.warning.as_ref().filter(|warning| Some(*warning) != before)?;
    let reason = decide::WARNINGS.into_iter().find(|reason| reason == warning)?;
    let Health::Ready(cause) = &plan.health else { return None };
    Some(ActionEvent::warning(reason, cause.message.clone()))
}

/// The event for a resource that was created although AWS's answer was lost.
fn made_event(made: &Made) -> ActionEvent {
    let what = match made.what {
        Named::Balancer => "load balancer",
        Named::Group => "target group",
    };
    ActionEvent::normal(
        "Created",
        format!("Created {what} {}: AWS's answer was lost, and a later read found it", made.name),
    )
}

fn members_in(store: &Store<MyIngress>, group: &ObjectKey) -> Vec<ObjectKey> {
    let all = store.state().into_iter();
    all.filter(|object| group_of(object).as_ref() == Some(group)).map(|object| key(&object)).collect()
}
