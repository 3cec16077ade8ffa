//! The pods: restricted by Kubernetes' Pod Security Standards, with Secrets as files.
//! <https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted>
//!
//! No container has both a token for S3 and a login of the database. One of our own image talks to S3; another one, often of
//! the database's image, talks to the database. They share a socket (backups) or a directory (restores).

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::{
    JobSpec, PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule,
};
use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, EnvVar, EnvVarSource, ObjectFieldSelector, PodSpec, PodTemplateSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ObjectMeta;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::containers::{base, ours, server, sidecar, variable, with_identity, with_secrets, without_identity};
use super::foreign_image::{self, PRIVATE, in_image, install};
use super::run::Run;
use super::volumes::{self, directory_of, file_of, mount};
use super::{Scratch, Settings};
use crate::Error;
use crate::plan::{self, BackupPlan, RestorePlan};
use crate::relay;
use crate::sql::WAL_DIRECTORY;

/// Where a backup is unpacked to.
pub const WORK: &str = "/work";
/// The container that fetches a backup.
const FETCH: &str = "fetch";
/// The container in which PostgreSQL recovers from a base backup.
pub const RECOVER: &str = "recover";
/// Bytes of write-ahead log that a pod may hold on its node at a time. That is enough for segments of 1 GiB, too.
const WAL_ROOM: &str = "3Gi";
/// How many seconds ended Jobs are kept, for people to look at their logs.
const KEPT_SECONDS: i32 = 86_400;

/// Annotation of pods: containers that EKS gives neither a token nor credentials.
/// <https://github.com/aws/amazon-eks-pod-identity-webhook#eks-walkthrough>
const WITHOUT_IDENTITY: &str = "eks.amazonaws.com/skip-containers";

/// The pod that takes backups: one container dumps databases, the other one sends the data to S3. `due` is the ID of a backup
/// that no schedule asks for.
pub fn backup_pod(run: Run<'_>, due: Option<&str>) -> PodSpec {
    let with_socket = |mut container: Container| {
        container.env.get_or_insert_default().push(variable(relay::SOCKET_VARIABLE, relay::SOCKET));
        container.volume_mounts.get_or_insert_default().push(mount("dump", directory_of(relay::SOCKET), false));
        container
    };
    let mut main = with_socket(with_identity(run, ours(run, "backup")));
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
    let dump = Container { name: "dump".into(), ..ours(run, "dump") };
    let mut dump = sidecar(with_socket(with_secrets(run, dump)));
    let mut all = volumes::for_run(run);
    all.push(Volume { name: "dump".into(), empty_dir: Some(EmptyDirVolumeSource::default()), ..Volume::default() });
    let mut init = Vec::new();
    if let Some(image) = run.image {
        init.push(install(run));
        dump = in_image(run, dump, image, PRIVATE);
        all.extend(foreign_image::volumes());
    }
    if run.wal {
        dump.volume_mounts.get_or_insert_default().push(mount("wal", WAL_DIRECTORY, false));
        let room =
            EmptyDirVolumeSource { size_limit: Some(Quantity(WAL_ROOM.into())), ..EmptyDirVolumeSource::default() };
        all.push(Volume { name: "wal".into(), empty_dir: Some(room), ..Volume::default() });
    }
    init.push(dump);
    PodSpec { init_containers: Some(init), containers: vec![main], volumes: Some(all), ..base() }
}

/// The pod that drops a replication slot: it talks to the database alone, and has no token for S3.
pub fn slot_pod(run: Run<'_>, image: &str) -> PodSpec {
    let main = in_image(run, with_secrets(run, ours(run, "drop-slot")), image, PRIVATE);
    let mut all = volumes::for_run(Run { settings: &Settings { identity: None, ..run.settings.clone() }, ..run });
    all.extend(foreign_image::volumes());
    PodSpec { init_containers: Some(vec![install(run)]), containers: vec![main], volumes: Some(all), ..base() }
}

/// The pod that loads a backup of `size` bytes into a throw-away server. From there it copies the data into the target
/// (`restore`), or compares them with the manifest (`verify`). All tries of the same restore have the same `name`.
pub fn restore_pod(run: Run<'_>, command: &str, name: &str, scratch: &Scratch, size: u64) -> PodSpec {
    let work = || mount("work", WORK, false);
    let with_work = |mut container: Container| {
        container.volume_mounts.get_or_insert_default().push(work());
        container
    };
    let fetch = Container { name: FETCH.into(), ..ours(run, "fetch") };
    let mut fetch = with_work(with_identity(run, fetch));
    fetch.volume_mounts.get_or_insert_default().extend(volumes::identity(run));
    let mut init = vec![fetch];
    let memory = scratch.memory(size);
    match scratch {
        Scratch::Etcd { image } => {
            let unpack =
                ["/usr/local/bin/etcdutl", "snapshot", "restore", "/work/snapshot.db", "--data-dir=/work/data"];
            init.push(Container { volume_mounts: Some(vec![work()]), ..server("unpack", image, &unpack, memory) });
            let serve = [
                "/usr/local/bin/etcd",
                "--data-dir=/work/data",
                "--listen-client-urls=https://127.0.0.1:12379",
                "--advertise-client-urls=https://127.0.0.1:12379",
                "--listen-peer-urls=http://127.0.0.1:12380",
                // 100 GiB: the server is only read, and must not run out of its quota with a large backup.
                "--quota-backend-bytes=107374182400",
                // The server has the users of the backup. A client with this certificate is its root.
                "--client-cert-auth=true",
                "--trusted-ca-file=/work/tls/ca.crt",
                "--cert-file=/work/tls/tls.crt",
                "--key-file=/work/tls/tls.key",
            ];
            init.push(sidecar(Container {
                volume_mounts: Some(vec![work()]),
                ..server("server", image, &serve, memory)
            }));
        }
        Scratch::Redis { image, modules } => {
            let serve = ["redis-server", "--dir", WORK, "--dbfilename", "dump.rdb", "--appendonly", "no", "--save", ""];
            let at = ["--port", "16379", "--bind", "127.0.0.1"];
            let loaded = modules.iter().flat_map(|module| {
                ["--loadmodule", &module.path].into_iter().chain(module.args.iter().map(String::as_str))
            });
            let serve: Vec<&str> = serve.into_iter().chain(at).chain(loaded).collect();
            init.push(sidecar(Container {
                volume_mounts: Some(vec![work()]),
                ..server("server", image, &serve, memory)
            }));
        }
        Scratch::Recovered { by, .. } => {
            let recover = Container { name: RECOVER.into(), ..ours(run, "recover") };
            // It has a home of its own: programs of the main container must not find files there that this one left.
            init.push(in_image(run, with_work(recover), by, RECOVER));
        }
        Scratch::Sql { .. } => {}
    }
    let mut all = volumes::for_run(run);
    all.push(Volume {
        name: "work".into(),
        empty_dir: Some(EmptyDirVolumeSource {
            size_limit: Some(Quantity(scratch.room(size).to_string())),
            ..EmptyDirVolumeSource::default()
        }),
        ..Volume::default()
    });
    let mut main = with_work(with_secrets(run, ours(run, command)));
    main.env.get_or_insert_default().push(variable("CAUSEWAY_RUN", name));
    if let Scratch::Sql { image } | Scratch::Recovered { image, .. } = scratch {
        init.insert(0, install(run));
        main = in_image(run, main, image, PRIVATE);
        all.extend(foreign_image::volumes());
    }
    if let Scratch::Recovered { .. } = scratch {
        all.push(foreign_image::own(RECOVER));
    }
    PodSpec { init_containers: Some(init), containers: vec![main], volumes: Some(all), ..base() }
}

/// A Job of that pod. Kubernetes tries it again with growing pauses, unless one of our containers says that another try would fail in
/// the same way. That a pod is evicted, as by a drain, is no failed try; and the exit of a container that others inject says nothing
/// about ours.
pub fn job_spec(pod: PodSpec, labels: &BTreeMap<String, String>, retries: i32, deadline_seconds: i64) -> JobSpec {
    let evicted = PodFailurePolicyRule {
        action: "Ignore".into(),
        on_exit_codes: None,
        on_pod_conditions: Some(vec![PodFailurePolicyOnPodConditionsPattern {
            type_: "DisruptionTarget".into(),
            status: "True".into(),
        }]),
    };
    let fails = |container: &Container| PodFailurePolicyRule {
        action: "FailJob".into(),
        on_exit_codes: Some(PodFailurePolicyOnExitCodesRequirement {
            container_name: Some(container.name.clone()),
            operator: "In".into(),
            values: vec![i32::from(Error::FINAL)],
        }),
        on_pod_conditions: None,
    };
    JobSpec {
        backoff_limit: Some(retries),
        active_deadline_seconds: Some(deadline_seconds),
        ttl_seconds_after_finished: Some(KEPT_SECONDS),
        pod_failure_policy: Some(PodFailurePolicy {
            rules: std::iter::once(evicted).chain(deciding(&pod).map(fails)).collect(),
        }),
        template: PodTemplateSpec {
            metadata: Some(ObjectMeta {
                labels: Some(labels.clone()),
                annotations: Some(BTreeMap::from([(WITHOUT_IDENTITY.to_owned(), without_identity(&pod))])),
                ..ObjectMeta::default()
            }),
            spec: Some(pod),
        },
        ..JobSpec::default()
    }
}

/// The containers whose exit codes are those of [`Error::exit_code`]: the main one, and those that prepare its work.
fn deciding(pod: &PodSpec) -> impl Iterator<Item = &Container> {
    let before = pod.init_containers.iter().flatten().filter(|it| [FETCH, RECOVER].contains(&it.name.as_str()));
    pod.containers.iter().take(1).chain(before)
}

/// Content of the `ConfigMap` with the text of a plan.
pub fn plan_map(text: String) -> BTreeMap<String, String> {
    BTreeMap::from([(file_of(plan::PATH).to_owned(), text)])
}

/// The text of a plan's file, and its SHA-256, hexadecimal.
pub fn plan_text(plan: &impl IsPlan) -> (String, String) {
    // Strings and numbers cannot fail to serialize.
    let text = serde_json::to_string_pretty(plan).unwrap_or_default();
    let sha256 = hex::encode(Sha256::digest(&text));
    (text, sha256)
}

/// A plan that a Job reads.
pub trait IsPlan: Serialize {}
impl IsPlan for BackupPlan {}
impl IsPlan for RestorePlan {}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::containers::PROGRAM;
    use super::super::{Access, Identity, PlanIn, SecretMount, Settings, of_etcd_cluster, of_redis, of_source};
    use super::*;
    use causeway_api::databasebackup::Method;
    use causeway_api::{EtcdCluster, Redis};

    fn settings() -> Settings {
        Settings {
            cluster: "prod".into(),
            identity: Some(Identity::WebIdentity("arn:aws:iam::111122223333:role/causeway-backup-{namespace}".into())),
            image: Some("registry.example.com/causeway:1".into()),
            region: "eu-west-1".into(),
            ..Settings::default()
        }
    }

    fn run(settings: &Settings) -> Run<'_> {
        Run {
            namespace: "shop",
            settings,
            plan: PlanIn::ConfigMap("nightly-plan"),
            plan_sha256: "0f0f",
            mounts: &[],
            identity: None,
            resources: None,
            image: None,
            wal: false,
        }
    }

    /// Databases of every kind with all the Secrets that they can have, and the images that users name for them.
    fn every_kind() -> Vec<(Access, Scratch, Option<&'static str>)> {
        const THEIRS: &str = "registry.example.com/theirs:1";
        let source =
            |value| of_source(&serde_json::from_value(value).expect("a source"), Method::Dump).expect("an access");
        let sql = json!({ "host": "db", "image": THEIRS, "authSecretName": "login", "tlsSecretName": "tls" });
        let spec = json!({
            "version": "3.5.9", "auth": { "enabled": true }, "tls": { "client": { "verifyClients": true } },
        });
        let cluster = EtcdCluster::new("etcd", serde_json::from_value(spec).expect("a spec"));
        let spec = json!({ "auth": { "enabled": true }, "tls": { "clientCertificates": "Required" } });
        let redis = Redis::new("redis", serde_json::from_value(spec).expect("a spec"));
        let etcd = || Scratch::Etcd { image: THEIRS.into() };
        let cache = || Scratch::Redis { image: THEIRS.into(), modules: Vec::new() };
        let server = || Scratch::Sql { image: THEIRS.into() };
        let reached = json!({ "endpoints": ["https://db:2379"], "authSecretName": "login", "tlsSecretName": "tls" });
        let address = json!({ "address": "db:6379", "authSecretName": "login", "tlsSecretName": "tls" });
        vec![
            (of_etcd_cluster(&cluster), etcd(), None),
            (of_redis(&redis, false), cache(), None),
            (source(json!({ "etcd": reached })), etcd(), None),
            (source(json!({ "redisServer": address })), cache(), None),
            (source(json!({ "postgresql": sql.clone() })), server(), Some(THEIRS)),
            (source(json!({ "mysql": sql })), server(), Some(THEIRS)),
        ]
    }

    fn recovered() -> Scratch {
        Scratch::Recovered { by: "postgres:15".into(), image: "postgres:17".into() }
    }

    /// All pods that Jobs have, of all kinds of databases.
    fn every_pod(settings: &Settings) -> Vec<PodSpec> {
        let pods = every_kind().into_iter().flat_map(|(access, scratch, image)| {
            let run = Run { mounts: &access.mounts, identity: Some("age"), image, ..run(settings) };
            [
                backup_pod(run, None),
                backup_pod(run, Some("20261122T000500Z")),
                restore_pod(run, "restore", "uid-1", &scratch, 1),
                restore_pod(Run { mounts: &[], ..run }, "verify", "uid-1", &scratch, 1),
            ]
        });
        let source = json!({ "postgresql": { "host": "db", "image": "postgres:15", "authSecretName": "login" } });
        let access = of_source(&serde_json::from_value(source).expect("a source"), Method::Wal).expect("an access");
        let run = Run {
            mounts: &access.mounts,
            identity: Some("age"),
            image: Some("postgres:15"),
            wal: true,
            ..run(settings)
        };
        pods.chain([
            backup_pod(Run { identity: None, ..run }, None),
            restore_pod(run, "restore", "uid-1", &recovered(), 1),
        ])
        .collect()
    }

    fn containers(pod: &PodSpec) -> impl Iterator<Item = &Container> {
        pod.init_containers.iter().flatten().chain(&pod.containers)
    }

    /// Names of volumes of Secrets with which a client logs in to a database.
    fn logins(pod: &PodSpec) -> Vec<&str> {
        let secrets = pod
            .volumes
            .iter()
            .flatten()
            .filter(|it| it.secret.as_ref().is_some_and(|it| it.secret_name.as_deref() != Some("age")));
        secrets.map(|it| it.name.as_str()).collect()
    }

    #[test]
    fn a_token_for_s3_and_a_login_are_never_together() {
        let settings = settings();
        for pod in every_pod(&settings) {
            let mounts = |container: &Container, volume: &str| {
                container.volume_mounts.iter().flatten().any(|mount| mount.name == volume)
            };
            let logins = logins(&pod);
            let mut tokens = 0;
            for it in containers(&pod) {
                let aws = it.env.iter().flatten().any(|variable| variable.name.starts_with("AWS_"));
                assert_eq!(mounts(it, volumes::TOKEN_VOLUME), aws, "{}: {pod:?}", it.name);
                if mounts(it, volumes::TOKEN_VOLUME) {
                    tokens += 1;
                    assert_eq!(it.image, settings.image, "{} has the token", it.name);
                    assert_eq!(it.command, Some(vec![PROGRAM.to_owned()]), "{} runs our program", it.name);
                    assert!(!logins.iter().any(|login| mounts(it, login)), "{} has a login, too", it.name);
                }
            }
            assert_eq!(tokens, 1, "{pod:?}");
            for login in logins {
                assert!(containers(&pod).any(|it| mounts(it, login)), "no container has {login}");
            }
            assert_eq!(pod.automount_service_account_token, Some(false));
            assert_ne!(pod.share_process_namespace, Some(true), "who shares processes reads each other's files");
        }
    }

    #[test]
    fn every_container_that_reads_the_plan_knows_its_sum() {
        for pod in every_pod(&settings()) {
            for it in containers(&pod) {
                let reads = it.volume_mounts.iter().flatten().any(|mount| mount.name == "plan");
                let sum = it.env.iter().flatten().find(|it| it.name == plan::SHA256_VARIABLE);
                assert_eq!(sum.and_then(|it| it.value.as_deref()), reads.then_some("0f0f"), "{}: {pod:?}", it.name);
            }
        }
    }

    #[test]
    fn the_recovered_server_has_no_token_login_or_key() {
        let settings = settings();
        let pod = every_pod(&settings).pop().expect("a pod");
        let recover = containers(&pod).find(|it| it.name == "recover").expect("a container");
        let mounted: Vec<&str> = recover.volume_mounts.iter().flatten().map(|it| it.name.as_str()).collect();
        assert_eq!(mounted, ["plan", "work", "program", "program", "recover"]);
        assert!(recover.env.iter().flatten().all(|it| it.value_from.is_none()), "{recover:?}");
        assert!(
            logins(&pod).iter().all(|login| pod.containers[0]
                .volume_mounts
                .iter()
                .flatten()
                .any(|it| it.name == *login))
        );
    }

    #[test]
    fn evictions_and_injected_containers_fail_no_job() {
        for pod in every_pod(&settings()) {
            let main = pod.containers[0].name.clone();
            let spec = job_spec(pod, &BTreeMap::new(), 0, 60);
            let rules = spec.pod_failure_policy.expect("a policy").rules;
            let condition = &rules[0].on_pod_conditions.as_ref().expect("conditions")[0];
            assert_eq!((rules[0].action.as_str(), condition.type_.as_str()), ("Ignore", "DisruptionTarget"));
            let codes = rules[1].on_exit_codes.as_ref().expect("codes");
            assert_eq!((rules[1].action.as_str(), codes.container_name.as_ref()), ("FailJob", Some(&main)));
        }
    }

    #[test]
    fn a_final_failure_of_any_step_fails_the_job() {
        let names = |pod| -> Vec<String> {
            let rules = job_spec(pod, &BTreeMap::new(), 0, 60).pod_failure_policy.expect("a policy").rules;
            rules.into_iter().filter_map(|rule| rule.on_exit_codes?.container_name).collect()
        };
        let settings = settings();
        let pod = |scratch: &Scratch| restore_pod(run(&settings), "restore", "uid-1", scratch, 5);
        let redis = Scratch::Redis { image: "redis".into(), modules: Vec::new() };
        assert_eq!(names(pod(&redis)), ["causeway", "fetch"]);
        assert_eq!(names(pod(&recovered())), ["causeway", "fetch", "recover"]);
        assert_eq!(names(backup_pod(run(&settings), None)), ["causeway"]);
    }

    #[test]
    fn eks_gives_credentials_only_to_the_container_for_s3() {
        let settings = Settings { identity: Some(Identity::PodIdentity), ..settings() };
        for pod in every_pod(&settings) {
            assert!(!format!("{pod:?}").contains(volumes::TOKEN_VOLUME), "EKS mounts its own token");
            let spec = job_spec(pod.clone(), &BTreeMap::new(), 0, 60);
            let annotations = spec.template.metadata.and_then(|it| it.annotations).expect("annotations");
            let without: Vec<&str> = annotations[WITHOUT_IDENTITY].split(',').collect();
            let with: Vec<&Container> = containers(&pod).filter(|it| !without.contains(&it.name.as_str())).collect();
            assert_eq!(with.len(), 1, "{without:?}");
            assert_eq!(with[0].image, settings.image);
            let names: std::collections::BTreeSet<&str> = containers(&pod).map(|it| it.name.as_str()).collect();
            assert_eq!(names.len(), containers(&pod).count(), "two are called alike");
        }
    }

    #[test]
    fn the_pod_that_drops_a_slot_has_no_token() {
        let settings = settings();
        let source = json!({ "postgresql": { "host": "db", "image": "postgres:15", "authSecretName": "login" } });
        let access = of_source(&serde_json::from_value(source).expect("a source"), Method::Wal).expect("an access");
        let pod = slot_pod(Run { mounts: &access.mounts, ..run(&settings) }, "postgres:15");
        let text = format!("{pod:?}");
        assert!(!text.contains(volumes::TOKEN_VOLUME) && !text.contains("AWS_"), "{text}");
        assert_eq!(causeway_runtime::without_memory(&pod), [""; 0]);
        assert_eq!(without_identity(&pod), "install,causeway", "EKS gives no container credentials");
    }

    #[test]
    fn every_container_has_a_limit_of_memory() {
        for pod in every_pod(&settings()) {
            assert_eq!(causeway_runtime::without_memory(&pod), [""; 0], "{pod:?}");
        }
    }

    #[test]
    fn pods_with_foreign_programs_stay_as_reviewed() {
        let settings = settings();
        let postgres = Scratch::Sql { image: "postgres:15".into() };
        insta::assert_yaml_snapshot!([
            backup_pod(Run { image: Some("postgres:15"), ..run(&settings) }, None),
            restore_pod(run(&settings), "verify", "uid-1", &postgres, 1 << 30),
            restore_pod(run(&settings), "restore", "uid-1", &recovered(), 1 << 30),
        ]);
    }

    #[test]
    fn the_pod_of_a_backup_stays_as_it_was_reviewed() {
        let settings = settings();
        let mounts = [SecretMount {
            path: "/s/redis-cache/login".into(),
            secret: "cache-auth".into(),
            keys: vec!["password"],
            consent: causeway_runtime::consent::Consent::Named,
            field: None,
        }];
        let run = Run { mounts: &mounts, ..run(&settings) };
        insta::assert_yaml_snapshot!(backup_pod(run, Some("20261122T000500Z")));
    }

    #[test]
    fn the_pods_of_a_restore_stay_as_they_were_reviewed() {
        let settings = settings();
        let run = Run { plan: PlanIn::ConfigMap("back-plan"), ..run(&settings) };
        let etcd = Scratch::Etcd { image: "quay.io/coreos/etcd:v3.5.9".into() };
        let redis = Scratch::Redis { image: "redis:7.0.15".into(), modules: Vec::new() };
        insta::assert_yaml_snapshot!([
            restore_pod(run, "restore", "uid-1", &etcd, 1 << 30),
            restore_pod(run, "verify", "uid-1", &redis, 1 << 30),
        ]);
    }
}
