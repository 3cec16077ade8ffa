//! A scene: a namespace and an AWS account of a test's own.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::{BuildHasher, Hasher, RandomState};

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_elasticloadbalancingv2::types::LoadBalancer;
use causeway::controllers::Served;
use causeway_api::{MyApp, MyIngress};
use causeway_aws::connect;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::wait::WAIT_TIMEOUT;
use super::{Emulator, kinds, served, wait_for, witness};

/// A namespace in the cluster and an account in AWS.
pub struct Scene {
    /// The cluster, as an administrator sees it.
    pub client: Client,
    /// The namespace; also the name of the cluster in ownership tags.
    pub namespace: String,
    /// The AWS account.
    pub emulator: Emulator,
    /// Configuration of AWS clients for that account.
    pub aws: SdkConfig,
    /// ELBv2, for what the test itself looks at.
    pub elb: aws_sdk_elasticloadbalancingv2::Client,
    /// The kinds that its operators serve.
    pub kinds: Vec<Served>,
    /// The same for what the test itself looks at: with a longer timeout, and with retries.
    pub bystander: SdkConfig,
}

impl Scene {
    /// A new scene; `name` shows in the namespace.
    pub async fn new(name: &str) -> Self {
        let needed = |variable: &str| {
            std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set: run `cargo xtask test`"))
        };
        let endpoint = needed("AWS_ENDPOINT_URL");
        needed("KUBECONFIG");
        let random = RandomState::new().build_hasher().finish();
        let account = format!("{:012}", random % 1_000_000_000_000);
        let namespace = format!("{name}-{:06x}", random % 0x100_0000);
        let client = Client::try_default().await.expect("a cluster");
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let object = Namespace {
            metadata: kube::api::ObjectMeta { name: Some(namespace.clone()), ..Default::default() },
            ..Default::default()
        };
        namespaces.create(&PostParams::default(), &object).await.expect("a namespace");
        let emulator = Emulator::seeded(endpoint.clone(), account.clone()).await;
        let credentials = aws_credential_types::Credentials::new(&account, "test", None, None, "test");
        let aws = connect::aws()
            .endpoint_url(endpoint)
            .region(aws_config::Region::new("us-east-1"))
            .credentials_provider(credentials)
            .load()
            .await;
        // The test's own calls get a long timeout: a machine that runs all tests at once is slow.
        let patient = TimeoutConfig::builder().operation_timeout(WAIT_TIMEOUT).build();
        // LocalStack closes connections that were idle for seconds, also just when they are used: the test's own calls
        // are retried.
        let retries = RetryConfig::standard();
        let bystander = aws.to_builder().timeout_config(patient).retry_config(retries).build();
        let elb = aws_sdk_elasticloadbalancingv2::Client::new(&bystander);
        Self { client, namespace, emulator, aws, elb, kinds: served::by_this_test(), bystander }
    }

    /// WAF, for what the test itself looks at.
    pub fn waf(&self) -> aws_sdk_wafv2::Client {
        aws_sdk_wafv2::Client::new(&self.bystander)
    }

    /// AWS Certificate Manager, for what the test itself looks at.
    pub fn acm(&self) -> aws_sdk_acm::Client {
        aws_sdk_acm::Client::new(&self.bystander)
    }

    /// S3, for what the test itself looks at.
    pub fn s3(&self) -> aws_sdk_s3::Client {
        let config = aws_sdk_s3::config::Builder::from(&self.bystander).force_path_style(true).build();
        aws_sdk_s3::Client::from_conf(config)
    }

    /// An API of the namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// From now on the namespace admits only pods that meet the `restricted` Pod Security Standard.
    pub async fn admits_restricted_pods_only(&self) {
        let label = json!({ "metadata": { "labels": { "pod-security.kubernetes.io/enforce": "restricted" } } });
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let parameters = PatchParams::default();
        namespaces.patch(&self.namespace, &parameters, &Patch::Merge(&label)).await.expect("the label is accepted");
    }

    /// Creates an object from its spec.
    pub async fn create<K>(&self, name: &str, spec: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        self.try_create(name, spec).await.unwrap_or_else(|error| panic!("{name} is refused: {error}"))
    }

    /// Creates an object from its spec, or returns why the apiserver refuses it.
    pub async fn try_create<K>(&self, name: &str, spec: Value) -> Result<K, kube::Error>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let object = json!({
            "apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": { "name": name }, "spec": spec,
        });
        let parameters = PatchParams::apply("test");
        self.api::<K>().patch(name, &parameters, &Patch::Apply(&object)).await
    }

    /// Merges a change into an object's spec.
    pub async fn edit<K>(&self, name: &str, spec: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let patch = json!({ "spec": spec });
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.expect("the edit is accepted")
    }

    /// Asks for an object's deletion.
    pub async fn delete<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        self.api::<K>().delete(name, &DeleteParams::default()).await.expect("the deletion is accepted");
    }

    /// Waits until an object is gone.
    pub async fn gone<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let api = self.api::<K>();
        let look = || async { api.get_opt(name).await.expect("an answer") };
        wait_for(&format!("{name} to be gone"), look, Option::is_none).await;
    }

    /// Waits until a `MyIngress` is as `good` says.
    pub async fn ingress(&self, name: &str, what: &str, good: impl Fn(&MyIngress) -> bool) -> MyIngress {
        let api = self.api::<MyIngress>();
        wait_for(what, || async { api.get(name).await.expect("the object") }, good).await
    }

    /// Waits until a `MyApp` is as `good` says.
    pub async fn app(&self, name: &str, what: &str, good: impl Fn(&MyApp) -> bool) -> MyApp {
        let api = self.api::<MyApp>();
        wait_for(what, || async { api.get(name).await.expect("the object") }, good).await
    }

    /// The pods of the namespace.
    pub async fn pods(&self) -> Vec<Pod> {
        self.api::<Pod>().list(&ListParams::default()).await.expect("pods").items
    }

    /// Reasons and notes of the events about an object, in no particular order.
    pub async fn events(&self, name: &str) -> Vec<(String, String)> {
        let about = self.events_about(name).await.into_iter();
        about.map(|event| (event.reason.unwrap_or_default(), event.note.unwrap_or_default())).collect()
    }

    async fn events_about(&self, name: &str) -> Vec<Event> {
        let mut events = self.api::<Event>().list(&ListParams::default()).await.expect("events").items;
        events.retain(|event| event.regarding.as_ref().and_then(|it| it.name.as_deref()) == Some(name));
        events
    }

    /// Waits for an event about an object with that reason, and with those words in its note. Events come after the
    /// status.
    pub async fn has_event(&self, name: &str, reason: &str, words: &str) {
        let good = |events: &Vec<(String, String)>| {
            events.iter().any(|(text, note)| text.contains(reason) && note.contains(words))
        };
        wait_for(&format!("an event {reason} of {name} with: {words}"), || self.events(name), good).await;
    }

    /// Waits for a Warning event about an object with that reason.
    pub async fn has_warning(&self, name: &str, reason: &str) {
        let look = || async {
            let about = self.events_about(name).await.into_iter();
            let types = about.filter(|event| event.reason.as_deref() == Some(reason)).map(|event| event.type_);
            types.flatten().collect::<Vec<_>>()
        };
        let warns = |types: &Vec<String>| types.iter().any(|type_| type_ == "Warning");
        wait_for(&format!("a warning of {name}: {reason}"), look, warns).await;
    }

    /// Waits until Kubernetes has recorded the reason at least `times` times in events about the object with that uid.
    pub async fn has_repeated_event(&self, uid: &str, reason: &str, times: i32) {
        let api = self.api::<k8s_openapi::api::core::v1::Event>();
        let of_object = ListParams::default().fields(&format!("involvedObject.uid={uid},reason={reason}"));
        let look = || async {
            let events = api.list(&of_object).await.expect("events").items;
            events.iter().filter_map(|event| event.count).sum::<i32>()
        };
        wait_for(&format!("{reason}, {times} times"), look, |count| *count >= times).await;
    }

    /// Every balancer of the account.
    pub async fn balancers(&self) -> Vec<LoadBalancer> {
        self.elb.describe_load_balancers().send().await.expect("balancers").load_balancers.unwrap_or_default()
    }

    /// The tags of a balancer.
    pub async fn tags(&self, arn: &str) -> BTreeMap<String, String> {
        let described = self.elb.describe_tags().resource_arns(arn).send().await.expect("tags");
        let tags =
            described.tag_descriptions.unwrap_or_default().into_iter().flat_map(|it| it.tags.unwrap_or_default());
        tags.map(|tag| (tag.key.unwrap_or_default(), tag.value.unwrap_or_default())).collect()
    }
}

impl Drop for Scene {
    /// Deletes the namespace in the background. Removes finalizers first: no operator runs any more that would, and
    /// they would keep the namespace.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (namespace, account) = (&self.namespace, self.emulator.account());
            let seen = apart(&self.namespace, async |client, namespace| Ok(witness::account(&client, namespace).await));
            // A second panic would end all tests at once.
            let seen = seen.map(|seen| seen.unwrap_or_else(|error| format!("nothing, as {error}")));
            let seen = seen.unwrap_or_else(|_| "nothing: the witness panicked".into());
            eprintln!("the scene stays for a look: namespace {namespace}, AWS account {account}, with\n{seen}");
            return;
        }
        let cleaned = apart(&self.namespace, async |client, namespace| {
            clean(client, namespace).await?;
            // Without this, LocalStack would go on serving, checking and searching an account that no test uses any
            // more.
            self.emulator.send("POST", "reset", &Value::Null).await;
            Ok(())
        });
        cleaned.expect("the cleaner ends").expect("the namespace is deleted");
    }
}

/// Does something in a namespace on a thread and with connections of its own: a drop cannot wait for a future.
fn apart<T: Send>(
    namespace: &str,
    work: impl AsyncFnOnce(Client, &str) -> Result<T, kube::Error> + Send,
) -> std::thread::Result<Result<T, kube::Error>> {
    std::thread::scope(|scope| {
        let done = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async { work(Client::try_default().await?, namespace).await })
        });
        done.join()
    })
}

async fn clean(client: Client, namespace: &str) -> Result<(), kube::Error> {
    for (_, objects) in kinds::apis(&client, namespace) {
        let held = objects.list(&ListParams::default()).await?.items.into_iter();
        for object in held.filter(|object| !object.finalizers().is_empty()) {
            let patch = Patch::Merge(json!({ "metadata": { "finalizers": [] } }));
            objects.patch(&object.name_any(), &PatchParams::default(), &patch).await?;
        }
    }
    Api::<Namespace>::all(client).delete(namespace, &DeleteParams::background()).await.map(drop)
}

/// The condition of that type as (status, reason, message).
pub fn condition(
    conditions: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition],
    type_: &str,
) -> Option<(String, String, String)> {
    let found = conditions.iter().find(|condition| condition.type_ == type_)?;
    Some((found.status.clone(), found.reason.clone(), found.message.clone()))
}

/// Reports whether a `MyIngress` is ready for its present generation.
pub fn is_ready(object: &MyIngress) -> bool {
    let status = object.status.clone().unwrap_or_default();
    status.observed_generation == object.meta().generation
        && condition(&status.conditions, "Ready").is_some_and(|(status, ..)| status == "True")
}

/// The reason why a `MyIngress` is stalled.
pub fn stalled(object: &MyIngress) -> Option<String> {
    let status = object.status.clone().unwrap_or_default();
    condition(&status.conditions, "Stalled").map(|(_, reason, _)| reason)
}
