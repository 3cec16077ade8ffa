//! A small AWS in memory. Every decision must lead to the same end in it, and touch nothing foreign.

mod attributes;
mod aws;
mod certificates;
mod drift;
mod edits;
mod groups;
mod guests;
mod held;
mod kept;
mod networks;
mod occupied;
mod protocols;
mod rare;
mod refused;
mod repaired;
mod restarts;
mod rivals;
mod scenes;
mod shape;
mod shifts;
mod single;
mod specs;
mod sticky;
mod supplies;
mod targets;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Resource, ResourceExt};

use super::action::Action;
use super::decide::{bindings, bindings_without, decide, decide_removal, leads, waits};
use super::drift::{self as drift_memory, Decided, Drift};
use super::members::{key, members_but, members_of};
use super::model::{self, GroupModel, Inputs, Limits, Model, SecurityModel, SubnetsModel, fixtures};
use super::observe::depth;
use super::ownership::{ObjectKey, Owner, adoption_tag};
use super::refusals::Refusal;
use super::targets::{CheckPort, Endpoints, Summary};
use crate::action::dependencies::depends;
use crate::drift::rivals::rival;
use crate::members::occupied::Occupied;
use crate::observe::bound::Bound;
use crate::observe::facts::{Adoption, Observed, key_of};
use crate::ownership::names::candidates;
use crate::region::assets::Assets;
use aws::Aws;
use causeway_api::MyIngress;
use causeway_api::myingress::Scheme;
use causeway_aws::ec2::{SecurityGroup, Subnet};
use causeway_aws::elbv2::State;
use causeway_runtime::cluster::Cluster;
use causeway_runtime::{Health, Plan, Unlisted};
use supplies::Supply;

/// Rounds of one reconcile.
const ROUNDS: usize = 12;
/// After this many reconciles of every object without an end, something is wrong.
const PASSES: usize = 40;

/// Reports whether AWS refuses an action.
pub type Refused = fn(&Action) -> bool;

/// AWS, the objects with the status that is kept from plan to plan, and what the operator keeps in memory.
#[derive(Clone, Debug, Default)]
pub struct Simulation {
    pub aws: Aws,
    pub objects: Vec<MyIngress>,
    /// The health of each object when it was last decided about.
    pub health: BTreeMap<ObjectKey, Health>,
    bound: Bound,
    /// True if the security groups were read, as they are once an object needs one.
    security_groups_known: bool,
    /// The balancers whose listeners the operator has not read since it started.
    unread: BTreeSet<String>,
    /// The balancers that use each target group, as the last sweep saw them.
    used_by: BTreeMap<String, BTreeSet<String>>,
    /// How many actions may still be carried out before the operator dies.
    life: Option<usize>,
    /// How long a balancer that was replaced goes on serving, and a target group that nothing forwards to stays.
    pub grace: Duration,
    pub now: Timestamp,
    /// When an object is to be looked at again.
    due: Option<Timestamp>,
    /// The actions that were carried out.
    pub journal: Vec<Action>,
    /// The actions that AWS refused, and that are not tried now.
    pub refusals: Vec<Refusal>,
    /// The actions that AWS will refuse, and the reason.
    pub refuses: Option<(Refused, &'static str)>,
    /// The state that the operator found right.
    drift: BTreeMap<ObjectKey, drift_memory::State>,
    /// Drift that was reported.
    pub repaired: Vec<Drift>,
    /// The cluster, if it is not the usual one.
    pub cluster: Option<Cluster>,
    /// Namespaces whose objects are not known.
    pub unlisted: Unlisted,
    /// Number of the port called `metrics` on all pods.
    pub metrics: CheckPort,
    /// The supply behind each Service, where that is not a healthy pod.
    pub supplies: BTreeMap<String, Supply>,
    /// The answer to each request before an edit, and the losses since.
    pub watch: Option<edits::Watch>,
}

/// The usual cluster.
pub fn cluster() -> Cluster {
    Cluster { name: "prod".into(), uid: Some("uid-of-prod".into()) }
}

impl Simulation {
    pub fn with(objects: Vec<MyIngress>) -> Self {
        Self { objects, metrics: CheckPort::Is(9100), ..Self::default() }
    }

    pub fn owner(object: &MyIngress) -> Owner {
        Owner::of_object(&cluster(), object)
    }

    fn owner_of(&self, object: &MyIngress) -> Owner {
        Owner::of_object(self.cluster.as_ref().unwrap_or(&cluster()), object)
    }

    /// The first object with that name.
    pub fn object(&mut self, name: &str) -> &mut MyIngress {
        self.objects.iter_mut().find(|object| object.name_any() == name).unwrap()
    }

    /// Marks an object as deleted.
    pub fn delete(&mut self, name: &str) {
        self.object(name).metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    }

    /// Returns the observation that `observe` would make.
    pub fn observe(&mut self, object: &MyIngress) -> Observed {
        let object = &counted(object);
        let owner = self.owner_of(object);
        let known: Vec<Arc<MyIngress>> = self.objects.iter().map(|object| Arc::new(counted(object))).collect();
        let members = members_but(object, &known, self.unlisted.clone()).unwrap();
        let secrets = fixtures::secrets();
        let (limits, certificates) = (Limits::default(), aws::certificates());
        let certificates = members.grouped.then_some(certificates.as_slice());
        let mut assets = self.aws.assets.owned_by(&owner);
        let standing: Vec<Scheme> = assets.balancers.values().filter_map(|member| member.balancer.scheme).collect();
        let again = |occupied: &Occupied| {
            let inputs = Inputs { owner: &owner, secrets: &secrets, limits: &limits, certificates, occupied };
            model::build_beside(&standing, &members, &inputs)
        };
        let mut built = again(&Occupied::default());
        let deleting = object.meta().deletion_timestamp.is_some();
        let status = object.status.clone().unwrap_or_default();
        let security = built.model.as_ref().map(|model| &model.balancer.security);
        self.security_groups_known |=
            matches!(security, Some(SecurityModel::Managed { .. })) || status.security_group.is_some() || deleting;

        for (arn, member) in &mut assets.groups {
            member.group.balancers = self.used_by.get(arn).cloned().unwrap_or_default();
        }
        if !self.security_groups_known {
            assets.security_groups.clear();
        }
        if depth(object, &members, &built).listeners {
            self.unread.retain(|arn| !assets.balancers.contains_key(arn));
        }
        for (arn, member) in &mut assets.balancers {
            if self.unread.contains(arn) {
                member.listeners = None;
            }
        }
        let names: Vec<String> = [Scheme::Internal, Scheme::InternetFacing]
            .into_iter()
            .flat_map(|scheme| candidates(&owner, scheme, object.spec.name.as_deref()))
            .chain(status.alb.iter().map(|alb| alb.name.clone()))
            .collect();
        let balancers = || self.aws.assets.balancers.values();
        let foreign = |arn: &str| balancers().any(|it| it.balancer.arn == arn && !owner.owns(&it.tags));
        let groups = &self.aws.assets.groups;
        let taken = |names: &BTreeSet<&String>| {
            let others = groups.iter().filter(|(_, it)| names.contains(&it.group.name) && !owner.owns(&it.tags));
            others.map(|(arn, it)| (it.group.name.clone(), arn.clone())).collect::<BTreeMap<_, _>>()
        };
        let mut occupied = Occupied::new(&assets, &owner);
        let rival = rival(&self.aws.assets, &owner, !assets.is_empty());
        if rival.is_some() {
            // Nothing is looked up for an owner that does nothing.
        } else if members.grouped {
            occupied.resolve_names(&mut built, &owner, again, taken);
        } else {
            occupied.foreign = taken(&built.model.iter().flat_map(|model| model.groups.keys()).collect());
        }
        let adopt = built.model.as_ref().and_then(|model| model.balancer.adopt.as_ref());
        let mut observed = Observed {
            rival,
            taken: balancers().map(|it| it.balancer.name.clone()).filter(|name| names.contains(name)).collect(),
            taken_groups: occupied.foreign,
            disowned: status.alb.filter(|alb| foreign(&alb.arn)),
            adoption: adopt.filter(|_| assets.balancers.is_empty()).map(|name| self.adoption(name, &owner)),
            subnets: built.model.as_ref().map(|model| subnets(model, &assets)).unwrap_or_default(),
            security_groups: built.model.as_ref().map(called).unwrap_or_default(),
            certificates: aws::certificates(),
            endpoints: built.model.iter().flat_map(|it| &it.groups).map(|it| self.endpoints(it)).collect(),
            summaries: assets.groups.keys().filter_map(|arn| Some((arn.clone(), self.summary(&owner, arn)?))).collect(),
            bound: self.bound.get(&key_of(&owner)).to_vec(),
            idle: self.bound.idle(&key_of(&owner), |arn| assets.groups.contains_key(arn)),
            refusals: self.refusals.clone(),
            replacement_grace: self.grace,
            limits: Limits::default(),
            basis: 0,
            was_right: false,
            owner,
            members,
            built,
            assets,
        };
        observed.expect_targets();
        observed.basis = drift_memory::basis(&observed);
        let state = self.drift.get(&key_of(&observed.owner));
        observed.was_right = state.is_some_and(|state| state.was_right(&observed));
        observed
    }

    fn endpoints(&self, (name, group): (&String, &GroupModel)) -> (String, Endpoints) {
        let check = if group.backend.check.is_some() { self.metrics.clone() } else { CheckPort::Unknown };
        (name.clone(), self.supply(&group.backend).endpoints(check))
    }

    fn adoption(&self, name: &str, owner: &Owner) -> Adoption {
        let Some(member) = self.aws.assets.balancers.values().find(|it| it.balancer.name == name) else {
            return Adoption::Missing;
        };
        let (key, value) = adoption_tag(owner);
        if member.tags.get(&key) == Some(&value) {
            Adoption::Agreed { arn: member.balancer.arn.clone() }
        } else {
            Adoption::Refused
        }
    }

    /// The summary of a bound group. AWS checks only targets of groups that are used.
    fn summary(&self, owner: &Owner, arn: &String) -> Option<Summary> {
        let mut bound = self.bound.get(&key_of(owner)).iter();
        let binding = bound.find(|binding| binding.group_arn.as_ref() == Some(arn))?;
        let used = !self.aws.assets.groups.get(arn)?.group.balancers.is_empty();
        let supply = if self.aws.sick.contains(arn) { Supply::Unjudged } else { self.supply(&binding.backend) };
        let mut summary = supply.summary(used);
        if let Some(former) = &binding.former {
            let former = self.supply(former).summary(used);
            summary.healthy = summary.healthy.max(former.healthy);
            summary.registered += former.registered;
        }
        Some(summary)
    }

    /// Binds targets as a process does that has just started.
    fn bind_early(&mut self, object: &MyIngress) {
        let place = key_of(&self.owner_of(object));
        if self.bound.knows(&place) {
            return;
        }
        let observed = self.observe(object);
        if !observed.assets.groups.is_empty() {
            let model = observed.built.model.as_ref();
            let all = bindings(model, &observed.members, &observed.owner, &observed.assets);
            self.bound.set(&place, all, self.now);
        }
    }

    /// Lets the operator work until nothing is left to do. With `crash` it dies after this many actions, and another
    /// one goes on.
    pub fn settle(&mut self, crash: Option<usize>) {
        self.life = crash;
        for _ in 0..PASSES {
            let mut quiet = true;
            for key in self.objects.iter().map(key).collect::<Vec<_>>() {
                quiet &= self.reconcile(&key);
            }
            quiet &= !self.aws.time_passes();
            self.sweep();
            if let Some(due) = self.due.take().filter(|_| quiet) {
                self.now = self.now.max(due);
            } else if quiet {
                return;
            }
        }
        let last = &self.journal[self.journal.len().saturating_sub(10)..];
        panic!("never settles: {:#?}\n{last:#?}", self.health);
    }

    /// One reconcile. Returns whether it had nothing to do.
    pub fn reconcile(&mut self, which: &ObjectKey) -> bool {
        let Some(place) = self.objects.iter().position(|object| key(object) == *which) else { return false };
        let object = self.objects[place].clone();
        if object.meta().deletion_timestamp.is_some() {
            return self.remove(place, &object);
        }
        if object.spec.suspend {
            let owner = self.owner_of(&object);
            let place = key_of(&owner);
            let others = bindings_without(&object, self.bound.get(&place), &self.aws.assets.owned_by(&owner));
            let known: Vec<Arc<MyIngress>> = self.objects.iter().cloned().map(Arc::new).collect();
            let forgotten = others.is_empty() && members_of(&object, &known).all_suspended();
            self.bound.set(&place, others, self.now);
            if forgotten {
                self.bound.forget(&place);
            }
            return true;
        }
        for round in 0..ROUNDS {
            let object = self.objects[place].clone();
            self.bind_early(&object);
            let observed = self.observe(&object);
            let plan = decide(&object, &observed, self.now);
            if leads(&object, &observed) {
                let awaits = plan.actions.is_empty() && waits(&object, &observed, self.now);
                let decided = Decided::new(&observed, &plan, awaits, self.now, self.now);
                let drift = self.drift.entry(key_of(&observed.owner)).or_default().take(&decided);
                self.repaired.extend((drift != Drift::default()).then_some(drift));
            }
            if observed.complaint(&object).is_some() {
                assert_eq!(plan.actions, [], "nothing is half-made because of a mistake");
            }
            if plan.write_status_first || plan.actions.is_empty() {
                self.objects[place].status = Some(plan.status.clone());
                self.look(&observed.owner, &"the status");
            }
            let Plan { actions, health, mut requeue, .. } = plan;
            if observed.rival.is_some() {
                // Time alone changes nothing here.
                requeue = None;
            }
            let due = requeue.filter(|_| actions.is_empty()).map(|requeue| self.now + requeue);
            self.due = due.into_iter().chain(self.due).min();
            self.health.insert(which.clone(), health);
            if actions.is_empty() {
                return round == 0 && object.status == self.objects[place].status;
            }
            if !self.carry_out(&observed.owner, &actions) {
                return false;
            }
        }
        panic!("still something to do after {ROUNDS} rounds: {:#?}", self.objects[place]);
    }

    fn remove(&mut self, place: usize, object: &MyIngress) -> bool {
        for _ in 0..ROUNDS {
            let observed = self.observe(object);
            let removal = decide_removal(object, &observed);
            if removal.actions.is_empty() {
                self.objects.remove(place);
                self.health.remove(&key(object));
                return false;
            }
            if !self.carry_out(&observed.owner, &removal.actions) {
                return false;
            }
        }
        panic!("a removal has no end: {object:#?}");
    }

    /// Returns false if a conflict or death ended it early.
    fn carry_out(&mut self, owner: &Owner, actions: &[Action]) -> bool {
        let mut missing: Vec<&Action> = Vec::new();
        for action in actions {
            if missing.iter().any(|refused| depends(refused, action)) {
                missing.push(action);
                continue;
            }
            let (done, refused) = refused::split(action, self.refuses);
            for action in done {
                if self.life == Some(0) {
                    self.die();
                    return false;
                }
                self.life = self.life.map(|life| life - 1);
                self.journal.push(action.clone());
                if let Action::Bind(bindings) = &action {
                    self.bound.set(&key_of(owner), bindings.clone(), self.now);
                } else if self.aws.act(owner, &action).is_err() {
                    return false;
                }
                self.look(owner, &action);
            }
            if let Some((refused, reason)) = refused {
                refused::note(&mut self.refusals, refused, reason);
                missing.push(action);
            }
        }
        true
    }

    pub fn die(&mut self) {
        self.life = None;
        self.bound = Bound::default();
        self.drift.clear();
        self.security_groups_known = false;
        self.unread = self.aws.assets.balancers.keys().cloned().collect();
        self.aws.assets.groups.values_mut().for_each(|member| member.fresh = false);
        self.sweep();
    }

    fn sweep(&mut self) {
        let groups = self.aws.assets.groups.iter();
        self.used_by = groups.map(|(arn, member)| (arn.clone(), member.group.balancers.clone())).collect();
    }

    /// ARNs of the groups that the owner's targets follow.
    pub fn followed(&self, owner: &Owner) -> BTreeSet<String> {
        let bound = self.bound.get(&key_of(owner)).iter();
        bound.filter_map(|binding| binding.group_arn.clone()).collect()
    }

    /// Makes every balancer active.
    pub fn activate(&mut self) {
        self.aws.assets.balancers.values_mut().for_each(|member| member.balancer.state = State::Active);
    }
}

fn subnets(model: &Model, assets: &Assets) -> Vec<Subnet> {
    let balancer = &model.balancer;
    let missing = || assets.balancers.values().all(|member| member.balancer.scheme != Some(balancer.scheme));
    let needed = balancer.security.needs_vpc() || !assets.groups.is_empty();
    let all = aws::subnets().into_iter();
    match &balancer.subnets {
        SubnetsModel::Tagged { tags, .. } => {
            all.filter(|subnet| tags.keys().all(|key| subnet.tags.contains_key(key))).collect()
        }
        SubnetsModel::Ids(ids) if needed && missing() => all.filter(|subnet| ids.contains(&subnet.id)).collect(),
        SubnetsModel::Ids(_) => Vec::new(),
    }
}

/// The object with a generation that differs for every spec.
fn counted(object: &MyIngress) -> MyIngress {
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(&object.spec).unwrap().hash(&mut hasher);
    let mut object = object.clone();
    object.metadata.generation = Some(i64::from_ne_bytes(hasher.finish().to_ne_bytes()));
    object
}

/// Security groups of others that a model names by id or name.
fn called(model: &Model) -> Vec<SecurityGroup> {
    let called = model.balancer.security.looked_up();
    let is_called = |group: &SecurityGroup| called.contains(&group.id) || called.contains(&group.tags["Name"]);
    aws::others().into_iter().filter(is_called).collect()
}
