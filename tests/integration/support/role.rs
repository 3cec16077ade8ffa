//! A role with the policies that users give the operator, and its sessions: a call that the policies do not allow fails
//! in tests, too.

use std::fs;

use aws_config::SdkConfig;
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use serde_json::{Value, json};

use super::{Emulator, Scene};

/// Temporary credentials of a role.
#[derive(Clone, Debug)]
pub struct Session {
    pub key_id: String,
    pub secret: String,
    pub token: String,
}

impl Session {
    /// A session of the role `causeway` of the scene's account. Its principals in the journal end in `name`. The role
    /// may do what the policies of `iam/` allow the operator of the scene's cluster.
    pub async fn of(scene: &Scene, name: &str) -> Self {
        Self::without(scene, name, "").await
    }

    /// The same, of a role that may not call `action`.
    pub async fn without(scene: &Scene, name: &str, action: &str) -> Self {
        let published = |file| {
            let mut policy = published_policy(file, scene.emulator.account(), &scene.namespace);
            for statement in policy["Statement"].as_array_mut().expect("statements") {
                if statement["Effect"] == "Allow" && statement["Action"] == action {
                    statement["Effect"] = json!("Deny");
                    statement["Action"] = json!("none:None");
                } else if let Some(actions) = statement["Action"].as_array_mut() {
                    actions.retain(|it| it != action);
                }
            }
            policy
        };
        let role = json!({
            "name": "causeway",
            "trust_policy": { "Version": "2012-10-17", "Statement": [{
                "Effect": "Allow",
                "Principal": { "AWS": format!("arn:aws:iam::{}:root", scene.emulator.account()) },
                "Action": "sts:AssumeRole",
            }] },
            "policies": {
                "causeway": published("policy.json"),
                "causeway-network": published("policy-network.json"),
            },
        });
        let arn = scene.emulator.send("POST", "role", &role).await["arn"].as_str().expect("the role's ARN").to_owned();
        assume(&scene.emulator, &arn, name).await
    }

    /// A session of a role for the bearer of a service account's token; or the error of STS.
    pub async fn by_token(scene: &Scene, arn: &str, token: &str) -> Result<Self, String> {
        let action = ("Action", "AssumeRoleWithWebIdentity");
        let about = [("RoleArn", arn), ("RoleSessionName", "attack"), ("WebIdentityToken", token)];
        ask(&scene.emulator, &[action, ("Version", "2011-06-15"), about[0], about[1], about[2]]).await
    }

    /// A session of one role for all Jobs, as EKS Pod Identity gives it to a pod of that namespace.
    pub async fn of_pod(scene: &Scene, namespace: &str) -> Self {
        let (account, cluster) = (scene.emulator.account(), scene.namespace.as_str());
        let values = [("ACCOUNT_ID", account), ("AWS_REGION", "us-east-1"), ("CLUSTER_NAME", cluster)];
        let role = json!({
            "name": "causeway-backup",
            "trust_policy": filled("trust-backup-jobs-pod-identity.json", &values),
            "policies": { "jobs": filled("policy-backup-jobs.json", &values) },
        });
        let arn = scene.emulator.send("POST", "role", &role).await["arn"].clone();
        let tags = json!({
            "eks-cluster-arn": format!("arn:aws:eks:us-east-1:{account}:cluster/{cluster}"),
            "eks-cluster-name": cluster,
            "kubernetes-namespace": namespace,
            "kubernetes-service-account": "causeway-backup",
            "kubernetes-pod-name": "attack",
            "kubernetes-pod-uid": "uid",
        });
        let given = scene.emulator.send("POST", "pod-identity", &json!({ "role": arn, "tags": tags })).await;
        let field = |name: &str| given[name].as_str().expect("credentials").to_owned();
        Self { key_id: field("AccessKeyId"), secret: field("SecretAccessKey"), token: field("SessionToken") }
    }

    /// A configuration of clients with these credentials.
    pub fn config(&self, scene: &Scene) -> SdkConfig {
        let token = Some(self.token.clone());
        let credentials = Credentials::new(&self.key_id, &self.secret, token, None, "test");
        scene.aws.to_builder().credentials_provider(SharedCredentialsProvider::new(credentials)).build()
    }
}

/// A policy of `iam/`, filled in as `iam/README.md` describes.
fn published_policy(file: &str, account: &str, cluster: &str) -> Value {
    filled(file, &[("ACCOUNT_ID", account), ("AWS_REGION", "us-east-1"), ("CLUSTER_NAME", cluster)])
}

/// A file of `iam/` with these values for its placeholders.
fn filled(file: &str, values: &[(&str, &str)]) -> Value {
    let path = format!("{}/../iam/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(path).expect("the file");
    let with_value = |text: String, (name, value): &(&str, &str)| text.replace(&format!("${{{name}}}"), value);
    serde_json::from_str(&values.iter().fold(text, with_value)).expect("JSON")
}

/// ARN of the role of a namespace's Jobs.
pub fn of_jobs(account: &str, namespace: &str) -> String {
    format!("arn:aws:iam::{account}:role/causeway-backup-{namespace}")
}

/// Makes the account trust tokens of the cluster; returns their issuer.
pub async fn trust_cluster(scene: &Scene) -> String {
    let published = async |path: &str| -> Value {
        let request = http::Request::get(path).body(Vec::new()).expect("a request");
        scene.client.request(request).await.expect("the cluster tells of its issuer")
    };
    let issuer = published("/.well-known/openid-configuration").await["issuer"].as_str().expect("an issuer").to_owned();
    let keys = published("/openid/v1/jwks").await;
    scene.emulator.send("POST", "oidc", &json!({ "issuer": issuer, "jwks": keys })).await;
    issuer
}

/// Makes the role of a namespace's Jobs, as `iam/README.md` describes it for tokens of that issuer.
pub async fn put_jobs(scene: &Scene, issuer: &str, namespace: &str) {
    put_jobs_of(scene, issuer, namespace, &["us-east-1"]).await;
}

/// The same, for the buckets that the cluster has in these regions.
pub async fn put_jobs_of(scene: &Scene, issuer: &str, namespace: &str, regions: &[&str]) {
    let provider = issuer.trim_start_matches("https://");
    let account = scene.emulator.account();
    let values = [("ACCOUNT_ID", account), ("OIDC_PROVIDER", provider), ("NAMESPACE", namespace)];
    let policy = |region: &&str| {
        let values = [("ACCOUNT_ID", account), ("AWS_REGION", *region), ("CLUSTER_NAME", scene.namespace.as_str())];
        (format!("jobs-{region}"), filled("policy-backup-jobs.json", &values))
    };
    let policies: serde_json::Map<String, Value> = regions.iter().map(policy).collect();
    let role = json!({
        "name": format!("causeway-backup-{namespace}"),
        "trust_policy": filled("trust-backup-jobs.json", &values),
        "policies": policies,
        "tags": { "kubernetes-namespace": namespace },
    });
    scene.emulator.send("POST", "role", &role).await;
}

/// `sts:AssumeRole`; the emulator reads the account from the access key and verifies no signature.
async fn assume(emulator: &Emulator, arn: &str, name: &str) -> Session {
    let form = [("Action", "AssumeRole"), ("Version", "2011-06-15"), ("RoleArn", arn), ("RoleSessionName", name)];
    ask(emulator, &form).await.expect("a session")
}

/// The credentials that STS returns for a request; or its error.
async fn ask(emulator: &Emulator, form: &[(&'static str, &str)]) -> Result<Session, String> {
    let url = emulator.endpoint().to_owned();
    let signature = format!(
        "AWS4-HMAC-SHA256 Credential={}/20260101/us-east-1/sts/aws4_request, SignedHeaders=host, Signature=0",
        emulator.account()
    );
    let form: Vec<(&str, String)> = form.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
    let answer = tokio::task::spawn_blocking(move || {
        let agent = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().new_agent();
        let mut answer =
            agent.post(&url).header("Authorization", &signature).send_form(form).expect("an answer of STS");
        answer.body_mut().read_to_string().expect("a text")
    })
    .await
    .expect("the request ends");
    let field = |name: &str| {
        let rest = answer.split_once(&format!("<{name}>")).map(|(_, rest)| rest);
        rest.and_then(|rest| rest.split('<').next()).map(str::to_owned).ok_or_else(|| answer.clone())
    };
    Ok(Session { key_id: field("AccessKeyId")?, secret: field("SecretAccessKey")?, token: field("SessionToken")? })
}
