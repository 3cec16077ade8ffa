//! The demo in an existing cluster: only the operator and the examples.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;

use super::install;
use super::kubectl::Kubectl;
use crate::progress::Progress;
use crate::{host, images};

/// Settings that a local demo knows by itself; only read together with `--kubeconfig`.
#[derive(Args)]
#[command(next_help_heading = "With --kubeconfig")]
pub struct Settings {
    /// The operator's image, where the cluster's nodes can pull it from
    #[arg(long, default_value = images::operator::NAME)]
    image: String,
    /// The cluster's name: what its balancers are tagged with
    #[arg(long, env = "CLUSTER_NAME", default_value = "demo")]
    cluster_name: String,
    /// AWS region
    #[arg(long, env = "AWS_REGION", default_value = "us-east-1")]
    region: String,
    /// IAM role of the operator's service account (iam/README.md); not needed with EKS Pod Identity
    #[arg(long, env = "AWS_ROLE_ARN")]
    role_arn: Option<String>,
    /// An endpoint instead of AWS's own, for example that of a LocalStack
    #[arg(long, env = "AWS_ENDPOINT_URL")]
    aws_endpoint: Option<String>,
}

/// Installs into the cluster of `kubeconfig`, and shows the state of the examples.
pub fn run(kubeconfig: &Path, settings: &Settings) -> Result<()> {
    if !host::on_path("kubectl") {
        bail!("--kubeconfig needs kubectl on the PATH");
    }
    let kubectl = Kubectl::existing(kubeconfig);
    let mut steps = Progress::new(3);
    steps.step("Install the operator", |step| {
        let overlay = write_overlay(settings)?;
        let manifests = install::render(&kubectl, &overlay, "causeway", &settings.image)?;
        install::operator(&kubectl, &manifests, step)
    })?;
    steps.step("Apply the examples", |_| install::examples(&kubectl))?;
    steps.step("See pods running and what AWS says", |step| {
        install::pods_running(&kubectl, step)?;
        // The example's subnets exist in no real account, so only a condition that says this can be expected.
        install::balancer_shows(&kubectl, "myapp", "conditions", step)
    })?;
    println!("\n{}", install::overview(&kubectl)?);
    println!("If the balancer is not ready, `kubectl describe myingress myapp` says why.");
    Ok(())
}

/// Writes a kustomization of the base with these settings, as a user would.
fn write_overlay(settings: &Settings) -> Result<PathBuf> {
    let directory = images::operator::target_directory()?.join("demo/overlay");
    fs::create_dir_all(&directory)?;
    let deploy = host::repo_root()?.join("deploy");
    let mut options =
        vec![format!("CLUSTER_NAME={}", settings.cluster_name), format!("AWS_REGION={}", settings.region)];
    options.extend(settings.aws_endpoint.iter().map(|endpoint| format!("AWS_ENDPOINT_URL={endpoint}")));
    options.extend(settings.role_arn.iter().map(|role| format!("AWS_ROLE_ARN={role}")));
    let mut kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [relative(&deploy.join("base"), &directory)?],
        "configMapGenerator": [{
            "name": "causeway-options", "namespace": "causeway-system", "behavior": "merge", "literals": options,
        }],
    });
    if settings.role_arn.is_some() {
        kustomization["components"] = json!([relative(&deploy.join("components/web-identity"), &directory)?]);
    }
    // JSON is YAML.
    fs::write(directory.join("kustomization.yaml"), serde_json::to_string_pretty(&kustomization)?)
        .context("cannot write the kustomization")?;
    Ok(directory)
}

/// The path from `directory` to `path`, because kustomize refuses absolute paths.
fn relative(path: &Path, directory: &Path) -> Result<String> {
    let (path, directory) = (path.canonicalize()?, directory.canonicalize()?);
    let shared = path.components().zip(directory.components()).take_while(|(one, other)| one == other).count();
    let up = directory.components().skip(shared).map(|_| "..".to_owned());
    let down = path.components().skip(shared).map(|part| part.as_os_str().to_string_lossy().into_owned());
    Ok(up.chain(down).collect::<Vec<_>>().join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_between_directories() {
        assert_eq!(relative(Path::new("/usr/bin"), Path::new("/usr/lib")).unwrap(), "../bin");
        assert_eq!(relative(Path::new("/usr/bin"), Path::new("/")).unwrap(), "usr/bin");
    }
}
