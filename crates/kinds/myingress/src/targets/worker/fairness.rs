//! The cost to the others of a namespace whose endpoints change all the time.

use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::scene::{Scene, key, slice};
use super::*;
use crate::targets::cluster::Entered;

/// How long each call takes.
const CALL: Duration = Duration::from_millis(100);
/// Nothing that must not wait for a busy namespace takes longer.
const TIMEOUT: Duration = Duration::from_mins(1);
/// The address of the only pod of each Service.
const POD: &str = "10.0.0.1";

/// An AWS that accepts everything. Whenever it has changed a group of a busy namespace, the pod there has another port.
#[derive(Clone)]
struct Aws {
    shared: Arc<Shared>,
    /// The groups that were changed, one for each call.
    changes: watch::Sender<Vec<String>>,
}

impl Aws {
    fn answer(&self, body: &str) -> String {
        let parameter = |name: &str| body.split('&').find_map(|it| it.strip_prefix(name)?.strip_prefix('='));
        let (action, arn) = (parameter("Action").expect("an action"), parameter("TargetGroupArn").expect("an ARN"));
        if action != "DescribeTargetHealth" {
            self.changes.send_modify(|changes| changes.push(arn.to_owned()));
            if arn.starts_with("busy") {
                let port = u16::try_from(self.changes.borrow().len()).expect("a port");
                let concerned = slice(arn, &[POD], port).enter(&mut self.shared.cluster(), &key(arn));
                self.shared.changed(&concerned);
            }
        }
        format!("<{action}Response><{action}Result></{action}Result></{action}Response>")
    }

    /// Waits until this is true of the groups that were changed.
    async fn wait_until(&self, what: &str, is_so: impl FnMut(&Vec<String>) -> bool) {
        let mut changes = self.changes.subscribe();
        let waited = timeout(TIMEOUT, changes.wait_for(is_so)).await;
        assert!(waited.is_ok_and(|it| it.is_ok()), "{what} takes longer than {TIMEOUT:?}");
    }
}

/// A worker, and its AWS.
async fn scene() -> (Scene, Aws) {
    let shared = Scene::cluster();
    let aws = Aws { shared: shared.clone(), changes: watch::Sender::default() };
    let answers = aws.clone();
    (Scene::new(shared, CALL, move |body| (200, answers.answer(body))).await, aws)
}

#[tokio::test(start_paused = true)]
async fn new_groups_get_targets_beside_restless_namespaces() {
    for (namespaces, most) in [(1, 4), (3, 9)] {
        let (mut scene, aws) = scene().await;
        for namespace in 0..namespaces {
            scene.follow(&format!("busy{namespace}"), 1, &[POD]);
            scene.follow(&format!("busy{namespace}"), 2, &[POD]);
        }
        aws.wait_until("being busy", |changes| changes.len() >= 20).await;
        let before = aws.changes.borrow().len();
        scene.follow("calm", 1, &[POD]);
        let calm = |changes: &Vec<String>| changes.iter().position(|arn| arn == "calm-1");
        aws.wait_until("a new group", |changes| calm(changes).is_some()).await;
        let between = calm(&aws.changes.borrow()).expect("it was registered") - before;
        println!("» beside {namespaces} busy namespaces, {between} of their changes come before a new group");
        assert!(between <= most, "{between} changes of {namespaces} busy namespaces came first");
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_with_restless_endpoints_is_read_when_asked_for() {
    let (mut scene, aws) = scene().await;
    let group = scene.follow("busy", 1, &[POD]);
    aws.wait_until("being busy", |changes| changes.len() >= 20).await;
    let (answer, answered) = oneshot::channel();
    group.recheck(answer);
    let answered = timeout(TIMEOUT, answered).await.expect("an answer in time");
    assert!(answered.is_ok_and(|outcome| outcome.is_ok()), "AWS was asked");
}
