//! Authentication: from the beginning, and turned on and off while clients write. Passwords are changed in the Secret
//! and by hand, and operators die in the middle of it.

use std::time::Duration;

use causeway_api::EtcdCluster;
use causeway_databases::etcd::{Endpoint, Grpc, Password, ROOT, Request, Transport, Trouble};
use etcd_client::{Client, ConnectOptions};
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::checker::Checker;
use super::{
    NAME, Stage, WAIT_TIMEOUT, access, becomes, describe, is_settled, pods, running, settled, spec, stalls, took, uids,
};
use crate::support::wait::wait_within;
use crate::support::{Interception, Moment, Operator, Scene, Target};

/// The Secret with the password that root is to have.
const GIVEN: &str = "db-auth";

async fn password(scene: &Scene, secret: &str) -> String {
    access::text(&scene.api::<Secret>().get(secret).await.expect("the Secret"), "password")
}

async fn change_password(scene: &Scene, password: &str) {
    let patch = Patch::Merge(json!({ "stringData": { "password": password } }));
    scene.api::<Secret>().patch(GIVEN, &PatchParams::default(), &patch).await.expect("the change is accepted");
}

/// Waits until this is recorded as root's password, and no other password is about to be set.
async fn has_password(scene: &Scene, wanted: &str) {
    let api = scene.api::<Secret>();
    let look = || async { api.get(access::ROOT).await.expect("the Secret") };
    let good = |secret: &Secret| access::text(secret, "password") == wanted && access::text(secret, "next").is_empty();
    wait_within(WAIT_TIMEOUT, "root to have the other password", look, good).await;
}

fn url(pod: &Pod) -> String {
    let address = pod.status.as_ref().and_then(|status| status.pod_ip.clone()).expect("an address");
    format!("http://{address}:2379")
}

/// Returns each member's answer to a read with that login.
async fn answers(scene: &Scene, login: Option<&str>) -> Vec<Option<Trouble>> {
    let (grpc, mut all) = (Grpc::default(), Vec::new());
    for pod in pods(scene).await {
        let endpoint = Endpoint { url: url(&pod), tls: None, login: login.map(|text| Password(text.into())) };
        let call = tokio::time::timeout(Duration::from_secs(5), grpc.call(&endpoint, &Request::Read));
        all.push(call.await.map_or(Some(Trouble::Unanswered), |answer| answer.err().map(|error| error.trouble)));
    }
    all
}

/// Waits until every member answers like that.
async fn answer(scene: &Scene, login: Option<&str>, wanted: Option<Trouble>) {
    let all = |answers: &Vec<Option<Trouble>>| !answers.is_empty() && answers.iter().all(|answer| *answer == wanted);
    wait_within(WAIT_TIMEOUT, &format!("{wanted:?} of every member"), || answers(scene, login), all).await;
}

async fn as_root(scene: &Scene, password: &str) -> Result<Client, etcd_client::Error> {
    let pod = pods(scene).await.pop().expect("a pod");
    let options = ConnectOptions::new().with_user(ROOT, password);
    Client::connect([url(&pod)], Some(options)).await
}

/// Changes root's password by hand. A lost answer does not matter: what counts is that the other password is let in.
async fn change_by_hand(scene: &Scene, old: &str, new: &str) {
    let look = || async {
        if let Ok(mut root) = as_root(scene, old).await {
            root.user_change_password(ROOT, new).await.ok();
        }
        as_root(scene, new).await.map(drop).map_err(|error| error.to_string())
    };
    wait_within(WAIT_TIMEOUT, "another password by hand", look, Result::is_ok).await.expect("just seen");
}

/// Turns authentication off by hand. A call whose answer was lost may have done it.
async fn turn_off_by_hand(scene: &Scene, password: &str) {
    let look = || async {
        let mut root = as_root(scene, password).await.map_err(|error| error.to_string())?;
        root.auth_disable().await.map(drop).map_err(|error| error.to_string())
    };
    let is_off = |answer: &Result<(), String>| answer.as_ref().err().is_none_or(|it| it.contains("is not enabled"));
    wait_within(WAIT_TIMEOUT, "authentication to be off by hand", look, is_off).await.ok();
}

/// Panics if a password is in any object other than a Secret.
async fn shown_nowhere(scene: &Scene, secret: &str) {
    let all = ListParams::default();
    let texts = [
        serde_json::to_string(&scene.api::<EtcdCluster>().list(&all).await.expect("objects").items),
        serde_json::to_string(&scene.api::<Pod>().list(&all).await.expect("pods").items),
        serde_json::to_string(&scene.api::<Event>().list(&all).await.expect("events").items),
    ];
    for text in texts {
        assert!(!text.expect("JSON").contains(secret), "the password is shown");
    }
}

/// Replaces the operator: a new one reads everything at once. No watch reports changes of Secrets, nor what is done by
/// hand in etcd.
async fn another(operator: Operator, scene: &Scene) -> Operator {
    drop(operator);
    Operator::start(scene).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_with_logins_is_downgraded_scaled_and_upgraded() {
    let scene = Stage::new("etcd-auth").await;
    let _operator = Operator::start(&scene).await;
    let mut wanted = spec(1);
    wanted["version"] = json!("3.6.16");
    wanted["auth"] = json!({ "enabled": true });
    let begun = std::time::Instant::now();
    let object = running(&scene, wanted).await;
    took("a member that asks for logins serves", begun);
    assert_eq!(
        describe(&object, "AuthEnabled").map(|(status, reason, _)| (status, reason)),
        Some(("True".into(), "Enabled".into()))
    );
    answer(&scene, None, Some(Trouble::NotLoggedIn)).await;
    answer(&scene, Some("wrong"), Some(Trouble::LoginRefused)).await;
    let made = password(&scene, GIVEN).await;
    assert!(made.len() >= 20, "long enough");
    answer(&scene, Some(&made), None).await;

    let checker = Checker::start(&scene).await;
    // There is only one member: no other one can stand in for it.
    scene.edit::<EtcdCluster>(NAME, json!({ "version": "3.5.35" })).await;
    settled(&scene, "the former version").await;
    checker.goes_on("the former version").await;
    scene.edit::<EtcdCluster>(NAME, json!({ "replicas": 3 })).await;
    settled(&scene, "three members").await;
    scene.edit::<EtcdCluster>(NAME, json!({ "version": "3.6.16" })).await;
    settled(&scene, "the other version").await;
    answer(&scene, None, Some(Trouble::NotLoggedIn)).await;
    checker.goes_on("the other version").await;
    shown_nowhere(&scene, &made).await;
    checker.finish(&scene, "a cluster that asks for logins, taken back, scaled and upgraded").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authentication_changes_survive_crashes() {
    let scene = Stage::new("etcd-auth").await;
    let mut operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let (before, checker) = (uids(&scene).await, Checker::start(&scene).await);
    let begun = std::time::Instant::now();
    scene.edit::<EtcdCluster>(NAME, json!({ "auth": { "enabled": true } })).await;
    settled(&scene, "authentication").await;
    took("authentication is on", begun);
    answer(&scene, None, Some(Trouble::NotLoggedIn)).await;
    checker.goes_on("authentication").await;

    for (moment, next) in Moment::ALL.into_iter().zip(["the second password", "a third one", "and the fourth"]) {
        drop(operator);
        let interception = Interception::new();
        interception.arm(Some((Target::OfKind("etcd UserChangePassword".into(), 1), moment)));
        let mortal = Operator::through(&scene, &interception, Operator::client().await, Duration::from_secs(2));
        change_password(&scene, next).await;
        interception.died().await;
        drop(mortal);
        operator = Operator::start(&scene).await;
        has_password(&scene, next).await;
        answer(&scene, Some(next), None).await;
        checker.goes_on(&format!("a password changed, an operator dead {}", moment.as_str())).await;
    }

    // A user changes the password by hand: only the user can know it now.
    change_by_hand(&scene, "and the fourth", "by hand").await;
    let begun = std::time::Instant::now();
    let (reason, message) = stalls(&scene, "a message about the password").await;
    assert_eq!(reason, "AuthBroken");
    took("a password that was changed by hand is told", begun);
    assert!(message.contains(GIVEN) && message.contains("etcdctl --user root user passwd root"), "{message}");
    change_password(&scene, "by hand").await;
    operator = another(operator, &scene).await;
    has_password(&scene, "by hand").await;
    becomes(&scene, "all to be well again", is_settled).await;
    checker.goes_on("the password that a user had changed").await;

    // Authentication that a user turned off is turned on again.
    turn_off_by_hand(&scene, "by hand").await;
    let _operator = another(operator, &scene).await;
    answer(&scene, None, Some(Trouble::NotLoggedIn)).await;

    let begun = std::time::Instant::now();
    scene.edit::<EtcdCluster>(NAME, json!({ "auth": Value::Null })).await;
    let object = settled(&scene, "no authentication").await;
    took("authentication is off", begun);
    assert_eq!(describe(&object, "AuthEnabled"), None);
    answer(&scene, None, None).await;
    checker.goes_on("no authentication").await;
    assert_eq!(uids(&scene).await, before, "no pod was replaced");
    checker.finish(&scene, "authentication on, four passwords, and off").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kept_password_opens_the_volumes_again() {
    let scene = Stage::new("etcd-auth").await;
    let _operator = Operator::start(&scene).await;
    let mut wanted = spec(1);
    wanted["auth"] = json!({ "enabled": true, "secretName": "mine" });
    scene.create::<EtcdCluster>(NAME, wanted.clone()).await;
    let (reason, message) = stalls(&scene, "a message about the Secret").await;
    assert_eq!(reason, "PasswordMissing");
    assert!(message.contains("spec.auth.secretName") && message.contains("mine"), "{message}");
    crate::support::backends::secret(&scene, "mine", "password", &"x".repeat(73)).await;
    let invalid =
        |object: &EtcdCluster| describe(object, "Stalled").is_some_and(|(_, reason, _)| reason == "PasswordInvalid");
    becomes(&scene, "a message about the password", invalid).await;
    let patch = Patch::Merge(json!({ "stringData": { "password": "a password of mine" } }));
    scene.api::<Secret>().patch("mine", &PatchParams::default(), &patch).await.expect("the change is accepted");
    settled(&scene, "the cluster").await;
    answer(&scene, Some("a password of mine"), None).await;

    // The volumes are retained, and etcd's users with them. So the password is retained, too.
    scene.delete::<EtcdCluster>(NAME).await;
    scene.gone::<EtcdCluster>(NAME).await;
    let none = |pods: &Vec<Pod>| pods.is_empty();
    wait_within(WAIT_TIMEOUT, "the pods to go", || pods(&scene), none).await;
    scene.delete::<Secret>("mine").await;
    wanted["auth"] = json!({ "enabled": true });
    scene.create::<EtcdCluster>(NAME, wanted).await;
    settled(&scene, "the cluster on its old volumes").await;
    assert_eq!(password(&scene, GIVEN).await, "a password of mine");
    answer(&scene, Some("a password of mine"), None).await;
    assert_eq!(pods(&scene).await.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["db-0"]);
}

/// Authentication that was turned on by hand, while the spec asks for none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authentication_turned_on_by_hand_is_told_soon() {
    let scene = Stage::new("etcd-auth").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(1)).await;
    let before = uids(&scene).await;
    let pod = pods(&scene).await.pop().expect("a pod");
    let mut client = Client::connect([url(&pod)], None).await.expect("the member answers");
    client.user_add(ROOT, "by hand", None).await.expect("a user");
    client.user_grant_role(ROOT, ROOT).await.expect("a role");
    client.auth_enable().await.expect("authentication");
    let begun = std::time::Instant::now();
    let told = |object: &EtcdCluster| {
        describe(object, "Ready").is_some_and(|(status, reason, _)| status == "False" && reason == "AuthBroken")
    };
    let object = becomes(&scene, "the login to be told", told).await;
    took("authentication that was turned on by hand is told", begun);
    let (.., message) = describe(&object, "Ready").expect("just seen");
    assert!(message.contains("spec.auth"), "{message}");
    // As the message says: the spec gets the password that etcd has.
    crate::support::backends::secret(&scene, "mine", "password", "by hand").await;
    let auth = json!({ "auth": { "enabled": true, "secretName": "mine" } });
    scene.edit::<EtcdCluster>(NAME, auth).await;
    becomes(&scene, "all to be well again", is_settled).await;
    answer(&scene, Some("by hand"), None).await;
    assert_eq!(uids(&scene).await, before, "no pod was replaced");
}
