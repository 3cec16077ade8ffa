//! The pod of a member that rebuilds its cluster. Before it does, an init container skips revisions: it runs our program
//! in etcd's image.

use k8s_openapi::api::core::v1::{Container, EmptyDirVolumeSource, EnvVar, PodSpec, Volume};
use kube::ResourceExt;

use causeway_api::EtcdCluster;
use causeway_databases::builders::mount;
use causeway_runtime::install::{DIRECTORY, command};
use causeway_runtime::{fingerprint, requirements, unprivileged_context};

use super::super::names::{SKIP, VOLUME};
use super::super::settings::VOLUME_PATH;
use super::member::{USUAL, requirements_of, variable};

/// The volume with our program.
const TOOLS: &str = "program";

/// Lets that pod skip revisions first. `member` are the variables of its member.
pub fn above(object: &EtcdCluster, mut pod: PodSpec, own_image: &str, member: Vec<EnvVar>) -> PodSpec {
    let Some(asked) = &object.spec.recovery else { return pod };
    let install = Container {
        name: "install".into(),
        image: Some(own_image.into()),
        args: Some(vec!["install".into(), DIRECTORY.into()]),
        volume_mounts: Some(vec![mount(TOOLS, DIRECTORY, false)]),
        resources: Some(requirements(None, USUAL, "128Mi")),
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        security_context: Some(unprivileged_context()),
        ..Container::default()
    };
    let mut environment = member;
    let uid = object.uid().unwrap_or_default();
    environment.extend([
        variable("CAUSEWAY_RECOVERY", &fingerprint(&[uid.as_bytes(), asked.token.as_bytes()], 32)),
        variable("CAUSEWAY_ETCD_VERSION", &object.spec.version),
    ]);
    let skip = Container {
        name: SKIP.into(),
        image: Some(asked.image.clone().unwrap_or_else(|| object.spec.member_image())),
        command: Some(command()),
        args: Some(vec![SKIP.into()]),
        env: Some(environment),
        volume_mounts: Some(vec![mount(VOLUME, VOLUME_PATH, false), mount(TOOLS, DIRECTORY, true)]),
        // A member runs in it for a while, and needs as much as usual.
        resources: Some(requirements_of(object)),
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        security_context: Some(unprivileged_context()),
        ..Container::default()
    };
    pod.init_containers = Some(vec![install, skip]);
    pod.volumes.get_or_insert_default().push(Volume {
        name: TOOLS.into(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    });
    pod
}
