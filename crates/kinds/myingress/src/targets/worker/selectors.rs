//! A Service whose selector changes.

use tokio::sync::watch;
use tokio::time::timeout;

use super::scene::{Scene, described, key, parsed, slice};
use super::*;
use crate::targets::cluster::Entered;
use crate::targets::facts::Pod;

const TIMEOUT: Duration = Duration::from_mins(1);
const FORMER: &str = "10.0.0.1";
const NEW: &str = "10.0.0.2";

/// An AWS with targets, which are healthy or not.
#[derive(Debug, Default)]
struct Aws {
    registered: BTreeSet<String>,
    sick: BTreeSet<String>,
    reads: usize,
}

impl Aws {
    fn answer(&mut self, body: &str) -> (u16, String) {
        let (action, ids) = parsed(body);
        match action {
            "RegisterTargets" => self.registered.extend(ids),
            "DeregisterTargets" => self.registered.retain(|id| !ids.contains(id)),
            _ => self.reads += 1,
        }
        let state = |id| if self.sick.contains(id) { "initial" } else { "healthy" };
        described(action, self.registered.iter().map(|id| (id, state(id))))
    }
}

#[tokio::test]
async fn healthy_pods_serve_until_one_of_another_selector_is_healthy() {
    for former_ends in [false, true] {
        let aws = watch::Sender::new(Aws { sick: [NEW.to_owned()].into(), ..Aws::default() });
        let answers = aws.clone();
        let shared = Scene::cluster();
        let mut scene = Scene::new(shared.clone(), Duration::ZERO, move |body| {
            let mut answer = (500, String::new());
            answers.send_modify(|aws| answer = aws.answer(body));
            answer
        })
        .await;
        let mut seen = aws.subscribe();
        let pod = |address: &str, serves| {
            let pod = Pod { addresses: Box::new([address.parse().expect("an address")]), serves, gated: None };
            let concerned = pod.enter(&mut shared.cluster(), &("shop".into(), address.into()));
            shared.changed(&concerned);
        };
        pod(FORMER, true);
        pod(NEW, true);
        let group = scene.follow("shop", 1, &[FORMER]);
        let is_read = |aws: &Aws| aws.registered.contains(FORMER) && aws.reads > 0;
        let first = timeout(TIMEOUT, seen.wait_for(is_read)).await;
        assert!(first.is_ok_and(|it| it.is_ok()), "the former pod is a target");

        let concerned = slice(&group.arn, &[NEW], 8080).enter(&mut shared.cluster(), &key(&group.arn));
        shared.changed(&concerned);
        let reads = aws.borrow().reads;
        let looked = |aws: &Aws| aws.registered.contains(NEW) && aws.reads > reads;
        let both = timeout(TIMEOUT, seen.wait_for(looked)).await;
        assert!(both.is_ok_and(|it| it.is_ok()), "the new pod is a target, and was looked at");
        assert!(aws.borrow().registered.contains(FORMER), "the new one is not healthy yet");

        if former_ends {
            pod(FORMER, false);
        } else {
            aws.send_modify(|aws| aws.sick.clear());
        }
        let gone = timeout(TIMEOUT, seen.wait_for(|aws| !aws.registered.contains(FORMER))).await;
        assert!(gone.is_ok_and(|it| it.is_ok()), "the former pod is a target still; it ends: {former_ends}");
    }
}
