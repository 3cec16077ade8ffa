//! The pods: restricted by Kubernetes' Pod Security Standards, with a web identity of their own and Secrets as files.
//! <https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted>

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::{
    JobSpec, PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule,
};
use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, EnvVar, EnvVarSource, ObjectFieldSelector, PodSecurityContext, PodSpec,
    PodTemplateSpec, SeccompProfile, Volume,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ObjectMeta;
use serde::Serialize;

use super::elsewhere::in_image;
use super::volumes::{self, PlanIn, file_of, mount};
use super::{SERVICE_ACCOUNT, Scratch, SecretMount, Settings};
use crate::api::etcdcluster::Resources;
use crate::backup::plan::{self, BackupPlan, RestorePlan};
use crate::runtime::{requirements, unprivileged};

/// An unprivileged user that no image gives files to.
const USER: i64 = 65_532;
/// Where a backup is unpacked to.
pub const WORK: &str = "/work";
/// A backup that is stopped aborts its upload before.
const STOP_SECONDS: i64 = 30;
/// CPU and memory of a container that is given none.
const USUAL: (&str, &str) = ("50m", "64Mi");
/// With this code a container ends where another try would end alike.
const HOPELESS: i32 = 3;
/// Ended Jobs are kept for so long, for people to look at their logs.
const KEPT_SECONDS: i32 = 86_400;

/// What Jobs have alike.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// What the operator was told.
    pub settings: &'a Settings,
    /// Where the plan is.
    pub plan: PlanIn<'a>,
    /// Secrets that it needs.
    pub mounts: &'a [SecretMount],
    /// Name of the Secret with secret keys of age that open the backup.
    pub identity: Option<&'a str>,
    /// CPU and memory of our containers.
    pub resources: Option<&'a Resources>,
    /// Image with the programs that dump the database; none where ours needs none.
    pub image: Option<&'a str>,
}

/// The pod that takes backups. `due` is the ID of a backup that no schedule asks for.
pub fn backup_pod(run: Run<'_>, due: Option<&str>) -> PodSpec {
    let mut main = ours(run, "backup");
    let environment = main.env.get_or_insert_default();
    environment.push(EnvVar {
        name: "CAUSEWAY_JOB".into(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                api_version: Some("v1".into()),
                field_path: "metadata.labels['batch.kubernetes.io/job-name']".into(),
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    });
    environment.extend(due.map(|due| variable("CAUSEWAY_DUE", due)));
    let pod = PodSpec { containers: vec![main], volumes: Some(volumes::of(run)), ..base() };
    in_image_of(run, pod, run.image)
}

fn in_image_of(run: Run<'_>, pod: PodSpec, image: Option<&str>) -> PodSpec {
    match image {
        Some(image) => in_image(pod, ours(run, "install"), image),
        None => pod,
    }
}

/// The pod that brings a backup of `size` bytes into a server that is thrown away, and from there into the target
/// (`restore`), or compares it with what the backup says of itself (`verify`). `name` tells tries of the same restore from
/// others.
pub fn restore_pod(run: Run<'_>, command: &str, name: &str, scratch: &Scratch, size: u64) -> PodSpec {
    let work = || mount("work", WORK, false);
    let with_work = |mut container: Container| {
        container.volume_mounts.get_or_insert_default().push(work());
        container
    };
    let mut fetch = with_work(ours(Run { mounts: &[], ..run }, "fetch"));
    fetch.name = "fetch".into();
    fetch.volume_mounts.get_or_insert_default().extend(volumes::identity(run));
    let mut init = vec![fetch];
    match scratch {
        Scratch::Etcd { image } => {
            let unpack =
                ["/usr/local/bin/etcdutl", "snapshot", "restore", "/work/snapshot.db", "--data-dir=/work/data"];
            init.push(Container { volume_mounts: Some(vec![work()]), ..server("unpack", image, &unpack) });
            let serve = [
                "/usr/local/bin/etcd",
                "--data-dir=/work/data",
                "--listen-client-urls=https://127.0.0.1:12379",
                "--advertise-client-urls=https://127.0.0.1:12379",
                "--listen-peer-urls=http://127.0.0.1:12380",
                // It is read only: whatever the backup's size, it may not run out of its quota.
                "--quota-backend-bytes=107374182400",
                // Users of the backup are users of this server: its root is whoever has this certificate.
                "--client-cert-auth=true",
                "--trusted-ca-file=/work/tls/ca.crt",
                "--cert-file=/work/tls/tls.crt",
                "--key-file=/work/tls/tls.key",
            ];
            init.push(sidecar(Container { volume_mounts: Some(vec![work()]), ..server("server", image, &serve) }));
        }
        Scratch::Redis { image } => {
            let serve = ["redis-server", "--dir", WORK, "--dbfilename", "dump.rdb", "--appendonly", "no", "--save", ""];
            let at = ["--port", "16379", "--bind", "127.0.0.1"];
            let serve: Vec<&str> = serve.into_iter().chain(at).collect();
            init.push(sidecar(Container { volume_mounts: Some(vec![work()]), ..server("server", image, &serve) }));
        }
        Scratch::Sql { .. } => {}
    }
    let mut all = volumes::of(run);
    all.push(Volume {
        name: "work".into(),
        empty_dir: Some(EmptyDirVolumeSource {
            size_limit: Some(Quantity(scratch.room(size).to_string())),
            ..EmptyDirVolumeSource::default()
        }),
        ..Volume::default()
    });
    let mut main = with_work(ours(run, command));
    main.env.get_or_insert_default().push(variable("CAUSEWAY_RUN", name));
    let pod = PodSpec { init_containers: Some(init), containers: vec![main], volumes: Some(all), ..base() };
    let image = if let Scratch::Sql { image } = scratch { Some(image.as_str()) } else { None };
    in_image_of(run, pod, image)
}

/// A Job of that pod. Kubernetes tries it again with growing pauses.
pub fn job_spec(pod: PodSpec, labels: &BTreeMap<String, String>, retries: i32, deadline_seconds: i64) -> JobSpec {
    JobSpec {
        backoff_limit: Some(retries),
        active_deadline_seconds: Some(deadline_seconds),
        ttl_seconds_after_finished: Some(KEPT_SECONDS),
        pod_failure_policy: Some(PodFailurePolicy {
            rules: vec![PodFailurePolicyRule {
                action: "FailJob".into(),
                on_exit_codes: Some(PodFailurePolicyOnExitCodesRequirement {
                    container_name: None,
                    operator: "In".into(),
                    values: vec![HOPELESS],
                }),
                on_pod_conditions: None,
            }],
        }),
        template: PodTemplateSpec {
            metadata: Some(ObjectMeta { labels: Some(labels.clone()), ..ObjectMeta::default() }),
            spec: Some(pod),
        },
        ..JobSpec::default()
    }
}

/// Content of the `ConfigMap` with a plan.
pub fn plan_map(plan: &impl IsPlan) -> BTreeMap<String, String> {
    BTreeMap::from([(file_of(plan::PATH).to_owned(), plan_text(plan))])
}

/// A plan as its file has it.
pub fn plan_text(plan: &impl IsPlan) -> String {
    // Strings and numbers cannot fail to serialize.
    serde_json::to_string_pretty(plan).unwrap_or_default()
}

/// What a Job is told.
pub trait IsPlan: Serialize {}
impl IsPlan for BackupPlan {}
impl IsPlan for RestorePlan {}

fn base() -> PodSpec {
    PodSpec {
        restart_policy: Some("Never".into()),
        service_account_name: Some(SERVICE_ACCOUNT.into()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        termination_grace_period_seconds: Some(STOP_SECONDS),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(USER),
            run_as_group: Some(USER),
            fs_group: Some(USER),
            seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".into(), localhost_profile: None }),
            ..PodSecurityContext::default()
        }),
        ..PodSpec::default()
    }
}

/// A container of our own image.
fn ours(run: Run<'_>, command: &str) -> Container {
    let settings = run.settings;
    let mut env = vec![
        variable("AWS_ROLE_ARN", settings.role.as_deref().unwrap_or_default()),
        variable("AWS_WEB_IDENTITY_TOKEN_FILE", &volumes::token_path()),
        variable("AWS_REGION", &settings.region),
        variable("LOG_FORMAT", "json"),
    ];
    env.extend(settings.aws_endpoint.iter().map(|url| variable("AWS_ENDPOINT_URL", url)));
    Container {
        name: "causeway".into(),
        image: settings.image.clone(),
        args: Some(vec![command.into()]),
        env: Some(env),
        volume_mounts: Some(volumes::mounts(run)),
        resources: Some(requirements(run.resources, USUAL)),
        // What it was about when it could not say so itself.
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        security_context: Some(unprivileged()),
        ..Container::default()
    }
}

/// A container of a database's image.
fn server(name: &str, image: &str, command: &[&str]) -> Container {
    Container {
        name: name.into(),
        image: Some(image.into()),
        command: Some(command.iter().map(|word| (*word).to_owned()).collect()),
        resources: Some(requirements(None, USUAL)),
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        security_context: Some(unprivileged()),
        ..Container::default()
    }
}

/// Runs as long as the main container does, and ends with it.
/// <https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/>
fn sidecar(container: Container) -> Container {
    Container { restart_policy: Some("Always".into()), ..container }
}

pub(super) fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.into(), value: Some(value.into()), value_from: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            cluster: "prod".into(),
            role: Some("arn:aws:iam::111122223333:role/causeway-backup-jobs".into()),
            image: Some("registry.example.com/causeway:1".into()),
            region: "eu-west-1".into(),
            ..Settings::default()
        }
    }

    fn run(settings: &Settings) -> Run<'_> {
        Run {
            settings,
            plan: PlanIn::ConfigMap("nightly-plan"),
            mounts: &[],
            identity: None,
            resources: None,
            image: None,
        }
    }

    #[test]
    fn pods_of_databases_with_programs_of_their_own_stay_as_they_were_reviewed() {
        let settings = settings();
        let postgres = Scratch::Sql { image: "postgres:15".into() };
        insta::assert_yaml_snapshot!([
            backup_pod(Run { image: Some("postgres:15"), ..run(&settings) }, None),
            restore_pod(run(&settings), "verify", "uid-1", &postgres, 1 << 30),
        ]);
    }

    #[test]
    fn the_pod_of_a_backup_stays_as_it_was_reviewed() {
        let settings = settings();
        let mounts =
            [SecretMount { path: "/s/redis-cache/login".into(), secret: "cache-auth".into(), keys: vec!["password"] }];
        let run = Run { mounts: &mounts, ..run(&settings) };
        insta::assert_yaml_snapshot!(backup_pod(run, Some("20261122T000500Z")));
    }

    #[test]
    fn the_pods_of_a_restore_stay_as_they_were_reviewed() {
        let settings = settings();
        let run = Run { plan: PlanIn::ConfigMap("back-plan"), ..run(&settings) };
        let etcd = Scratch::Etcd { image: "quay.io/coreos/etcd:v3.5.9".into() };
        let redis = Scratch::Redis { image: "redis:7.0.15".into() };
        insta::assert_yaml_snapshot!([
            restore_pod(run, "restore", "uid-1", &etcd, 1 << 30),
            restore_pod(run, "verify", "uid-1", &redis, 1 << 30),
        ]);
    }
}
