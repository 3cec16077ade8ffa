//! A small cluster in memory. Decisions must lead to the same end from every state of it.

use proptest::prelude::*;

use causeway_api::{MyApp, MyAppSpec};
use causeway_runtime::{Health, Plan};

use super::apply::Action;
use super::decide::decide;
use super::observe::{Observed, ObservedPod};
use super::resources::{pod_name, revision};

fn app(replicas: i32, banner: &str) -> MyApp {
    let spec = MyAppSpec {
        image: "nginx:latest".into(),
        banner: banner.into(),
        replicas,
        command: Vec::new(),
        suspend: false,
    };
    let mut app = MyApp::new("web", spec);
    app.metadata.namespace = Some("shop".into());
    app.metadata.uid = Some("uid".into());
    app
}

#[derive(Clone, Debug, Default)]
struct Simulation {
    pods: Vec<ObservedPod>,
    born: usize,
}

impl Simulation {
    fn observe(&self) -> Observed {
        Observed { pods: self.pods.clone(), denied: None }
    }

    fn act(&mut self, object: &MyApp, action: &Action) {
        match action {
            Action::Create { name, .. } => {
                assert!(!self.pods.iter().any(|pod| pod.name == *name), "{name} exists already");
                self.born += 1;
                self.pods.push(ObservedPod {
                    name: name.clone(),
                    uid: format!("uid-{}", self.born),
                    revision: revision(object),
                    ..ObservedPod::default()
                });
            }
            Action::Label { uid, .. } => {
                self.pods.iter_mut().filter(|pod| pod.uid == *uid).for_each(|pod| pod.mislabelled = false);
            }
            Action::Delete { uid, .. } => {
                self.pods.iter_mut().filter(|pod| pod.uid == *uid).for_each(|pod| pod.terminating = true);
            }
        }
    }

    /// Lets time pass for the kubelet: pods that stop are gone, others become ready.
    fn pass_time(&mut self) {
        self.pods.retain(|pod| !pod.terminating);
        self.pods.iter_mut().filter(|pod| !pod.finished).for_each(|pod| pod.ready = true);
        self.pods.sort_by(|a, b| a.name.cmp(&b.name));
    }

    fn count_serving(&self) -> usize {
        self.pods.iter().filter(|pod| pod.ready && !pod.terminating).count()
    }
}

/// Decides and acts until nothing is left to do. `stop_after` cuts the first plan short, as a crash would.
fn settle(
    simulation: &mut Simulation,
    object: &MyApp,
    mut stop_after: Option<usize>,
) -> Plan<Action, causeway_api::MyAppStatus> {
    for _ in 0..1000 {
        let plan = decide(object, &simulation.observe());
        let actions = plan.actions.iter().take(stop_after.take().unwrap_or(usize::MAX));
        actions.for_each(|action| simulation.act(object, action));
        let before = format!("{:?}", simulation.pods);
        simulation.pass_time();
        if plan.actions.is_empty() && before == format!("{:?}", simulation.pods) {
            return plan;
        }
    }
    panic!("never settles: {simulation:#?}");
}

fn any_pod() -> impl Strategy<Value = ObservedPod> {
    (0..8i32, any::<[bool; 4]>(), 0..3usize).prop_map(
        |(index, [ready, terminating, finished, mislabelled], revised)| ObservedPod {
            name: pod_name(&app(0, ""), index),
            uid: format!("old-{index}"),
            revision: [revision(&app(0, "new")), revision(&app(0, "old")), String::new()][revised].clone(),
            changed_image: None,
            ready: ready && !finished,
            terminating,
            finished,
            mislabelled,
            trouble: None,
        },
    )
}

fn any_world() -> impl Strategy<Value = Simulation> {
    proptest::collection::vec(any_pod(), 0..10).prop_map(|mut pods| {
        pods.sort_by(|a, b| a.name.cmp(&b.name));
        pods.dedup_by(|a, b| a.name == b.name);
        Simulation { pods, born: 0 }
    })
}

proptest! {
    #[test]
    fn every_world_converges_even_after_a_crash(mut simulation in any_world(), replicas in 0..8i32, crash in 0..5usize) {
        let object = app(replicas, "new");
        let plan = settle(&mut simulation, &object, Some(crash));
        prop_assert!(matches!(plan.health, Health::Ready(_)), "{:?}", plan.health);
        prop_assert_eq!(plan.status.ready_replicas, replicas);
        prop_assert_eq!(plan.status.updated_replicas, replicas);
        let names: Vec<String> = (0..replicas).map(|index| pod_name(&object, index)).collect();
        prop_assert!(simulation.pods.iter().all(|pod| names.contains(&pod.name) && pod.revision == revision(&object)));
    }

    #[test]
    fn a_rollout_never_takes_more_than_one_pod(replicas in 1..8i32) {
        let mut simulation = Simulation::default();
        settle(&mut simulation, &app(replicas, "old"), None);
        let object = app(replicas, "new");
        loop {
            let plan = decide(&object, &simulation.observe());
            if plan.actions.is_empty() && simulation.pods.iter().all(|pod| pod.ready && !pod.terminating) {
                break;
            }
            plan.actions.iter().for_each(|action| simulation.act(&object, action));
            prop_assert!(simulation.count_serving() + 1 >= usize::try_from(replicas).unwrap(), "{simulation:#?}");
            simulation.pass_time();
        }
        prop_assert!(simulation.pods.iter().all(|pod| pod.revision == revision(&object)));
    }

    #[test]
    fn a_converged_world_plans_nothing(mut simulation in any_world(), replicas in 0..8i32) {
        let object = app(replicas, "new");
        settle(&mut simulation, &object, None);
        prop_assert_eq!(decide(&object, &simulation.observe()).actions, Vec::new());
    }
}

#[test]
fn a_revision_that_does_not_get_ready_costs_one_pod() {
    let mut simulation = Simulation::default();
    settle(&mut simulation, &app(3, "good"), None);
    let bad = app(3, "bad");
    for _ in 0..10 {
        decide(&bad, &simulation.observe()).actions.iter().for_each(|action| simulation.act(&bad, action));
        simulation.pass_time();
        let revision = revision(&bad);
        simulation.pods.iter_mut().filter(|pod| pod.revision == revision).for_each(|pod| pod.ready = false);
    }
    assert_eq!(simulation.count_serving(), 2, "{simulation:#?}");
    let plan = settle(&mut simulation, &app(3, "mended"), None);
    assert!(matches!(plan.health, Health::Ready(_)));
}

/// The image that a webhook gave a pod is no reason to replace it; one that was changed by hand later is.
#[test]
fn the_revision_decides_which_pods_are_replaced() {
    use k8s_openapi::api::core::v1::Pod;

    let object = app(1, "new");
    let seen = |image: &str, admitted: Option<&str>| {
        let mut pod: Pod = super::resources::pod(&object, 0);
        pod.spec.as_mut().unwrap().containers[0].image = Some(image.into());
        let annotations = pod.metadata.annotations.as_mut().unwrap();
        annotations.extend(admitted.map(|image| (super::resources::ADMITTED.to_owned(), image.to_owned())));
        let mut pod = super::observe::observe_pod(&pod, &object);
        pod.ready = true;
        decide(&object, &Observed { pods: vec![pod], denied: None }).actions
    };
    assert_eq!(seen("nginx:latest", None), []);
    assert_eq!(seen("mirror/nginx:latest", Some("mirror/nginx:latest")), []);
    let changed = seen("nginx:1", Some("mirror/nginx:latest"));
    let [Action::Delete { why, .. }] = &changed[..] else { panic!("{changed:?}") };
    assert!(why.contains("nginx:1"), "{why}");
}
