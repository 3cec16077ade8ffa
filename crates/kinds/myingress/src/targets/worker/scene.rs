//! A worker in a cluster that has only what tests enter, and with an AWS that is a function.

use std::fmt;

use aws_credential_types::Credentials;
use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use kube::Client;
use kube::client::Body;
use tokio::time::sleep;

use causeway_aws::budget::Budget;
use causeway_aws::connect;
use causeway_aws::ec2::Ec2;
use causeway_aws::elbv2::TargetType;
use causeway_runtime::guardrails::Guardrails;
use causeway_runtime::leader::Fence;

use super::*;
use crate::ownership::ObjectKey;
use crate::targets::cluster::{Entered, Key, Kind};
use crate::targets::facts::{Endpoint, Family, Service, ServicePort, Slice};
use crate::targets::{Backend, Binding, PortName};

const SWEEP: Duration = Duration::from_mins(1);

/// The status and the body that AWS answers to the body of a request.
type Answers = dyn Fn(&str) -> (u16, String) + Send + Sync;

/// An AWS whose calls each take some time.
#[derive(Clone)]
struct Aws {
    takes: Duration,
    answers: Arc<Answers>,
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
            sleep(aws.takes).await;
            let (status, answer) = (aws.answers)(&body);
            Ok(HttpResponse::new(status.try_into().expect("a status"), SdkBody::from(answer)))
        })
    }
}

/// The action of a request, and the addresses of the targets that it names.
pub fn parsed(body: &str) -> (&str, BTreeSet<String>) {
    let parameters = || body.split('&').filter_map(|it| it.split_once('='));
    let action = parameters().find(|(name, _)| *name == "Action").expect("an action").1;
    let ids = parameters().filter(|(name, _)| name.starts_with("Targets.") && name.ends_with(".Id"));
    (action, ids.map(|(_, id)| id.to_owned()).collect())
}

/// The answer to an action, with these targets and their states.
pub fn described<'a>(action: &str, targets: impl Iterator<Item = (&'a String, &'a str)>) -> (u16, String) {
    let health = |(id, state)| {
        format!(
            "<member><Target><Id>{id}</Id><Port>8080</Port></Target>\
             <TargetHealth><State>{state}</State></TargetHealth></member>"
        )
    };
    let all: String = targets.map(health).collect();
    let all = format!("<TargetHealthDescriptions>{all}</TargetHealthDescriptions>");
    (200, format!("<{action}Response><{action}Result>{all}</{action}Result></{action}Response>"))
}

/// A worker, and the tasks that keep its groups.
pub struct Scene {
    pub worker: Arc<Worker>,
    tasks: JoinSet<()>,
}

impl Scene {
    /// A cluster without objects.
    pub fn cluster() -> Arc<Shared> {
        let shared = Arc::new(Shared::new(Guardrails::default()));
        for kind in [Kind::Services, Kind::Slices, Kind::Pods] {
            shared.cluster().listed(kind, None);
        }
        shared
    }

    /// A worker in this cluster, whose AWS takes that long for each answer.
    pub async fn new(
        shared: Arc<Shared>,
        takes: Duration,
        answers: impl Fn(&str) -> (u16, String) + Send + Sync + 'static,
    ) -> Self {
        let connector = SharedHttpConnector::new(Aws { takes, answers: Arc::new(answers) });
        let config = connect::aws()
            .region("us-east-1")
            .credentials_provider(Credentials::new("key", "secret", None, None, "test"))
            .http_client(http_client_fn(move |_, _| connector.clone()));
        let (config, metrics, fence) = (config.load().await, Metrics::new(), Fence::always_open());
        let elb = Elbv2::new(&config, metrics.clone(), fence.clone(), Budget::without_limit());
        let kubernetes = tower::service_fn(|_: http::Request<Body>| async {
            Ok::<_, std::convert::Infallible>(http::Response::new(Body::empty()))
        });
        let worker = Worker {
            shared,
            spare: elb.in_background(),
            elb,
            zones: Arc::new(Zones::new(Ec2::new(&config, metrics.clone(), fence))),
            priorities: Arc::default(),
            gates: Gates::new(Client::new(kubernetes, "default"), SWEEP),
            failures: Failures::default(),
            metrics,
            sweep: SWEEP,
            stop: CancellationToken::new(),
        };
        Self { worker: Arc::new(worker), tasks: JoinSet::new() }
    }

    /// Follows a new group of that namespace, whose Service has pods with these addresses.
    pub fn follow(&mut self, namespace: &str, number: usize, pods: &[&str]) -> Arc<Group> {
        let arn = format!("{namespace}-{number}");
        let port = ServicePort { name: "http".into(), number: 80, node_port: None, target: None, tcp: true };
        let service = Service { ports: vec![port], ..Service::default() };
        service.enter(&mut self.worker.shared.cluster(), &key(&arn));
        slice(&arn, pods, 8080).enter(&mut self.worker.shared.cluster(), &key(&arn));
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
        let binding = Binding { group_arn: Some(arn.clone()), vpc: None, backend, former: None, created: true, owners };
        let registry = &self.worker.shared.registry;
        registry.bind(vec![binding], &owner(&arn));
        for group in registry.take_unkept() {
            self.tasks.spawn(keep(self.worker.clone(), group));
        }
        registry.group(&arn).expect("it is bound")
    }
}

/// Namespace and Service of the group with this ARN, `NAMESPACE-NUMBER`.
pub fn key(arn: &str) -> Key {
    let namespace = arn.rsplit_once('-').expect("a number").0;
    (namespace.to_owned(), arn.to_owned())
}

/// A slice of the Service of this group, with pods of these addresses.
pub fn slice(arn: &str, pods: &[&str], port: u16) -> Slice {
    let endpoint = |address: &&str| Endpoint {
        address: (*address).into(),
        ready: true,
        terminating: false,
        node: None,
        pod: None,
    };
    Slice {
        service: arn.to_owned(),
        family: Family::V4,
        ports: vec![("http".to_owned(), port)],
        endpoints: pods.iter().map(endpoint).collect(),
        by_kubernetes: false,
    }
}

fn owner(arn: &str) -> ObjectKey {
    ("owners".to_owned(), arn.to_owned())
}
