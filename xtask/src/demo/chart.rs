//! Installs the operator in a local cluster by its Helm chart, and goes through the life of a release.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::install::{self, NAMESPACE};
use super::{Local, tutorial};
use crate::chart::{self, Helm};
use crate::images::operator;
use crate::progress::Step;
use crate::tools;
const RELEASE: &str = "causeway";
/// The most bytes of a Secret: <https://kubernetes.io/docs/concepts/configuration/secret/#restriction-data-size>
const LARGEST_SECRET: usize = 1_048_576;

/// helm for the local cluster.
pub struct Installed<'a> {
    local: &'a Local<'a>,
    helm: Helm,
    /// Name and digest of the operator's image.
    image: (String, String),
}

impl<'a> Installed<'a> {
    /// Pushes the image of the operator's program into the cluster's registry.
    pub fn new(local: &'a Local<'a>, step: &Step) -> Result<Self> {
        let reference = operator::image(local.binary)?.push(local.cluster, step)?;
        let (name, digest) = reference.split_once('@').context("an image has a digest")?;
        // A registry's port also follows a colon, but our images have no port in their names.
        let name = name.split_once(':').map_or(name, |(name, _)| name);
        Ok(Self { local, helm: Helm::find(step)?, image: (name.to_owned(), digest.to_owned()) })
    }

    /// The path of helm.
    pub fn program(&self) -> &Path {
        self.helm.program()
    }

    /// Name and digest of the operator's image.
    pub fn image(&self) -> (&str, &str) {
        (&self.image.0, &self.image.1)
    }

    fn reference(&self) -> String {
        format!("{}@{}", self.image.0, self.image.1)
    }

    fn helm(&self, arguments: &[&str], step: &Step) -> Result<String> {
        step.note(format!("helm {}", arguments.join(" ")));
        let mut command = self.local.cluster.in_network(self.helm.program());
        chart::isolate(&mut command)?;
        command.arg("--kubeconfig").arg(self.local.cluster.kubeconfig()).args(["--namespace", NAMESPACE]);
        tools::output_of(command.args(arguments))
            .with_context(|| install::what_happened(&self.local.kubectl, NAMESPACE))
    }

    /// Installs or upgrades the release, and waits for it. It takes over objects that `kubectl apply` created before.
    pub fn upgrade(&self, options: &[&str], step: &Step) -> Result<()> {
        let (chart, values) = (chart::directory()?.display().to_string(), chart::local_values()?.display().to_string());
        let image = chart::image_values(&self.reference());
        let mut arguments = vec!["upgrade", "--install", RELEASE, &chart, "--create-namespace", "--values", &values];
        arguments.extend(["--set", &image, "--take-ownership", "--force-conflicts", "--wait", "--timeout", "600s"]);
        arguments.extend(options);
        self.helm(&arguments, step).map(drop)
    }

    /// A release takes over what kustomize installed, and is narrowed, rolled back, uninstalled and installed again.
    /// Objects must stay all the while, and the operator must work on them in the end.
    pub fn live(&self, step: &Step) -> Result<()> {
        let kubectl = &self.local.kubectl;
        let uid = |what: &str, namespace: &str| {
            kubectl.run(&["--namespace", namespace, "get", what, "--output=jsonpath={.metadata.uid}"])
        };
        let (deployment, sample) = (uid("deployment/causeway", NAMESPACE)?, uid("myapp/example-app", "default")?);
        // One replica, because a rollout of two takes twice as long.
        self.upgrade(&["--set", "replicas=1"], step).context("helm takes over what kustomize installed")?;
        if uid("deployment/causeway", NAMESPACE)? != deployment {
            bail!("the Deployment was recreated when helm took it over");
        }
        self.may_list_pods_of("kube-system", true)?;

        self.upgrade(&["--set", "replicas=1,watchNamespaces={default}"], step).context("helm upgrade")?;
        self.may_list_pods_of("default", true)?;
        self.may_list_pods_of("kube-system", false)?;
        // The operator reads its own pod to learn the image of Jobs.
        self.may("get", NAMESPACE, true)?;

        self.helm(&["rollback", RELEASE, "1", "--wait", "--timeout", "600s"], step).context("helm rollback")?;
        self.may_list_pods_of("kube-system", true)?;
        self.record_fits()?;

        self.helm(&["uninstall", RELEASE, "--wait", "--timeout", "600s"], step).context("helm uninstall")?;
        if uid("deployment/causeway", NAMESPACE).is_ok() {
            bail!("helm uninstall left the operator");
        }
        if uid("myapp/example-app", "default")? != sample {
            bail!("helm uninstall took an object along");
        }

        // The tutorial installs it under the same name, without --take-ownership: the kept objects belong to a release
        // of that name.
        tutorial::run(self.local, self, step).context("a reader follows the tutorial")?;
        install::scaled(kubectl, 4)
    }

    /// Checks whether the operator's service account has rights in a namespace.
    fn may_list_pods_of(&self, namespace: &str, expected: bool) -> Result<()> {
        self.may("list", namespace, expected)
    }

    fn may(&self, verb: &str, namespace: &str, expected: bool) -> Result<()> {
        let account = format!("--as=system:serviceaccount:{NAMESPACE}:{RELEASE}");
        let mut ask: Command =
            self.local.kubectl.command(&["--namespace", namespace, "auth", "can-i", verb, "pods", &account]);
        // kubectl exits with 1 for the answer `no`, which is no failure here.
        let answer = ask.output().context("cannot start kubectl")?;
        let answer = String::from_utf8_lossy(&answer.stdout);
        let wanted = if expected { "yes" } else { "no" };
        if answer.lines().next_back().unwrap_or_default().trim() != wanted {
            bail!("may the operator {verb} the pods of {namespace}? {wanted} was expected, but: {answer}");
        }
        Ok(())
    }

    /// helm's record of the release must fit into a Secret, with room to grow.
    fn record_fits(&self) -> Result<()> {
        let secret = format!("secret/sh.helm.release.v1.{RELEASE}.v1");
        let data = self.local.kubectl.run(&["-n", NAMESPACE, "get", &secret, "--output=jsonpath={.data.release}"])?;
        // The data are the Secret's content in base64.
        let size = data.len() / 4 * 3;
        if size > LARGEST_SECRET / 2 {
            bail!("helm's record of the release has {size} bytes, more than half of what a Secret may have");
        }
        Ok(())
    }
}
