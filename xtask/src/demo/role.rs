//! The operator's IAM role in LocalStack, made from the files that users fill in for AWS.

use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::kubectl::Kubectl;
use crate::host;
use crate::localstack::LocalStack;

/// The account of the local environment.
pub const ACCOUNT: &str = "000000000000";

/// The namespace whose backup Jobs have a role: that of the demo's objects.
const NAMESPACE: &str = "default";

/// Makes LocalStack trust the cluster's token issuer. Lets the operator's service account assume the role `causeway`,
/// and the backup Jobs of one namespace another role.
pub fn create(kubectl: &Kubectl<'_>, localstack: &LocalStack<'_>) -> Result<()> {
    let issuer = &issuer(kubectl)?;
    let keys = serde_json::from_str(&kubectl.run(&["get", "--raw", "/openid/v1/jwks"])?)?;
    localstack.trust_issuer(issuer, &keys)?;
    let operator = json!({
        "causeway": document("policy.json", issuer)?,
        "causeway-network": document("policy-network.json", issuer)?,
        "causeway-backups": document("policy-backup-operator.json", issuer)?,
    });
    localstack.put_role(ACCOUNT, "causeway", &document("trust-irsa.json", issuer)?, &operator, &json!({}))?;
    role_of_backups(localstack, issuer, NAMESPACE)
}

/// Creates the role that the backup Jobs of one namespace assume.
pub fn create_for_backups(kubectl: &Kubectl<'_>, localstack: &LocalStack<'_>, namespace: &str) -> Result<()> {
    role_of_backups(localstack, &issuer(kubectl)?, namespace)
}

/// Creates a role for `cargo xtask e2e`, with the rights that `iam/` gives for it. Returns its ARN.
pub fn create_for_e2e(kubectl: &Kubectl<'_>, localstack: &LocalStack<'_>) -> Result<String> {
    const NAME: &str = "causeway-e2e";
    let trust = json!({
        "Version": "2012-10-17",
        "Statement": [{
            "Effect": "Allow", "Action": "sts:AssumeRole", "Principal": { "AWS": format!("arn:aws:iam::{ACCOUNT}:root") },
        }],
    });
    let rights = json!({ "e2e": document("policy-e2e.json", &issuer(kubectl)?)? });
    localstack.put_role(ACCOUNT, NAME, &trust, &rights, &json!({}))?;
    Ok(format!("arn:aws:iam::{ACCOUNT}:role/{NAME}"))
}

fn role_of_backups(localstack: &LocalStack<'_>, issuer: &str, namespace: &str) -> Result<()> {
    let document = |file| filled_in(file, issuer, namespace);
    let jobs = json!({ "jobs": document("policy-backup-jobs.json")? });
    let (name, tags) = (format!("causeway-backup-{namespace}"), json!({ "kubernetes-namespace": namespace }));
    localstack.put_role(ACCOUNT, &name, &document("trust-backup-jobs.json")?, &jobs, &tags)
}

fn issuer(kubectl: &Kubectl<'_>) -> Result<String> {
    let discovery: Value =
        serde_json::from_str(&kubectl.run(&["get", "--raw", "/.well-known/openid-configuration"])?)?;
    discovery["issuer"].as_str().map(str::to_owned).context("the cluster names no issuer of its tokens")
}

/// The prefix of policy variables that IAM fills in for each request.
const VARIABLE: &str = "${aws:";

/// A file of `iam/` with its placeholders filled in, as `iam/README.md` describes.
pub fn document(file: &str, issuer: &str) -> Result<Value> {
    filled_in(file, issuer, NAMESPACE)
}

fn filled_in(file: &str, issuer: &str, namespace: &str) -> Result<Value> {
    let template = fs::read_to_string(host::repo_root()?.join("iam").join(file))?;
    let filled = [
        ("${ACCOUNT_ID}", ACCOUNT),
        ("${AWS_REGION}", "us-east-1"),
        ("${CLUSTER_NAME}", "local"),
        ("${NAMESPACE}", namespace),
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
            "policy-e2e.json",
        ] {
            document(file, "https://issuer.example").unwrap();
        }
    }
}
