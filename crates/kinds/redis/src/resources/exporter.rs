//! The container beside each node that exports its metrics to Prometheus.
//! <https://github.com/oliver006/redis_exporter#command-line-flags>

use k8s_openapi::api::core::v1::{Container, EnvVar, Volume, VolumeMount};

use causeway_api::Redis;
use causeway_api::redis::{ClientCertificates, Exporter};
use causeway_databases::builders::{container_port, mount};
use causeway_runtime::{requirements, unprivileged_context};

use super::super::names::{self, EXPORTER_PORT, EXPORTER_USER, PORT};
use super::super::settings::{EXPORTER_FILE, EXPORTER_PATH, TLS_PATH};
use super::{certificates, password};

/// Memory limit unless the spec says otherwise; its metrics take little.
const MOST_MEMORY: &str = "128Mi";
/// Name of the container.
const CONTAINER: &str = "exporter";
/// Name of the volume with its password.
const VOLUME: &str = "exporter";
/// The password if the set requires none: Redis accepts any then. Without a password the exporter would connect as the
/// default user, which may run every command.
const ANY: &str = "any";

/// It has no probe: metrics that no client can read are no reason to take a node from its clients.
pub fn exporter(object: &Redis) -> Option<Container> {
    let spec: &Exporter = object.spec.exporter.as_ref()?;
    Some(Container {
        name: CONTAINER.into(),
        image: Some(spec.running_image().to_owned()),
        env: Some(environment(object)),
        ports: Some(vec![container_port("metrics", EXPORTER_PORT)]),
        volume_mounts: mounts(object),
        resources: Some(requirements(spec.resources.as_ref(), ("10m", "32Mi"), MOST_MEMORY)),
        security_context: Some(unprivileged_context()),
        ..Container::default()
    })
}

/// Its password, if it needs one. The file says to which URLs the exporter may send it.
pub fn volume(object: &Redis) -> Option<Volume> {
    (object.spec.exporter.is_some() && object.spec.auth.enabled).then(|| password(object, VOLUME, EXPORTER_FILE))
}

fn mounts(object: &Redis) -> Option<Vec<VolumeMount>> {
    let secret = volume(object).map(|volume| mount(volume.name, EXPORTER_PATH, true));
    let mounts: Vec<_> = object.spec.tls.is_some().then(certificates).into_iter().chain(secret).collect();
    (!mounts.is_empty()).then_some(mounts)
}

/// It logs in as a user of its own, who may only read metrics. It serves nothing but `/metrics`: through `/scrape` it
/// would call any address that a client names, and look for keys that a client names.
/// <https://github.com/oliver006/redis_exporter/pull/1106>
fn environment(object: &Redis) -> Vec<EnvVar> {
    let variable = |name: &str, value: String| EnvVar { name: name.into(), value: Some(value), value_from: None };
    let scheme = names::scheme(object);
    let mut environment = vec![
        variable("REDIS_ADDR", format!("{scheme}://127.0.0.1:{PORT}")),
        variable("REDIS_EXPORTER_WEB_LISTEN_ADDRESS", format!(":{EXPORTER_PORT}")),
        variable("REDIS_EXPORTER_DISABLE_SCRAPE_ENDPOINT", "true".into()),
        // It must not read settings: the operator's password is among them.
        variable("REDIS_EXPORTER_CONFIG_COMMAND", "-".into()),
        variable("REDIS_USER", EXPORTER_USER.into()),
        if object.spec.auth.enabled {
            variable("REDIS_PASSWORD_FILE", format!("{EXPORTER_PATH}/{EXPORTER_FILE}"))
        } else {
            variable("REDIS_PASSWORD", ANY.into())
        },
    ];
    if let Some(tls) = &object.spec.tls {
        // No other process can answer at 127.0.0.1, and a certificate that the user provides need not be valid for that
        // address.
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
    fn the_password_comes_from_a_file() {
        let mut object = redis(1);
        object.spec.exporter = Some(Exporter::default());
        let of = |object: &Redis| {
            let container = exporter(object).unwrap();
            container.env.unwrap().into_iter().map(|variable| variable.name).collect::<Vec<_>>()
        };
        assert!(of(&object).contains(&"REDIS_EXPORTER_DISABLE_SCRAPE_ENDPOINT".to_owned()));
        assert!(of(&object).contains(&"REDIS_PASSWORD".to_owned()) && volume(&object).is_none());
        object.spec.auth.enabled = true;
        assert_eq!(of(&object)[4..], ["REDIS_USER", "REDIS_PASSWORD_FILE"]);
        assert!(volume(&object).is_some());
        let client_certificates = ClientCertificates::Required;
        object.spec.tls = Some(causeway_api::redis::Tls { client_certificates, ..causeway_api::redis::Tls::default() });
        assert!(of(&object).contains(&"REDIS_EXPORTER_TLS_CLIENT_KEY_FILE".to_owned()));
        assert!(exporter(&object).unwrap().volume_mounts.is_some());
    }
}
