//! A role with the policy that users give the operator, and sessions of it: what the policy does not allow fails here too.

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
    /// A session of the role `causeway` of the scene's account; the journal's principals end in its name. The role may do what the policies of `iam/` allow an
    /// operator of the cluster that the scene is.
    pub async fn of(scene: &Scene, name: &str) -> Self {
        Self::without(scene, name, "").await
    }

    /// The same, of a role that may not do this action.
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

    /// A configuration of clients with these credentials.
    pub fn config(&self, scene: &Scene) -> SdkConfig {
        let token = Some(self.token.clone());
        let credentials = Credentials::new(&self.key_id, &self.secret, token, None, "test");
        scene.aws.to_builder().credentials_provider(SharedCredentialsProvider::new(credentials)).build()
    }
}

/// A policy of `iam/`, filled in as `iam/README.md` describes.
fn published_policy(file: &str, account: &str, cluster: &str) -> Value {
    let path = format!("{}/iam/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(path).expect("the policy");
    let values = [("${ACCOUNT_ID}", account), ("${AWS_REGION}", "us-east-1"), ("${CLUSTER_NAME}", cluster)];
    let filled = values.iter().fold(text, |text, (placeholder, value)| text.replace(placeholder, value));
    serde_json::from_str(&filled).expect("the policy is JSON")
}

/// `sts:AssumeRole`; the emulator reads the account from the access key and verifies no signature.
async fn assume(emulator: &Emulator, arn: &str, name: &str) -> Session {
    let url = emulator.endpoint().to_owned();
    let signature = format!(
        "AWS4-HMAC-SHA256 Credential={}/20260101/us-east-1/sts/aws4_request, SignedHeaders=host, Signature=0",
        emulator.account()
    );
    let form = [("Action", "AssumeRole"), ("Version", "2011-06-15"), ("RoleArn", arn), ("RoleSessionName", name)]
        .map(|(key, value)| (key, value.to_owned()));
    let answer = tokio::task::spawn_blocking(move || {
        let agent = ureq::Agent::config_builder().proxy(None).build().new_agent();
        let mut answer =
            agent.post(&url).header("Authorization", &signature).send_form(form).expect("an answer of STS");
        answer.body_mut().read_to_string().expect("a text")
    })
    .await
    .expect("the request ends");
    let field = |name: &str| {
        let rest = answer.split_once(&format!("<{name}>")).unwrap_or_else(|| panic!("no {name} in {answer}")).1;
        rest.split('<').next().unwrap_or_default().to_owned()
    };
    Session { key_id: field("AccessKeyId"), secret: field("SecretAccessKey"), token: field("SessionToken") }
}
