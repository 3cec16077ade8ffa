//! What a namespace whose endpoints change all the time costs the others.

use std::fmt;

use aws_credential_types::Credentials;
use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use kube::Client;
use kube::client::Body;
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

use super::*;
use crate::clients;
use crate::controllers::myingress::ownership::ObjectKey;
use crate::controllers::myingress::targets::cluster::{Entered, Key, Kind};
use crate::controllers::myingress::targets::facts::{Endpoint, Family, Service, ServicePort, Slice};
use crate::controllers::myingress::targets::{Backend, Binding, PortName};
use crate::external::budget::Budget;
use crate::external::ec2::Ec2;
use crate::external::elbv2::TargetType;
use crate::guardrails::Guardrails;
use crate::leader::Fence;

/// How long each call takes.
const CALL: Duration = Duration::from_millis(100);
/// Nothing that must not wait for a busy namespace takes longer.
const SOON: Duration = Duration::from_mins(1);

/// An AWS that accepts everything. Whenever it has changed a group of a busy namespace, the pod there has another port.
#[derive(Clone)]
struct Aws {
    shared: Arc<Shared>,
    /// The groups that were changed, one for each call.
    changes: watch::Sender<Vec<String>>,
}

impl fmt::Debug for Aws {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Aws")
    }
}

impl HttpConnector for Aws {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let body = String::from_utf8_lossy(request.body().bytes().unwrap_or_default()).into_owned();
        let aws = self.clone();
        HttpConnectorFuture::new(async move {
            sleep(CALL).await;
            let answer = SdkBody::from(aws.answer(&body));
            Ok(HttpResponse::new(200_u16.try_into().expect("a status"), answer))
        })
    }
}

impl Aws {
    fn answer(&self, body: &str) -> String {
        let parameter = |name: &str| body.split('&').find_map(|it| it.strip_prefix(name)?.strip_prefix('='));
        let (action, arn) = (parameter("Action").expect("an action"), parameter("TargetGroupArn").expect("an ARN"));
        if action != "DescribeTargetHealth" {
            self.changes.send_modify(|changes| changes.push(arn.to_owned()));
            if arn.starts_with("busy") {
                let port = u16::try_from(self.changes.borrow().len()).expect("a port");
                let concerned = slice(arn, port).enter(&mut self.shared.cluster(), &key(arn));
                self.shared.changed(&concerned);
            }
        }
        format!("<{action}Response><{action}Result></{action}Result></{action}Response>")
    }

    /// Waits until this is true of the groups that were changed.
    async fn until(&self, what: &str, is_so: impl FnMut(&Vec<String>) -> bool) {
        let mut changes = self.changes.subscribe();
        let waited = timeout(SOON, changes.wait_for(is_so)).await;
        assert!(waited.is_ok_and(|it| it.is_ok()), "{what} takes longer than {SOON:?}");
    }
}

/// Namespace and Service of the group with this ARN, `NAMESPACE-NUMBER`.
fn key(arn: &str) -> Key {
    let namespace = arn.rsplit_once('-').expect("a number").0;
    (namespace.to_owned(), arn.to_owned())
}

fn slice(arn: &str, port: u16) -> Slice {
    let pod = Endpoint { address: "10.0.0.1".into(), ready: true, terminating: false, node: None, pod: None };
    Slice {
        service: arn.to_owned(),
        family: Family::V4,
        ports: vec![("http".to_owned(), port)],
        endpoints: vec![pod],
        by_kubernetes: false,
    }
}

/// A worker, the tasks that keep its groups, and its AWS.
struct Scene {
    worker: Arc<Worker>,
    tasks: JoinSet<()>,
    aws: Aws,
}

impl Scene {
    async fn new() -> Self {
        let shared = Arc::new(Shared::new(Guardrails::default()));
        for kind in [Kind::Services, Kind::Slices, Kind::Pods] {
            shared.cluster().listed(kind, None);
        }
        let aws = Aws { shared: shared.clone(), changes: watch::Sender::default() };
        let connector = SharedHttpConnector::new(aws.clone());
        let config = clients::aws()
            .region("us-east-1")
            .credentials_provider(Credentials::new("key", "secret", None, None, "test"))
            .http_client(http_client_fn(move |_, _| connector.clone()));
        let (config, metrics, fence) = (config.load().await, Metrics::new(), Fence::unfenced());
        let elb = Elbv2::new(&config, metrics.clone(), fence.clone(), Budget::unlimited());
        let kubernetes = tower::service_fn(|_: http::Request<Body>| async {
            Ok::<_, std::convert::Infallible>(http::Response::new(Body::empty()))
        });
        let worker = Worker {
            shared,
            spare: elb.in_background(),
            elb,
            zones: Arc::new(Zones::new(Ec2::new(&config, metrics.clone(), fence))),
            priorities: Arc::default(),
            gates: Gates::new(Client::new(kubernetes, "default"), SOON),
            failures: Failures::default(),
            metrics,
            sweep: SOON,
            stop: CancellationToken::new(),
        };
        Self { worker: Arc::new(worker), tasks: JoinSet::new(), aws }
    }

    /// Follows a new group of that namespace, whose Service has one pod.
    fn follow(&mut self, namespace: &str, number: usize) -> Arc<Group> {
        let arn = format!("{namespace}-{number}");
        let port = ServicePort { name: "http".into(), number: 80, node_port: None, target: None, tcp: true };
        let service = Service { ports: vec![port], ..Service::default() };
        service.enter(&mut self.worker.shared.cluster(), &key(&arn));
        slice(&arn, 8080).enter(&mut self.worker.shared.cluster(), &key(&arn));
        let backend = Backend {
            namespace: namespace.to_owned(),
            service: arn.clone(),
            port: PortName::Number(80),
            target_type: TargetType::Ip,
            ipv6: false,
            nodes: BTreeMap::new(),
            check: None,
        };
        let owners = BTreeSet::from([owner(&arn)]);
        let binding = Binding { group_arn: Some(arn.clone()), vpc: None, backend, created: true, owners };
        let registry = &self.worker.shared.registry;
        registry.bind(vec![binding], &owner(&arn));
        for group in registry.take_unkept() {
            self.tasks.spawn(keep(self.worker.clone(), group));
        }
        registry.group(&arn).expect("it is bound")
    }
}

fn owner(arn: &str) -> ObjectKey {
    ("owners".to_owned(), arn.to_owned())
}

#[tokio::test(start_paused = true)]
async fn new_groups_get_their_targets_although_endpoints_of_other_namespaces_never_come_to_rest() {
    for (namespaces, most) in [(1, 4), (3, 9)] {
        let mut scene = Scene::new().await;
        for namespace in 0..namespaces {
            scene.follow(&format!("busy{namespace}"), 1);
            scene.follow(&format!("busy{namespace}"), 2);
        }
        scene.aws.until("being busy", |changes| changes.len() >= 20).await;
        let before = scene.aws.changes.borrow().len();
        scene.follow("calm", 1);
        let calm = |changes: &Vec<String>| changes.iter().position(|arn| arn == "calm-1");
        scene.aws.until("a new group", |changes| calm(changes).is_some()).await;
        let between = calm(&scene.aws.changes.borrow()).expect("it was registered") - before;
        println!("» beside {namespaces} busy namespaces, {between} of their changes come before a new group");
        assert!(between <= most, "{between} changes of {namespaces} busy namespaces came first");
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_whose_endpoints_never_come_to_rest_is_read_when_somebody_asks() {
    let mut scene = Scene::new().await;
    let group = scene.follow("busy", 1);
    scene.aws.until("being busy", |changes| changes.len() >= 20).await;
    let (answer, answered) = oneshot::channel();
    group.recheck(answer);
    let answered = timeout(SOON, answered).await.expect("an answer in time");
    assert!(answered.is_ok_and(|outcome| outcome.is_ok()), "AWS was asked");
}
