//! The containers of a Job's pod: ours, those of a database's image, and what each of them is given.

use k8s_openapi::api::core::v1::{Container, EnvVar, PodSecurityContext, PodSpec};

use causeway_runtime::{requirements, restricted_context, unprivileged_context};

use super::run::Run;
use super::{SERVICE_ACCOUNT, volumes};
use crate::plan;

/// An unprivileged user that owns no files in any image.
const USER: i64 = 65_532;
/// Grace period in seconds, in which a backup that is stopped aborts its upload.
const STOP_SECONDS: i64 = 30;
/// Requests of CPU and memory of a container for which the spec sets none.
pub const USUAL: (&str, &str) = ("50m", "64Mi");
/// Memory that our program may take: two of the largest parts of an upload, and itself.
const MOST_OURS: &str = "1Gi";
/// The same in a container with the programs of a SQL server, which hold whole rows, or with that server itself.
pub const MOST_SQL: &str = "2Gi";
/// A variable that only containers that talk to AWS have.
const REGION: &str = "AWS_REGION";

pub fn base() -> PodSpec {
    PodSpec {
        restart_policy: Some("Never".into()),
        service_account_name: Some(SERVICE_ACCOUNT.into()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        termination_grace_period_seconds: Some(STOP_SECONDS),
        security_context: Some(PodSecurityContext { fs_group: Some(USER), ..restricted_context(USER) }),
        ..PodSpec::default()
    }
}

/// The program of Jobs in our own image.
pub const PROGRAM: &str = "/usr/local/bin/causeway-backup";

/// A container of our own image. It has the plan, but no token and no Secret.
pub fn ours(run: Run<'_>, command: &str) -> Container {
    Container {
        name: "causeway".into(),
        image: run.settings.image.clone(),
        command: Some(vec![PROGRAM.into()]),
        args: Some(vec![command.into()]),
        env: Some(vec![variable("LOG_FORMAT", "json"), variable(plan::SHA256_VARIABLE, run.plan_sha256)]),
        volume_mounts: Some(vec![volumes::plan_mount()]),
        resources: Some(requirements(run.resources, USUAL, MOST_OURS)),
        // If it leaves no report, the end of its log is the termination message.
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        security_context: Some(unprivileged_context()),
        ..Container::default()
    }
}

/// Lets a container of our own image talk to AWS.
pub fn with_identity(run: Run<'_>, mut container: Container) -> Container {
    let settings = run.settings;
    let environment = container.env.get_or_insert_default();
    environment.push(variable(REGION, &settings.region));
    environment.extend(settings.aws_endpoint.iter().map(|url| variable("AWS_ENDPOINT_URL", url)));
    environment.extend(settings.egress.variables.iter().map(|(name, value)| variable(name, value)));
    if let Some(role) = settings.identity.as_ref().and_then(|identity| identity.role_in(run.namespace)) {
        environment.push(variable("AWS_ROLE_ARN", &role));
        environment.push(variable("AWS_WEB_IDENTITY_TOKEN_FILE", &volumes::token_path()));
        container.volume_mounts.get_or_insert_default().push(volumes::token_mount());
    }
    container
}

/// Lets a container log in to the databases.
pub fn with_secrets(run: Run<'_>, mut container: Container) -> Container {
    container.volume_mounts.get_or_insert_default().extend(volumes::secret_mounts(run));
    container
}

/// Names of the containers that do not talk to AWS. EKS gives credentials to all other containers of a pod, whatever their
/// image is.
pub fn without_identity(pod: &PodSpec) -> String {
    let all = pod.init_containers.iter().flatten().chain(&pod.containers);
    let is_without = |it: &&Container| !it.env.iter().flatten().any(|variable| variable.name == REGION);
    all.filter(is_without).map(|it| it.name.as_str()).collect::<Vec<_>>().join(",")
}

/// A container of a database's image, with a memory limit of `most` bytes.
pub fn server(name: &str, image: &str, command: &[&str], most: u64) -> Container {
    Container {
        name: name.into(),
        image: Some(image.into()),
        command: Some(command.iter().map(|word| (*word).to_owned()).collect()),
        resources: Some(requirements(None, USUAL, &format!("{}Mi", most >> 20))),
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        security_context: Some(unprivileged_context()),
        ..Container::default()
    }
}

/// Runs as long as the main container does, and ends with it.
/// <https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/>
pub fn sidecar(container: Container) -> Container {
    Container { restart_policy: Some("Always".into()), ..container }
}

pub fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.into(), value: Some(value.into()), value_from: None }
}
