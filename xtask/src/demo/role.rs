//! The operator's IAM role in LocalStack, made from the files that a user fills in for AWS.

use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::kubectl::Kubectl;
use crate::host;
use crate::localstack::LocalStack;

const ACCOUNT: &str = "000000000000";

/// The namespace whose Jobs of backups have a role: that of the demo's objects.
const NAMESPACE: &str = "default";

/// Makes LocalStack trust the cluster's issuer, the role `causeway` trust the operator's service account, and another one
/// the Jobs of backups of one namespace.
pub fn create(kubectl: &Kubectl<'_>, localstack: &LocalStack<'_>) -> Result<()> {
    let published = |path: &str| -> Result<Value> { Ok(serde_json::from_str(&kubectl.run(&["get", "--raw", path])?)?) };
    let discovery = published("/.well-known/openid-configuration")?;
    let issuer = discovery["issuer"].as_str().context("the cluster names no issuer of its tokens")?;
    localstack.trust_issuer(issuer, &published("/openid/v1/jwks")?)?;
    let operator = json!({
        "causeway": document("policy.json", issuer)?,
        "causeway-network": document("policy-network.json", issuer)?,
        "causeway-backups": document("policy-backup-operator.json", issuer)?,
    });
    localstack.put_role(ACCOUNT, "causeway", &document("trust-irsa.json", issuer)?, &operator, &json!({}))?;
    let jobs = json!({ "jobs": document("policy-backup-jobs.json", issuer)? });
    let (name, tags) = (format!("causeway-backup-{NAMESPACE}"), json!({ "kubernetes-namespace": NAMESPACE }));
    localstack.put_role(ACCOUNT, &name, &document("trust-backup-jobs.json", issuer)?, &jobs, &tags)
}

/// What policies have IAM fill in, with each request.
const VARIABLE: &str = "${aws:";

/// A file of `iam/` with its placeholders filled in, as `iam/README.md` describes.
fn document(file: &str, issuer: &str) -> Result<Value> {
    let template = fs::read_to_string(host::repo_root()?.join("iam").join(file))?;
    let filled = [
        ("${ACCOUNT_ID}", ACCOUNT),
        ("${AWS_REGION}", "us-east-1"),
        ("${CLUSTER_NAME}", "local"),
        ("${NAMESPACE}", NAMESPACE),
        ("${OIDC_PROVIDER}", issuer.trim_start_matches("https://")),
    ]
    .iter()
    .fold(template, |text, (placeholder, value)| text.replace(placeholder, value));
    if let Some(at) = filled.match_indices("${").map(|(at, _)| at).find(|at| !filled[*at..].starts_with(VARIABLE)) {
        bail!("iam/{file} has an unknown placeholder: {}", filled[at..].lines().next().unwrap_or_default());
    }
    serde_json::from_str(&filled).with_context(|| format!("iam/{file} is not JSON"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_filled_in() {
        let trust = document("trust-irsa.json", "https://issuer.example/id/1").unwrap();
        assert_eq!(
            trust["Statement"][0]["Condition"]["StringEquals"]["issuer.example/id/1:sub"],
            "system:serviceaccount:causeway-system:causeway"
        );
        for file in [
            "policy.json",
            "policy-network.json",
            "trust-pod-identity.json",
            "policy-backup-operator.json",
            "policy-backup-jobs.json",
            "trust-backup-jobs.json",
            "trust-backup-jobs-pod-identity.json",
        ] {
            document(file, "https://issuer.example").unwrap();
        }
    }
}
