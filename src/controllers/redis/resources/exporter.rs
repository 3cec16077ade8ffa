//! The container beside each node that tells Prometheus of it.
//! <https://github.com/oliver006/redis_exporter#command-line-flags>

use k8s_openapi::api::core::v1::{Container, ContainerPort, EnvVar, EnvVarSource, SecretKeySelector};

use super::super::names::{self, INTERNAL_USER, PORT};
use super::super::settings::TLS_PATH;
use super::statefulset::certificates;
use crate::api::Redis;
use crate::api::redis::{ClientCertificates, Exporter};
use crate::runtime::{requirements, unprivileged};

/// Where it answers.
const EXPORTER_PORT: u16 = 9121;
/// Name of the container.
const CONTAINER: &str = "exporter";
/// What runs where nothing else is asked for.
const IMAGE: &str = "oliver006/redis_exporter:v1.45.0";

/// It has no probe: figures that nobody can read are no reason to take a node from its clients.
pub fn exporter(object: &Redis) -> Option<Container> {
    let Exporter { image, resources } = object.spec.exporter.as_ref()?;
    Some(Container {
        name: CONTAINER.into(),
        image: Some(image.clone().unwrap_or_else(|| IMAGE.into())),
        env: Some(environment(object)),
        ports: Some(vec![ContainerPort {
            name: Some("metrics".into()),
            container_port: EXPORTER_PORT.into(),
            protocol: Some("TCP".into()),
            ..ContainerPort::default()
        }]),
        volume_mounts: object.spec.tls.is_some().then(|| vec![certificates()]),
        resources: Some(requirements(resources.as_ref(), ("10m", "32Mi"))),
        security_context: Some(unprivileged()),
        ..Container::default()
    })
}

/// It logs in as we do: that password does not change with the clients'.
fn environment(object: &Redis) -> Vec<EnvVar> {
    let variable = |name: &str, value: String| EnvVar { name: name.into(), value: Some(value), value_from: None };
    let scheme = names::scheme(object);
    let mut environment = vec![
        variable("REDIS_ADDR", format!("{scheme}://127.0.0.1:{PORT}")),
        variable("REDIS_EXPORTER_WEB_LISTEN_ADDRESS", format!(":{EXPORTER_PORT}")),
    ];
    if object.spec.auth.enabled {
        environment.push(variable("REDIS_USER", INTERNAL_USER.into()));
        let secret = SecretKeySelector { name: names::users(object), key: "internal".into(), optional: None };
        let source = EnvVarSource { secret_key_ref: Some(secret), ..EnvVarSource::default() };
        environment.push(EnvVar { name: "REDIS_PASSWORD".into(), value: None, value_from: Some(source) });
    }
    if let Some(tls) = &object.spec.tls {
        // Nobody else can answer at that address, which a given certificate need not be valid for.
        environment.push(variable("REDIS_EXPORTER_SKIP_TLS_VERIFICATION", "true".into()));
        if tls.client_certificates != ClientCertificates::Off {
            environment.push(variable("REDIS_EXPORTER_TLS_CLIENT_CERT_FILE", format!("{TLS_PATH}/tls.crt")));
            environment.push(variable("REDIS_EXPORTER_TLS_CLIENT_KEY_FILE", format!("{TLS_PATH}/tls.key")));
        }
    }
    environment
}

#[cfg(test)]
mod tests {
    use super::super::super::fixtures::redis;
    use super::*;

    #[test]
    fn there_is_none_unless_it_is_asked_for() {
        assert_eq!(exporter(&redis(1)), None);
    }

    #[test]
    fn it_takes_the_password_from_our_secret_where_there_is_one() {
        let mut object = redis(1);
        object.spec.exporter = Some(Exporter::default());
        let of = |object: &Redis| {
            let container = exporter(object).unwrap();
            container.env.unwrap().into_iter().map(|variable| variable.name).collect::<Vec<_>>()
        };
        assert_eq!(of(&object), ["REDIS_ADDR", "REDIS_EXPORTER_WEB_LISTEN_ADDRESS"]);
        object.spec.auth.enabled = true;
        assert_eq!(of(&object)[2..], ["REDIS_USER", "REDIS_PASSWORD"]);
        let client_certificates = ClientCertificates::Required;
        object.spec.tls = Some(crate::api::redis::Tls { client_certificates, ..crate::api::redis::Tls::default() });
        assert!(of(&object).contains(&"REDIS_EXPORTER_TLS_CLIENT_KEY_FILE".to_owned()));
        assert!(exporter(&object).unwrap().volume_mounts.is_some());
    }
}
