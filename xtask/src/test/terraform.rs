//! Tests that the Terraform module makes the same documents as the demo's role, with Terraform's own formatter and
//! evaluation. The module is not applied, because the AWS provider is not available here.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::directory;
use super::report::Outcome;
use crate::demo::role;
use crate::progress::Step;
use crate::{host, tools};

/// The file for each document of the module, with IRSA and with Pod Identity.
const IRSA: [(&str, &str); 6] = [
    ("policy", "policy.json"),
    ("policy-network", "policy-network.json"),
    ("trust", "trust-irsa.json"),
    ("policy-backup-operator", "policy-backup-operator.json"),
    ("policy-backup-jobs", "policy-backup-jobs.json"),
    ("default", "trust-backup-jobs.json"),
];
const POD_IDENTITY: [(&str, &str); 2] =
    [("trust", "trust-pod-identity.json"), ("trust-backup-jobs", "trust-backup-jobs-pod-identity.json")];

/// The token issuer for the module and the demo's role.
const ISSUER: &str = "issuer.example/id/1";

/// Runs all checks if Terraform is installed.
pub fn check(_: &Step) -> Result<Outcome> {
    if !host::on_path("terraform") {
        return Ok(Outcome::Partly("iam/terraform was not checked: there is no terraform on this machine".to_owned()));
    }
    let module = host::repo_root()?.join("iam/terraform");
    tools::output_of(Command::new("terraform").args(["fmt", "-check", "-diff"]).current_dir(&module))
        .context("iam/terraform is not formatted: terraform fmt iam/terraform")?;
    let folder = directory()?.join("terraform/terraform");
    fs::create_dir_all(&folder)?;
    for file in ["variables.tf", "documents.tf"] {
        fs::copy(module.join(file), folder.join(file))?;
    }
    for entry in fs::read_dir(module.parent().context("a module lies in a folder")?)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            fs::copy(&path, directory()?.join("terraform").join(path.file_name().unwrap_or_default()))?;
        }
    }
    for (issuer, wanted) in [(ISSUER, &IRSA[..]), ("", &POD_IDENTITY[..])] {
        let made = documents(&folder, issuer)?;
        for (name, file) in wanted {
            let text = made[name].as_str().with_context(|| format!("the module makes no {name}"))?;
            let document: Value = serde_json::from_str(text)?;
            if document != role::document(file, &format!("https://{ISSUER}"))? {
                bail!("iam/terraform makes of iam/{file}: {document}");
            }
        }
    }
    Ok(Outcome::Passed)
}

/// The module's documents for the demo's cluster and account, by name. Documents of one namespace also have its name.
fn documents(folder: &Path, issuer: &str) -> Result<Value> {
    let mut terraform = Command::new("terraform");
    terraform.args(["console", "-no-color", "-var", "cluster_name=local", "-var", "account_id=000000000000"]);
    terraform.args(["-var", "region=us-east-1", "-var", &format!("oidc_provider={issuer}")]);
    terraform.args(["-var", r#"backup_namespaces=["default"]"#]).current_dir(folder);
    let mut console = terraform
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start terraform")?;
    if let Some(mut input) = console.stdin.take() {
        input.write_all(b"jsonencode(merge(local.documents, local.trust_of_namespace))\n")?;
    }
    let output = console.wait_with_output()?;
    if !output.status.success() {
        bail!("terraform console: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    // Terraform prints the document as a quoted string.
    let text: String = serde_json::from_slice(&output.stdout).context("terraform printed no text")?;
    serde_json::from_str(&text).context("terraform printed no JSON")
}
