//! A group that AWS has no room for.

use tokio::sync::watch;
use tokio::time::timeout;

use super::scene::{Scene, described, key, parsed, slice};
use super::*;
use crate::targets::cluster::Entered;

const REFUSED: &str = "<ErrorResponse><Error><Type>Sender</Type><Code>TooManyTargets</Code>\
                       <Message>The maximum number of targets has been reached</Message></Error></ErrorResponse>";
/// Much less than the pause after a refusal.
const TIMEOUT: Duration = Duration::from_secs(20);

/// An AWS with room for one target.
#[derive(Debug, Default)]
struct Aws {
    registered: BTreeSet<String>,
    refusals: usize,
}

impl Aws {
    fn has(&self, address: &str) -> bool {
        self.registered.contains(address)
    }

    fn answer(&mut self, body: &str) -> (u16, String) {
        let (action, ids) = parsed(body);
        match action {
            "RegisterTargets" if self.registered.union(&ids).count() > 1 => {
                self.refusals += 1;
                return (400, REFUSED.to_owned());
            }
            "RegisterTargets" => self.registered.extend(ids),
            "DeregisterTargets" => self.registered.retain(|id| !ids.contains(id)),
            _ => {}
        }
        described(action, self.registered.iter().map(|id| (id, "healthy")))
    }
}

#[tokio::test]
async fn without_room_a_leaving_pod_is_deregistered_at_once() {
    let aws: watch::Sender<Aws> = watch::Sender::default();
    let answers = aws.clone();
    let shared = Scene::cluster();
    let mut scene = Scene::new(shared.clone(), Duration::ZERO, move |body| {
        let mut answer = (500, String::new());
        answers.send_modify(|aws| answer = aws.answer(body));
        answer
    })
    .await;
    let mut seen = aws.subscribe();
    let group = scene.follow("shop", 1, &["10.0.0.1"]);
    let becomes = |pods: &[&str]| {
        let concerned = slice(&group.arn, pods, 8080).enter(&mut shared.cluster(), &key(&group.arn));
        shared.changed(&concerned);
    };
    let first = timeout(TIMEOUT, seen.wait_for(|aws| aws.has("10.0.0.1"))).await;
    assert!(first.is_ok_and(|it| it.is_ok()), "there is room for one");
    becomes(&["10.0.0.1", "10.0.0.2"]);
    let refused = timeout(TIMEOUT, seen.wait_for(|aws| aws.refusals > 0)).await;
    assert!(refused.is_ok_and(|it| it.is_ok()), "there is no room for two");
    becomes(&["10.0.0.2"]);
    let replaced = timeout(TIMEOUT, seen.wait_for(|aws| aws.has("10.0.0.2"))).await;
    assert!(replaced.is_ok_and(|it| it.is_ok()), "the pod that went stays registered");
}
