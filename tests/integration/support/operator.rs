//! The controllers, in this process, for one scene.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aws_config::SdkConfig;
use causeway::controllers::{self, Context, Rules};
use causeway_aws::budget::Budget;
use causeway_backup::jobs::{Identity, Settings};
use causeway_databases::etcd::Grpc;
use causeway_databases::redis::Tcp;
use causeway_runtime::Environment;
use causeway_runtime::clients;
use causeway_runtime::cluster::Cluster;
use causeway_runtime::guardrails::Guardrails;
use causeway_runtime::health::Health;
use causeway_runtime::leader::Fence;
use causeway_runtime::metrics::Metrics;
use jiff::SignedDuration;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Interception, Scene, role};

/// The uid that distinguishes an operator's cluster from others of its name, unless a test sets another one.
pub const CLUSTER_UID: &str = "uid-of-this-cluster";

/// The operators' kubeconfig: with an administrator's, they could do what they may not.
pub fn kubeconfig() -> String {
    std::env::var("CAUSEWAY_OPERATOR_KUBECONFIG").expect("CAUSEWAY_OPERATOR_KUBECONFIG is set: run `cargo xtask test`")
}

/// The path of the operator's program: it is built beside that of the tests.
pub fn program() -> PathBuf {
    let tests = std::env::current_exe().expect("the path of the tests");
    tests.ancestors().nth(2).expect("the folder of the profile").join("causeway")
}

/// The path of the program of Jobs, beside the operator's.
pub fn job_program() -> PathBuf {
    program().with_file_name("causeway-backup")
}

/// Controllers that serve a scene's namespace until they are stopped or dropped.
pub struct Operator {
    pub metrics: Metrics,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Operator {
    /// Starts them with a sweep every two seconds.
    pub async fn start(scene: &Scene) -> Self {
        Self::start_with(scene, Self::client().await, scene.aws.clone(), Duration::from_secs(2))
    }

    /// A client as the process makes it, with the rights that `deploy/base` gives.
    pub async fn client() -> Client {
        clients::kubernetes(Self::config().await, &Metrics::new()).expect("a client")
    }

    /// How to reach the cluster with these rights.
    pub async fn config() -> Config {
        let kubeconfig = Kubeconfig::read_from(kubeconfig()).expect("a kubeconfig");
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.expect("a cluster")
    }

    /// Starts them with clients of the caller's choice.
    pub fn start_with(scene: &Scene, client: Client, aws: SdkConfig, sweep: Duration) -> Self {
        Self::start_in(Self::context(scene, client, aws, sweep))
    }

    /// Starts them so that all their calls, of Kubernetes, AWS, etcd and Redis, go through `interception`.
    pub fn through(scene: &Scene, interception: &Interception, client: Client, sweep: Duration) -> Self {
        let (client, aws) = (interception.kubernetes(client), interception.aws(&scene.aws));
        let mut context = Self::context(scene, client, aws, sweep);
        context.etcd = interception.etcd(context.etcd);
        context.redis = interception.redis(context.redis);
        Self::start_in(context)
    }

    /// The context from which [`Self::start_with`] makes the controllers.
    pub fn context(scene: &Scene, client: Client, aws: SdkConfig, sweep: Duration) -> Context {
        let environment = Environment {
            client,
            metrics: Metrics::new(),
            health: Health::default(),
            namespaces: vec![scene.namespace.clone()],
            sweep,
            concurrency: 16,
            guardrails: Guardrails::default(),
            instance: "test".into(),
            fence: Fence::always_open(),
            stop: CancellationToken::new(),
        };
        Context {
            kinds: scene.kinds.clone(),
            environment,
            aws,
            fence: Fence::always_open(),
            budget: Budget::without_limit(),
            cluster: Cluster { name: scene.namespace.clone(), uid: Some(CLUSTER_UID.into()) },
            // The kubelet here is faster than that of a cloud.
            databases: Rules { clients_delay: SignedDuration::from_secs(6), ..Rules::default() },
            backups: Settings {
                cluster: scene.namespace.clone(),
                identity: Some(Identity::WebIdentity(role::of_jobs(scene.emulator.account(), "{namespace}"))),
                image: Some(std::env::var("CAUSEWAY_TEST_IMAGE").unwrap_or_else(|_| "causeway:dev".into())),
                region: "us-east-1".into(),
                aws_endpoint: Some(scene.emulator.endpoint().to_owned()),
                namespace: scene.namespace.clone(),
                ..Settings::default()
            },
            replacement_grace: Duration::from_secs(1),
            security_group_rules: 60,
            etcd: Arc::new(Grpc::default()),
            redis: Arc::new(Tcp::default()),
        }
    }

    /// Starts them in a context of the caller's choice.
    pub fn start_in(context: Context) -> Self {
        let (metrics, stop) = (context.environment.metrics.clone(), context.environment.stop.clone());
        let task = tokio::spawn(controllers::run(context));
        Self { metrics, stop, task }
    }

    /// Lets the calls in hand end.
    pub async fn stop(mut self) {
        self.stop.cancel();
        (&mut self.task).await.expect("the controllers end");
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.stop.cancel();
        self.task.abort();
    }
}
