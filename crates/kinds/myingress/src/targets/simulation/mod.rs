//! A small AWS and a small cluster in memory. Whatever happens in whatever order, the group ends up equal to its
//! endpoints, and no target is lost on the way.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use causeway_aws::aws::AwsError;
use causeway_aws::elbv2::{Target, TargetHealth, TargetState, TargetType};
use causeway_runtime::Class;
use causeway_runtime::guardrails::Beyond;

use super::cache::TargetCache;
use super::cluster::{Cluster, Entered, Key, Kind};
use super::facts::{Endpoint, Family, GatedPod, Pod, Service, ServicePort, Slice};
use super::planner::{Planner, Step};
use super::wanted::{endpoints, remaining};
use super::{Backend, Endpoints, PortName};

mod quota;

const PODS: usize = 6;

/// A change that another client makes in the cluster or in AWS.
#[derive(Clone, Debug)]
enum Event {
    ServiceAppears { number: u16 },
    ServiceGoes,
    SliceIs { slice: usize, pods: Vec<(usize, bool, bool)> },
    SliceGoes { slice: usize },
    Pod { pod: usize, able: bool },
    PodGoes { pod: usize },
    ForeignTarget { pod: usize },
    TargetTakenOut { pod: usize },
    Restart,
}

/// How a call ends.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    Done,
    Throttled,
    Denied,
    Full,
    /// The call had its effect, but its answer was lost.
    LostAnswer,
    /// The call had no effect, because its request was lost.
    LostRequest,
}

fn event() -> impl Strategy<Value = Event> {
    let pod = 0..PODS;
    let endpoint = (0..PODS, any::<bool>(), any::<bool>());
    prop_oneof![
        (80..82_u16).prop_map(|number| Event::ServiceAppears { number }),
        Just(Event::ServiceGoes),
        (0..2_usize, proptest::collection::vec(endpoint, 0..5))
            .prop_map(|(slice, pods)| Event::SliceIs { slice, pods }),
        (0..2_usize).prop_map(|slice| Event::SliceGoes { slice }),
        (pod.clone(), any::<bool>()).prop_map(|(pod, able)| Event::Pod { pod, able }),
        pod.clone().prop_map(|pod| Event::PodGoes { pod }),
        pod.clone().prop_map(|pod| Event::ForeignTarget { pod: pod + 100 }),
        pod.prop_map(|pod| Event::TargetTakenOut { pod }),
        Just(Event::Restart),
    ]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        4 => Just(Outcome::Done),
        1 => Just(Outcome::Throttled),
        1 => Just(Outcome::Denied),
        1 => Just(Outcome::Full),
        1 => Just(Outcome::LostAnswer),
        1 => Just(Outcome::LostRequest),
    ]
}

fn backend() -> Backend {
    let (namespace, service) = ("shop".into(), "web".into());
    let (port, target_type, nodes) = (PortName::Number(80), TargetType::Ip, BTreeMap::new());
    Backend { namespace, service, port, target_type, ipv6: false, nodes, check: None }
}

fn beyond(_: &str) -> Beyond {
    Beyond::Within(vec![["10.0.0.0/30".to_owned()].into()])
}

fn key(name: String) -> Key {
    ("shop".into(), name)
}

fn address(pod: usize) -> IpAddr {
    Ipv4Addr::from_bits(0x0a00_0000 + u32::try_from(pod).unwrap()).into()
}

fn target(pod: usize) -> Target {
    Target { id: address(pod).to_string(), port: 8080 }
}

fn error(class: Class, code: Option<&str>) -> AwsError {
    let (message, ambiguous) = (String::new(), code.is_none());
    AwsError { operation: "", service: "", code: code.map(str::to_owned), message, class, ambiguous }
}

struct Simulation {
    cluster: Cluster,
    aws: BTreeMap<Target, TargetHealth>,
    /// The only targets that AWS accepts.
    accepted: BTreeSet<Target>,
    /// How many targets may be registered at the same time.
    room: usize,
    /// The fewest targets that were registered after one was deregistered.
    fewest: usize,
    planner: Planner,
    /// True if a quota refused targets, and the pause after that is not over yet.
    full: bool,
    /// How many calls a quota refused.
    in_vain: usize,
    /// True if another client removed a target and no read has shown that yet.
    robbed: bool,
    /// The pods that exist.
    pods: BTreeSet<usize>,
    now: Instant,
    version: u64,
}

impl Simulation {
    fn new() -> Self {
        let mut cluster = Cluster::default();
        for kind in [Kind::Services, Kind::Slices, Kind::Pods] {
            cluster.listed(kind, None);
        }
        let (aws, accepted) = (BTreeMap::new(), (0..200).map(target).collect());
        let (planner, pods, now) = (Planner::default(), BTreeSet::new(), Instant::now());
        let (room, fewest, full, robbed) = (usize::MAX, usize::MAX, false, false);
        Self { cluster, aws, accepted, room, fewest, planner, full, in_vain: 0, robbed, pods, now, version: 0 }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::ServiceAppears { number } => {
                let ports = vec![ServicePort { name: "http".into(), number, node_port: None, target: None, tcp: true }];
                Service { ports, ..Service::default() }.enter(&mut self.cluster, &key("web".into()));
            }
            Event::ServiceGoes => {
                Service::leave(&mut self.cluster, &key("web".into()));
            }
            Event::SliceIs { slice, pods } => {
                let endpoint = |(pod, ready, terminating)| Endpoint {
                    address: target(pod).id.into(),
                    ready,
                    terminating,
                    node: None,
                    pod: Some((format!("pod-{pod}").into(), "1".into())),
                };
                let endpoints = pods.into_iter().map(endpoint).collect();
                let (service, ports) = ("web".into(), vec![("http".into(), 8080)]);
                Slice { service, family: Family::V4, ports, endpoints, by_kubernetes: true }
                    .enter(&mut self.cluster, &key(format!("web-{slice}")));
            }
            Event::SliceGoes { slice } => {
                Slice::leave(&mut self.cluster, &key(format!("web-{slice}")));
            }
            Event::Pod { pod, able } => {
                self.version += 1;
                self.pods.insert(pod);
                let (uid, able_since) = ("1".into(), able.then_some(self.now));
                let gated = GatedPod { uid, able, able_since, leaving: false, gate: None, version: self.version };
                Pod { addresses: [address(pod)].into(), serves: able, gated: Some(gated) }
                    .enter(&mut self.cluster, &key(format!("pod-{pod}")));
            }
            Event::PodGoes { pod } => {
                self.pods.remove(&pod);
                Pod::leave(&mut self.cluster, &key(format!("pod-{pod}")));
            }
            Event::ForeignTarget { pod } => {
                self.aws.insert(target(pod), health(TargetState::Healthy));
            }
            Event::TargetTakenOut { pod } => {
                self.robbed |= self.aws.remove(&target(pod)).is_some();
            }
            Event::Restart => self.planner = Planner::default(),
        }
    }

    fn endpoints(&self) -> Endpoints {
        endpoints(&self.cluster, &backend(), beyond)
    }

    /// The targets that the group is to have.
    fn wanted_targets(&self) -> BTreeSet<Target> {
        match self.endpoints() {
            Endpoints::Known(wanted) => wanted.targets,
            _ => remaining(&self.cluster, &backend(), self.planner.cache.there(), beyond).unwrap(),
        }
    }

    /// The registered targets whose pods are gone.
    fn gone_targets(&self) -> BTreeSet<Target> {
        let there = self.planner.cache.there();
        let remaining = remaining(&self.cluster, &backend(), there.clone(), beyond).unwrap();
        there.difference(&remaining).cloned().collect()
    }

    /// Reports whether a registered target stays although the endpoints are not known: its pod exists, or its address
    /// is one of the four that a policy allows.
    fn may_stay(&self, it: &Target) -> bool {
        self.pods.iter().copied().chain(0..4).any(|pod| target(pod) == *it)
    }

    fn registered(&self) -> BTreeSet<Target> {
        let there = self.aws.iter().filter(|(_, health)| health.state != TargetState::Draining);
        there.map(|(target, _)| target.clone()).collect()
    }

    /// One attempt. Its first calls end as these outcomes say, and the others well.
    fn attempt(&mut self, outcomes: &mut impl Iterator<Item = Outcome>) -> Result<(), TestCaseError> {
        self.planner.begin(self.now, self.full);
        for _ in 0..100 {
            self.now += Duration::from_millis(10);
            let (wanted, gone) = (self.wanted_targets(), self.gone_targets());
            let before = self.registered();
            let step = self.planner.next(&wanted, &gone);
            if let Step::Deregister(targets) = &step {
                let known = matches!(self.endpoints(), Endpoints::Known(_));
                prop_assert!(known || !targets.iter().any(|it| self.may_stay(it)), "deregisters what may stay");
                prop_assert!(targets.iter().all(|target| !wanted.contains(target)), "deregisters what is wanted");
                let missing = wanted.iter().filter(|it| self.accepted.contains(it)).all(|it| !before.contains(it));
                let some_stay = targets.len() < before.len() || before.len() == 1;
                let gives_way = self.planner.full() && (some_stay || targets.iter().all(|it| gone.contains(it)));
                let may = wanted.is_empty() || gives_way || self.robbed;
                prop_assert!(may || !missing, "empties a group that is to serve");
            }
            match step {
                Step::Rest => {
                    self.full &= !self.planner.arrived(&wanted);
                    return Ok(());
                }
                Step::Read => self.look(),
                Step::Register(targets) => self.call(&targets, true, outcomes.next().unwrap_or(Outcome::Done)),
                Step::Deregister(targets) => self.call(&targets, false, outcomes.next().unwrap_or(Outcome::Done)),
            }
        }
        Err(TestCaseError::fail("an attempt does not end"))
    }

    fn look(&mut self) {
        self.planner.read(self.aws.clone(), self.now);
        self.robbed = false;
    }

    fn call(&mut self, targets: &[Target], register: bool, outcome: Outcome) {
        let invalid = register && targets.iter().any(|target| !self.accepted.contains(target));
        let after: BTreeSet<Target> = self.registered().into_iter().chain(targets.iter().cloned()).collect();
        let outcome = match outcome {
            Outcome::Done | Outcome::LostAnswer if register && !invalid && after.len() > self.room => Outcome::Full,
            outcome => outcome,
        };
        let in_vain = register && matches!(outcome, Outcome::Full);
        self.full |= in_vain;
        self.in_vain += usize::from(in_vain);
        if !invalid && matches!(outcome, Outcome::Done | Outcome::LostAnswer) {
            let state = if register { TargetState::Healthy } else { TargetState::Draining };
            self.aws.extend(targets.iter().map(|target| (target.clone(), health(state))));
            if !register {
                self.fewest = self.fewest.min(self.registered().len());
            }
        }
        let failure = match outcome {
            Outcome::Done | Outcome::LostAnswer if invalid => error(Class::Invalid, Some("InvalidTarget")),
            Outcome::Done if register => return self.planner.registered(targets, self.now),
            Outcome::Done => return self.planner.deregistered(targets, self.now),
            Outcome::Throttled => error(Class::Throttled, Some("Throttling")),
            Outcome::Denied => error(Class::Denied, Some("AccessDenied")),
            Outcome::Full => error(Class::Denied, Some("TooManyTargets")),
            Outcome::LostAnswer | Outcome::LostRequest => error(Class::Transient, None),
        };
        if register {
            self.planner.not_registered(targets, &failure, self.now);
        } else {
            self.planner.not_deregistered(&failure);
        }
    }

    /// A sweep: time passes, the group is read, and all calls end well.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        self.now += Duration::from_mins(2);
        self.full = false;
        self.look();
        self.attempt(&mut std::iter::empty())
    }
}

fn health(state: TargetState) -> TargetHealth {
    TargetHealth { state, description: None }
}

proptest! {
    #[test]
    fn any_order_of_events_and_failures_converges_and_loses_nothing(
        events in proptest::collection::vec((event(), proptest::collection::vec(outcome(), 0..4)), 1..40),
    ) {
        let mut simulation = Simulation::new();
        for (event, outcomes) in events {
            simulation.happen(event);
            simulation.attempt(&mut outcomes.into_iter())?;
        }
        let before = simulation.registered();
        simulation.settle()?;
        let expected = match simulation.endpoints() {
            Endpoints::Known(wanted) => wanted.targets,
            _ => before.into_iter().filter(|it| simulation.may_stay(it)).collect(),
        };
        prop_assert_eq!(simulation.registered(), expected);
        let wanted = BTreeSet::from_iter(simulation.registered());
        simulation.planner.begin(simulation.now, false);
        prop_assert_eq!(simulation.planner.next(&wanted, &BTreeSet::new()), Step::Rest);
    }

    #[test]
    fn targets_that_aws_refuses_do_not_keep_the_others_out(
        pods in proptest::collection::btree_set(0..500_usize, 1..450),
        refused in proptest::collection::btree_set(0..500_usize, 0..5),
    ) {
        let mut simulation = Simulation::new();
        simulation.accepted = (0..500).filter(|pod| !refused.contains(pod)).map(target).collect();
        simulation.happen(Event::ServiceAppears { number: 80 });
        for pod in &pods {
            simulation.happen(Event::Pod { pod: *pod, able: true });
        }
        let pods: Vec<_> = pods.into_iter().map(|pod| (pod, true, false)).collect();
        let expected: BTreeSet<Target> =
            pods.iter().map(|(pod, ..)| target(*pod)).filter(|target| simulation.accepted.contains(target)).collect();
        simulation.happen(Event::SliceIs { slice: 0, pods: pods.clone() });
        simulation.attempt(&mut std::iter::empty())?;
        prop_assert_eq!(simulation.registered(), expected);
        let wanted: BTreeSet<Target> = pods.iter().map(|(pod, ..)| target(*pod)).collect();
        let all_taken = wanted.is_subset(&simulation.accepted);
        prop_assert_eq!(simulation.planner.refusal(&wanted).is_none(), all_taken);
    }
}

#[test]
fn a_service_that_vanishes_takes_no_target_with_it() {
    let mut simulation = Simulation::new();
    simulation.happen(Event::ServiceAppears { number: 80 });
    simulation.happen(Event::SliceIs { slice: 0, pods: vec![(1, true, false), (2, true, false)] });
    simulation.attempt(&mut std::iter::empty()).unwrap();
    for event in [Event::SliceGoes { slice: 0 }, Event::ServiceGoes] {
        simulation.happen(event);
        simulation.settle().unwrap();
        assert_eq!(simulation.registered(), BTreeSet::from([target(1), target(2)]));
    }
    simulation.happen(Event::ServiceAppears { number: 80 });
    simulation.happen(Event::SliceIs { slice: 0, pods: vec![] });
    simulation.settle().unwrap();
    assert_eq!(simulation.registered(), BTreeSet::new(), "an empty slice is an answer");
}

#[test]
fn a_pod_that_goes_takes_its_target_with_it() {
    let mut simulation = Simulation::new();
    simulation.happen(Event::ServiceAppears { number: 80 });
    for pod in [4, 5] {
        simulation.happen(Event::Pod { pod, able: true });
    }
    simulation.happen(Event::SliceIs { slice: 0, pods: vec![(4, true, false), (5, true, false)] });
    simulation.attempt(&mut std::iter::empty()).unwrap();
    for event in [Event::ServiceGoes, Event::SliceGoes { slice: 0 }] {
        simulation.happen(event);
        simulation.settle().unwrap();
        assert_eq!(simulation.registered(), BTreeSet::from([target(4), target(5)]));
    }
    simulation.happen(Event::PodGoes { pod: 4 });
    simulation.planner.begin(simulation.now, false);
    let next = simulation.planner.next(&simulation.wanted_targets(), &simulation.gone_targets());
    assert_eq!(next, Step::Deregister(vec![target(4)]));
    simulation.settle().unwrap();
    assert_eq!(simulation.registered(), BTreeSet::from([target(5)]));
}

#[test]
fn a_new_group_is_filled_without_reading_it() {
    let mut simulation = Simulation::new();
    simulation.planner = Planner::from(TargetCache::empty(simulation.now));
    simulation.planner.begin(simulation.now, false);
    let wanted = BTreeSet::from([target(1)]);
    assert_eq!(simulation.planner.next(&wanted, &BTreeSet::new()), Step::Register(vec![target(1)]));
}
