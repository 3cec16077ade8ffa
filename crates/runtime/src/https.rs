//! The connections to AWS. All clients of a configuration share one connection pool and one list of root certificates.
//! Without this, each client would make its own, and read all root certificates twice.

use std::collections::HashMap;
use std::time::Duration;

use aws_smithy_http_client::Connector;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_runtime_api::client::connector_metadata::ConnectorMetadata;
use aws_smithy_runtime_api::client::http::{HttpClient, HttpConnectorSettings, SharedHttpConnector};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use parking_lot::Mutex;

/// The connect timeout and the read timeout.
type Timeouts = (Option<Duration>, Option<Duration>);

/// Makes a connector when the first call needs it.
#[derive(Debug, Default)]
pub struct Https {
    connectors: Mutex<HashMap<Timeouts, SharedHttpConnector>>,
}

impl HttpClient for Https {
    fn http_connector(&self, settings: &HttpConnectorSettings, components: &RuntimeComponents) -> SharedHttpConnector {
        let mut connectors = self.connectors.lock();
        let make = || {
            let mut connector = Connector::builder().tls_provider(Provider::Rustls(CryptoMode::AwsLc));
            connector.set_connector_settings(Some(settings.clone()));
            connector.set_sleep_impl(components.sleep_impl());
            SharedHttpConnector::new(connector.proxy_config(ProxyConfig::from_env()).build())
        };
        connectors.entry((settings.connect_timeout(), settings.read_timeout())).or_insert_with(make).clone()
    }

    /// The SDK's own name of this connector in `User-Agent`.
    fn connector_metadata(&self) -> Option<ConnectorMetadata> {
        Some(ConnectorMetadata::new("hyper", Some("1.x".into())))
    }
}
