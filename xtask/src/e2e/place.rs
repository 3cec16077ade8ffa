//! The place of a run: the local environment, or a real cluster and account. Everything that differs between the two is here.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::aws::Aws;
use super::operator;
use super::options::{RunId, Target};
use crate::cluster::Cluster;
use crate::demo::install::NAMESPACE;
use crate::demo::kubectl::Kubectl;
use crate::demo::{self, role};
use crate::localstack::LocalStack;
use crate::progress::Step;
use crate::{chart, host, tools};

/// Debian's AWS CLI, even if another program of that name comes first in the `PATH`.
const LOCAL_AWS: &str = "/usr/bin/aws";
/// The packages with it and curl.
pub const PACKAGES: &[&str] = &["awscli", "curl"];
/// How long the deletion of a namespace may take locally, and at AWS, which keeps security groups for minutes.
const DELETION: (Duration, Duration) = (Duration::from_mins(2), Duration::from_mins(15));

/// Temporary credentials of a role.
pub struct Session {
    key: String,
    secret: String,
    token: String,
}

/// The place of a run.
pub enum Place<'a> {
    /// A local cluster with `LocalStack`.
    Local {
        cluster: &'a Cluster,
        /// The server that it uses as AWS.
        localstack: &'a LocalStack<'a>,
        /// Credentials with the rights of `iam/policy-e2e.json` and no others.
        session: Session,
    },
    /// The cluster and account that the user named.
    Real(Target),
}

/// Names on which the user and the operator must agree.
pub struct Named {
    pub region: String,
    /// The operator's name for the cluster.
    pub cluster: String,
}

impl<'a> Place<'a> {
    /// A local environment, with credentials that have only the AWS rights of a run.
    pub fn local(cluster: &'a Cluster, localstack: &'a LocalStack<'a>) -> Result<Self> {
        let role = role::create_for_e2e(&Kubectl::local(cluster), localstack)?;
        let assume = ["sts", "assume-role", "--role-arn", &role, "--role-session-name", "e2e"];
        let answer = Self::administrated(cluster, localstack).aws().call(&assume)?;
        let part = |name: &str| answer["Credentials"][name].as_str().unwrap_or_default().to_owned();
        let session =
            Session { key: part("AccessKeyId"), secret: part("SecretAccessKey"), token: part("SessionToken") };
        Ok(Self::Local { cluster, localstack, session })
    }

    /// A local environment, with credentials that have all AWS rights.
    pub fn administrated(cluster: &'a Cluster, localstack: &'a LocalStack<'a>) -> Self {
        let root = Session { key: role::ACCOUNT.to_owned(), secret: "local".to_owned(), token: String::new() };
        Self::Local { cluster, localstack, session: root }
    }
}

impl Place<'_> {
    pub fn name(&self) -> &str {
        match self {
            Self::Local { .. } => "the local environment",
            Self::Real(target) => &target.context,
        }
    }

    /// The names that the user gave, or those of the local environment.
    pub fn names(&self) -> Named {
        match self {
            Self::Local { .. } => Named { region: "us-east-1".to_owned(), cluster: "local".to_owned() },
            Self::Real(target) => Named { region: target.region.clone(), cluster: target.cluster.clone() },
        }
    }

    /// Returns the first value locally, and the second one on a real account.
    pub fn either(&self, (local, real): (Duration, Duration)) -> Duration {
        if self.asks() { real } else { local }
    }

    /// Returns true if the suite asks the user before something costs money.
    pub fn asks(&self) -> bool {
        matches!(self, Self::Real(_))
    }

    /// kubectl for its cluster.
    pub fn kubectl(&self) -> Kubectl<'_> {
        match self {
            Self::Local { cluster, .. } => Kubectl::local(cluster),
            Self::Real(target) => Kubectl::of_context(&target.context),
        }
    }

    /// The AWS CLI for its account.
    pub fn aws(&self) -> Aws<'_> {
        Aws::new(move || match self {
            Self::Local { cluster, localstack, session } => {
                let mut aws = cluster.in_network(LOCAL_AWS);
                aws.args(["--endpoint-url", &localstack.endpoint, "--region", &self.names().region])
                    .env("AWS_ACCESS_KEY_ID", &session.key)
                    .env("AWS_SECRET_ACCESS_KEY", &session.secret)
                    // The user's own configuration is for real accounts.
                    .env("AWS_CONFIG_FILE", "/dev/null")
                    .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
                    .env_remove("AWS_SESSION_TOKEN")
                    .env_remove("AWS_PROFILE");
                if !session.token.is_empty() {
                    aws.env("AWS_SESSION_TOKEN", &session.token);
                }
                aws
            }
            Self::Real(target) => {
                let mut aws = Command::new("aws");
                aws.args(["--region", &target.region]);
                aws
            }
        })
    }

    /// A client of load balancers that can resolve and reach them.
    pub fn curl(&self) -> Command {
        match self {
            Self::Local { cluster, .. } => cluster.in_room("curl"),
            Self::Real(_) => Command::new("curl"),
        }
    }

    /// Fails unless all programs are installed that the run needs.
    pub fn programs(&self, values: Option<&PathBuf>) -> Result<()> {
        let Self::Real(_) = self else { return Ok(()) };
        let mut needed = vec!["kubectl", "aws", "curl"];
        needed.extend(values.map(|_| "helm"));
        let missing: Vec<_> = needed.into_iter().filter(|program| !host::on_path(program)).collect();
        if !missing.is_empty() {
            bail!("--real needs these programs on the PATH: {}", missing.join(", "));
        }
        Ok(())
    }

    /// Installs the operator by the chart with the user's values. Locally it is already installed.
    pub fn install(&self, values: Option<&PathBuf>, step: &Step) -> Result<()> {
        let (Self::Real(target), Some(values)) = (self, values) else { return Ok(()) };
        step.note("helm upgrade --install causeway");
        let mut helm = Command::new("helm");
        helm.args(["upgrade", "--install", "causeway"])
            .arg(chart::directory()?)
            .args(["--kube-context", &target.context, "--namespace", NAMESPACE, "--create-namespace", "--values"])
            .arg(values)
            .args(["--wait", "--timeout", "10m"]);
        tools::output_of(&mut helm).map(drop)
    }

    /// Lets the backup Jobs of that namespace assume their role. In a real account, only its owner creates roles.
    pub fn let_back_up(&self, namespace: &str) -> Result<()> {
        match self {
            Self::Local { localstack, .. } => role::create_for_backups(&self.kubectl(), localstack, namespace),
            Self::Real(_) => Ok(()),
        }
    }

    /// Deletes a namespace of a run, and waits until everything in it is gone. The operator then deletes what it
    /// created in AWS.
    pub fn delete_namespace(&self, namespace: &str, step: &Step) -> Result<()> {
        let kubectl = self.kubectl();
        step.note(format!("kubectl delete namespace {namespace}"));
        kubectl.run(&["delete", "namespace", namespace, "--ignore-not-found", "--wait=false"])?;
        operator::must_be_ready(&kubectl).with_context(|| {
            format!("no operator deletes the resources of {namespace} in AWS; it goes on once the operator is back")
        })?;
        let limit = self.either(DELETION).as_secs();
        let gone = ["wait", &format!("namespace/{namespace}"), "--for=delete", &format!("--timeout={limit}s")];
        kubectl.run(&gone).map(drop).with_context(|| {
            let stay = ["-n", namespace, "get", "myingresses,databasebackups,redises,etcdclusters,pvc,pods"];
            format!("the namespace stays; in it there is:\n{}", kubectl.run(&stay).unwrap_or_default().trim_end())
        })
    }
}

/// Installs the operator into a local environment by its chart.
pub fn install_locally(
    cluster: &Cluster,
    localstack: &LocalStack,
    binary: &std::path::Path,
    step: &Step,
) -> Result<()> {
    // Drift is found within one sweep. The default of five minutes would delay the run.
    demo::install_by_chart(cluster, localstack, binary, &["--set", "sweepInterval=10s"], step)
}

/// The name of the role for a run's backup Jobs, from the operator's option.
pub fn role_of(option: &str, run: &RunId) -> String {
    let arn = option.replace("{namespace}", &run.namespace());
    arn.rsplit('/').next().unwrap_or_default().to_owned()
}
