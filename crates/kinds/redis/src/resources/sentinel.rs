//! The container beside each node that answers clients as Redis Sentinel does.

use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector, Volume};
use kube::ResourceExt;

use causeway_api::Redis;
use causeway_databases::builders::{container_port, mount};
use causeway_runtime::{requirements, unprivileged_context};

use super::super::names::{self, PORT as NODE_PORT};
use super::super::settings::{SENTINEL_FILE, SENTINEL_PATH, TLS_PATH};
use super::{certificates, password, statefulset};
use crate::sentinel::PORT;

/// Memory limit unless the spec says otherwise: its connections are few.
const MOST_MEMORY: &str = "64Mi";
/// Name of the container, of its port, and of the volume with its password.
pub const NAME: &str = "sentinel";

/// It runs the operator's own image unless the spec names one. It has no probe: that clients cannot ask it for the
/// master is no reason to take a node from its clients.
pub fn sentinel(object: &Redis, own_image: &str) -> Option<Container> {
    let spec = object.spec.sentinel.as_ref()?;
    let tls = object.spec.tls.is_some().then(certificates);
    let secret = volume(object).map(|volume| mount(volume.name, SENTINEL_PATH, true));
    let mounts: Vec<_> = tls.into_iter().chain(secret).collect();
    Some(Container {
        name: NAME.into(),
        image: Some(spec.image.clone().unwrap_or_else(|| own_image.to_owned())),
        args: Some(vec!["sentinel".into()]),
        env: Some(environment(object)),
        ports: Some(vec![container_port(NAME, PORT)]),
        // It keeps running while a master hands over because its pod is deleted: subscribers must get the message about
        // that.
        lifecycle: Some(statefulset::hand_over()),
        volume_mounts: Some(mounts).filter(|all| !all.is_empty()),
        resources: Some(requirements(spec.resources.as_ref(), ("10m", "16Mi"), MOST_MEMORY)),
        security_context: Some(unprivileged_context()),
        ..Container::default()
    })
}

/// Its password, where clients must give one: it has a user of its own.
pub fn volume(object: &Redis) -> Option<Volume> {
    (object.spec.sentinel.is_some() && object.spec.auth.enabled).then(|| password(object, NAME, SENTINEL_FILE))
}

fn environment(object: &Redis) -> Vec<EnvVar> {
    let variable = |name: &str, value: String| EnvVar { name: name.into(), value: Some(value), value_from: None };
    let address = ObjectFieldSelector { api_version: None, field_path: "status.podIP".into() };
    let address = EnvVarSource { field_ref: Some(address), ..EnvVarSource::default() };
    let mut environment = vec![
        EnvVar { name: "POD_IP".into(), value: None, value_from: Some(address) },
        variable("SENTINEL_MASTER", object.name_any()),
        variable("SENTINEL_NODE", format!("127.0.0.1:{NODE_PORT}")),
        variable("SENTINEL_REPLICAS", names::dns_name(object, &names::replicas(object))),
    ];
    if object.spec.auth.enabled {
        environment.push(variable("SENTINEL_PASSWORD_FILE", format!("{SENTINEL_PATH}/{SENTINEL_FILE}")));
    }
    if let Some(tls) = &object.spec.tls {
        environment.extend([
            variable("SENTINEL_TLS_DIRECTORY", TLS_PATH.into()),
            variable("SENTINEL_TLS_NAME", names::dns_name(object, &object.name_any())),
            variable("SENTINEL_CLIENT_CERTIFICATES", tls.client_certificates.as_str().into()),
        ]);
    }
    environment
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command, FromArgMatches};

    use super::super::super::fixtures::redis;
    use super::*;
    use crate::sentinel::SentinelOptions;
    use causeway_api::redis::{ClientCertificates, Sentinel, Tls};

    fn with_sentinels() -> Redis {
        let mut object = redis(1);
        object.spec.sentinel = Some(Sentinel::default());
        object
    }

    #[test]
    fn there_is_none_unless_it_is_asked_for() {
        assert_eq!(sentinel(&redis(1), "causeway:1"), None);
        assert_eq!(volume(&redis(1)), None);
    }

    /// Every variable belongs to an option of the program, which accepts its value.
    #[test]
    fn the_program_accepts_its_environment() {
        let mut object = with_sentinels();
        object.spec.auth.enabled = true;
        object.spec.tls = Some(Tls { client_certificates: ClientCertificates::Optional, ..Tls::default() });
        let command = SentinelOptions::augment_args(Command::new("sentinel"));
        let words = environment(&object).into_iter().flat_map(|variable| {
            let option = command.get_arguments().find(|it| it.get_env().is_some_and(|env| *env == *variable.name));
            let option = option.unwrap_or_else(|| panic!("no option is {}", variable.name));
            let value = variable.value.unwrap_or_else(|| "10.0.0.1".into());
            [format!("--{}", option.get_long().unwrap()), value]
        });
        let words = std::iter::once("sentinel".to_owned()).chain(words).collect::<Vec<_>>();
        let options = SentinelOptions::from_arg_matches(&command.get_matches_from(words)).unwrap();
        assert_eq!((options.master.as_str(), options.node.port()), ("cache", 6379));
        assert_eq!(options.client_certificates, ClientCertificates::Optional);
        assert!(options.password_file.is_some() && options.tls_directory.is_some());
        assert_eq!(sentinel(&object, "causeway:1").unwrap().volume_mounts.unwrap().len(), 2);
    }

    #[test]
    fn an_image_of_the_users_takes_the_place_of_ours() {
        let mut object = with_sentinels();
        let image = |object: &Redis| sentinel(object, "causeway:1").unwrap().image.unwrap();
        assert_eq!(image(&object), "causeway:1");
        object.spec.sentinel = Some(Sentinel { image: Some("mirror/causeway:2".into()), ..Sentinel::default() });
        assert_eq!(image(&object), "mirror/causeway:2");
    }
}
