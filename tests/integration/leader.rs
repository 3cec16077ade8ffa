//! The election on a real API server, with leases that last eight seconds, or longer than any test.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use causeway_runtime::leader::{self, Election, Fence, Leadership, Lost, Timing};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, Config};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::instrument::WithSubscriber;

use crate::support::{Scene, wait_for};

const TIMING: Timing = Timing {
    lease_duration: Duration::from_secs(8),
    renew_deadline: Duration::from_secs(6),
    retry_period: Duration::from_millis(400),
};
/// A lease that lasts longer than any test.
const LONG: Timing = Timing {
    lease_duration: Duration::from_mins(5),
    renew_deadline: Duration::from_mins(4),
    retry_period: TIMING.retry_period,
};
const NAME: &str = "election";
const LEASE_TIMEOUT: Duration = Duration::from_mins(2);

async fn config() -> Config {
    Config::infer().await.expect("a cluster")
}

async fn client() -> Client {
    leader::client(&config().await).expect("a client")
}

fn election(client: Client, scene: &Scene, pod: &str, timing: Timing) -> Election {
    Election::new(client, &scene.namespace, NAME, leader::unique_identity(pod, None), timing)
}

async fn lead(scene: &Scene, timing: Timing) -> Leadership {
    timeout(LEASE_TIMEOUT, election(client().await, scene, "first", timing).acquire()).await.expect("it leads")
}

/// Another process, which has seen who holds the lease, and waits for it.
async fn standby(scene: &Scene, timing: Timing) -> JoinHandle<(Leadership, Instant)> {
    let election = election(client().await, scene, "standby", timing);
    let (log, leader) = (Log::default(), holder(&lease(scene).await).to_owned());
    let logs = tracing_subscriber::fmt().with_ansi(false).with_writer({
        let log = log.clone();
        move || log.clone()
    });
    // It tells only its log what it saw.
    let waiting = async move { (election.acquire().await, Instant::now()) };
    let task = tokio::spawn(waiting.with_subscriber(logs.finish()));
    let look = || async { log.text() };
    let has_seen = |text: &String| {
        text.lines().any(|line| line.contains("the leader lease changed hands") && line.contains(&leader))
    };
    wait_for("the standby to see who leads", look, has_seen).await;
    assert!(!task.is_finished(), "two lead");
    task
}

/// The log of one process.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn lease(scene: &Scene) -> LeaseSpec {
    scene.api::<Lease>().get(NAME).await.expect("the lease").spec.expect("a spec")
}

fn holder(lease: &LeaseSpec) -> &str {
    lease.holder_identity.as_deref().unwrap_or_default()
}

async fn renewed(scene: &Scene) {
    let before = lease(scene).await.renew_time;
    wait_for("a renewal", || lease(scene), |lease| lease.renew_time > before).await;
}

#[tokio::test]
async fn a_released_lease_is_taken_at_once() {
    let scene = Scene::new("leader").await;
    let mut leadership = lead(&scene, LONG).await;
    let fence = leadership.fence();
    assert!(fence.check().is_ok());
    let written = lease(&scene).await;
    assert!(holder(&written).starts_with("first_"));
    assert_eq!((written.lease_duration_seconds, written.lease_transitions), (Some(300), Some(0)));
    assert!(written.acquire_time.is_some() && written.renew_time.is_some());

    let standby = standby(&scene, LONG).await;
    tokio::select! {
        lost = leadership.hold() => panic!("{lost}"),
        () = renewed(&scene) => {}
    }
    let begun = Instant::now();
    leadership.release().await;
    assert!(fence.check().is_err());
    let (successor, since) = timeout(LEASE_TIMEOUT, standby).await.expect("it takes over").expect("the task ends");
    println!("» a released lease: taken after {} ms", (since - begun).as_millis());
    assert!(successor.fence().check().is_ok());
    let taken = lease(&scene).await;
    assert!(holder(&taken).starts_with("standby_"));
    assert_eq!(taken.lease_transitions, Some(1));
}

#[tokio::test]
async fn a_dead_leader_is_replaced_when_its_lease_ends() {
    let scene = Scene::new("leader").await;
    let leadership = lead(&scene, TIMING).await;
    let fence = leadership.fence();
    let standby = standby(&scene, TIMING).await;
    let died = Instant::now();
    drop(leadership);
    let (_successor, since) = timeout(LEASE_TIMEOUT, standby).await.expect("it takes over").expect("the task ends");
    assert!(fence.check().is_err(), "the dead one's fence is open");
    let gap = since - died;
    println!(
        "» a dead leader with a lease of {} s: replaced after {} ms",
        TIMING.lease_duration.as_secs(),
        gap.as_millis()
    );
}

#[tokio::test]
async fn a_deleted_lease_stays_with_its_holder() {
    let scene = Scene::new("leader").await;
    let mut leadership = lead(&scene, LONG).await;
    let standby = standby(&scene, LONG).await;
    scene.api::<Lease>().delete(NAME, &DeleteParams::default()).await.expect("the lease is deleted");
    let written = async {
        let look = || async { scene.api::<Lease>().get_opt(NAME).await.expect("an answer") };
        wait_for("the lease to be written again", look, Option::is_some).await;
        renewed(&scene).await;
    };
    tokio::select! {
        lost = leadership.hold() => panic!("{lost}"),
        () = written => {}
    }
    assert!(leadership.fence().check().is_ok());
    assert!(holder(&lease(&scene).await).starts_with("first_"));
    assert!(!standby.is_finished(), "two lead");
    standby.abort();
}

#[tokio::test]
async fn a_leader_stops_when_another_holds_the_lease() {
    let scene = Scene::new("leader").await;
    let mut leadership = lead(&scene, LONG).await;
    let patch = Patch::Merge(json!({ "spec": { "holderIdentity": "another" } }));
    scene.api::<Lease>().patch(NAME, &PatchParams::default(), &patch).await.expect("the lease is changed");
    let lost = timeout(LEASE_TIMEOUT, leadership.hold()).await.expect("it stops");
    assert_eq!(lost, Lost::Taken("another".to_owned()));
    assert!(leadership.fence().check().is_err());
}

#[tokio::test]
async fn a_cut_off_leader_stops_before_the_standby_starts() {
    let scene = Scene::new("leader").await;
    let mut wire = Wire::new().await;
    let mut leadership = timeout(LEASE_TIMEOUT, election(wire.client().await, &scene, "first", TIMING).acquire())
        .await
        .expect("a leader");
    let fence = leadership.fence();
    let standby = standby(&scene, TIMING).await;
    wire.cut();
    let cut = Instant::now();
    let closed = tokio::spawn(closing(fence.clone()));
    let lost = timeout(LEASE_TIMEOUT, leadership.hold()).await.expect("it stops");
    assert_eq!(lost, Lost::Late);
    let (_successor, since) = timeout(LEASE_TIMEOUT, standby).await.expect("it takes over").expect("the task ends");
    let closed = closed.await.expect("the fence closes");
    assert!(closed < since, "two could act for {:?}", closed - since);
    println!("» a leader that is cut off: its fence closes after {} ms", (closed - cut).as_millis());
}

/// When the fence closes.
async fn closing(fence: Fence) -> Instant {
    while fence.check().is_ok() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Instant::now()
}

#[tokio::test]
async fn missing_rights_are_waited_for_and_watching_is_not_needed() {
    let scene = Scene::new("leader").await;
    let mut config = config().await;
    config.auth_info.impersonate = Some(format!("system:serviceaccount:{}:default", scene.namespace));
    let client = leader::client(&config).expect("a client");
    let powerless = tokio::spawn(election(client, &scene, "powerless", LONG).acquire());
    tokio::time::sleep(TIMING.retry_period * 3).await;
    assert!(!powerless.is_finished());
    // A living leader holds the lease meanwhile: the other process has to wait for it without a watch.
    let leadership = lead(&scene, LONG).await;
    grant(&scene, &["get", "create", "update"]).await;
    tokio::time::sleep(TIMING.retry_period * 3).await;
    assert!(!powerless.is_finished(), "two lead");
    leadership.release().await;
    timeout(LEASE_TIMEOUT, powerless).await.expect("it leads").expect("the task ends");
}

async fn grant(scene: &Scene, verbs: &[&str]) {
    let metadata = ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() };
    let owned = |text: &str| text.to_owned();
    let allowed = PolicyRule {
        api_groups: Some(vec![owned("coordination.k8s.io")]),
        resources: Some(vec![owned("leases")]),
        verbs: verbs.iter().copied().map(owned).collect(),
        ..PolicyRule::default()
    };
    let role = Role { metadata: metadata.clone(), rules: Some(vec![allowed]) };
    scene.api::<Role>().create(&PostParams::default(), &role).await.expect("a role");
    let account = Subject {
        kind: owned("ServiceAccount"),
        name: owned("default"),
        namespace: Some(scene.namespace.clone()),
        ..Subject::default()
    };
    let role_ref = RoleRef { api_group: owned("rbac.authorization.k8s.io"), kind: owned("Role"), name: owned(NAME) };
    let binding = RoleBinding { metadata, role_ref, subjects: Some(vec![account]) };
    scene.api::<RoleBinding>().create(&PostParams::default(), &binding).await.expect("a binding");
}

/// A connection to the API server that can be cut. Then nothing is refused, and nothing is answered either.
struct Wire {
    address: SocketAddr,
    cut: watch::Sender<bool>,
}

impl Wire {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = config().await.cluster_url.authority().expect("a server").to_string();
        let (cut, is_cut) = watch::channel(false);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(carry(near, server.clone(), is_cut.clone()));
            }
        });
        Self { address, cut }
    }

    async fn client(&self) -> Client {
        let mut config = config().await;
        config.tls_server_name = config.cluster_url.host().map(str::to_owned);
        config.cluster_url = format!("https://{}", self.address).parse().expect("a URL");
        leader::client(&config).expect("a client")
    }

    fn cut(&mut self) {
        self.cut.send_replace(true);
    }
}

async fn carry(mut near: TcpStream, server: String, mut cut: watch::Receiver<bool>) {
    let mut far = TcpStream::connect(server).await.expect("the API server");
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => return,
        _ = cut.wait_for(|cut| *cut) => {}
    }
    // Both ends stay open and silent.
    std::future::pending::<()>().await;
}
