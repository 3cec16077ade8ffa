//! EC2's Query API. It calls any operation, with the same parts as AWS's own clients (credentials, signatures,
//! deadlines, connections).
//!
//! AWS's own client, `aws-sdk-ec2`, has all operations of EC2, more than 800, in 1.24 million lines, and no feature that
//! leaves some out. A dozen are used here, and compiling the others took minutes and 7 GiB of memory.
//!
//! <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/Query-Requests.html>

use aws_config::SdkConfig;
use aws_runtime::auth::SigV4OperationSigningConfig;
use aws_runtime::auth::sigv4::{SCHEME_ID, SigV4AuthScheme};
use aws_runtime::request_info::RequestInfoInterceptor;
use aws_runtime::service_clock_skew::ServiceClockSkewInterceptor;
use aws_runtime::user_agent::{ApiMetadata, UserAgentInterceptor};
use aws_sdk_elasticloadbalancingv2::config::Intercept;
use aws_sdk_elasticloadbalancingv2::error::{ErrorMetadata, ProvideErrorMetadata, SdkError};
use aws_sdk_elasticloadbalancingv2::operation::RequestId;
use aws_smithy_runtime::client::http::connection_poisoning::ConnectionPoisoningInterceptor;
use aws_smithy_runtime::client::orchestrator::operation::Operation;
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::auth::static_resolver::StaticAuthSchemeOptionResolver;
use aws_smithy_runtime_api::client::auth::{AuthSchemeOptionResolverParams, SharedAuthScheme};
use aws_smithy_runtime_api::client::identity::SharedIdentityResolver;
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse, OrchestratorError};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponentsBuilder;
use aws_smithy_runtime_api::client::runtime_plugin::{SharedRuntimePlugin, StaticRuntimePlugin};
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::Layer;
use aws_smithy_types::error::metadata::Builder as ErrorMetadataBuilder;
use aws_types::SigningName;
use aws_types::region::SigningRegion;

use super::element::Element;
use super::endpoint::endpoint;
use super::parameters::Parameters;
use crate::aws::timeouts;

/// The version of the API: <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/CommonParameters.html>.
const VERSION: &str = "2016-11-15";

/// The API of one region and account. It makes each call once; [`super::super::aws::Caller`] repeats it.
#[derive(Clone, Debug)]
pub struct Api {
    endpoint: String,
    plugin: SharedRuntimePlugin,
}

/// The answer of EC2.
#[derive(Debug)]
pub struct Answer {
    /// The document's root.
    pub root: Element,
    request_id: Option<String>,
}

impl RequestId for Answer {
    fn request_id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }
}

/// EC2 refused a call.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refused(ErrorMetadata);

impl ProvideErrorMetadata for Refused {
    fn meta(&self) -> &ErrorMetadata {
        &self.0
    }
}

impl Api {
    /// A client with the settings of all of AWS's clients; `guard` sees each call before it is sent.
    pub fn new(config: &SdkConfig, guard: impl Intercept + 'static) -> Self {
        let mut layer = Layer::new("EC2");
        layer.store_put(AuthSchemeOptionResolverParams::new(()));
        layer.store_put(SigV4OperationSigningConfig::default());
        layer.store_put(SigningName::from_static("ec2"));
        layer.store_put(ApiMetadata::new("ec2", env!("CARGO_PKG_VERSION")));
        if let Some(region) = config.region() {
            layer.store_put(region.clone());
            layer.store_put(SigningRegion::from(region.clone()));
        }
        layer.store_or_unset(config.app_name().cloned());
        let schemes = StaticAuthSchemeOptionResolver::new(vec![SCHEME_ID]);
        let mut parts = RuntimeComponentsBuilder::new("EC2")
            .with_http_client(config.http_client())
            .with_identity_cache(config.identity_cache())
            .with_sleep_impl(config.sleep_impl())
            .with_time_source(config.time_source())
            .with_auth_scheme(SharedAuthScheme::new(SigV4AuthScheme::new()))
            .with_auth_scheme_option_resolver(Some(schemes))
            .with_interceptor(ConnectionPoisoningInterceptor::new())
            .with_interceptor(ServiceClockSkewInterceptor::new())
            .with_interceptor(RequestInfoInterceptor::new())
            .with_interceptor(UserAgentInterceptor::new())
            .with_interceptor(guard);
        if let Some(provider) = config.credentials_provider() {
            parts.set_identity_resolver(SCHEME_ID, SharedIdentityResolver::new(provider));
        }
        let plugin = StaticRuntimePlugin::new().with_config(layer.freeze()).with_runtime_components(parts);
        Self { endpoint: endpoint(config), plugin: SharedRuntimePlugin::new(plugin) }
    }

    /// Calls an operation by its name in the API.
    ///
    /// # Errors
    ///
    /// The errors of every AWS client: the call was not sent, not answered, answered with something that is not XML, or
    /// refused.
    pub async fn call(
        &self,
        action: &'static str,
        parameters: Parameters,
    ) -> Result<Answer, SdkError<Refused, HttpResponse>> {
        let operation = Operation::builder()
            .service_name("EC2")
            .operation_name(action)
            .endpoint_url(&self.endpoint)
            .no_retry()
            .timeout_config(timeouts())
            .runtime_plugin(self.plugin.clone())
            .serializer(move |parameters| request(action, &parameters))
            .deserializer(answer)
            .build();
        operation.invoke(parameters).await
    }
}

fn request(action: &str, parameters: &Parameters) -> Result<HttpRequest, BoxError> {
    let mut request = HttpRequest::new(SdkBody::from(parameters.body(action, VERSION)));
    request.set_method("POST")?;
    request.set_uri("/")?;
    request.headers_mut().insert("content-type", "application/x-www-form-urlencoded");
    Ok(request)
}

fn answer(response: &HttpResponse) -> Result<Answer, OrchestratorError<Refused>> {
    let text = std::str::from_utf8(response.body().bytes().unwrap_or_default());
    let root =
        text.map_err(OrchestratorError::other).and_then(|text| Element::parse(text).map_err(OrchestratorError::other));
    if response.status().is_success() {
        return Ok(Answer { root: root?, request_id: response.request_id().map(str::to_owned) });
    }
    // Something between us and EC2 may answer with something that is not XML. Then it is not known what became of the
    // call.
    let error = root.ok().and_then(|root| Some(root.child("Errors")?.child("Error")?.clone())).unwrap_or_default();
    let text = |name| error.child(name).map(|it| it.text.clone());
    let mut refusal = ErrorMetadata::builder();
    refusal = text("Code").into_iter().fold(refusal, ErrorMetadataBuilder::code);
    refusal = text("Message").into_iter().fold(refusal, ErrorMetadataBuilder::message);
    Err(OrchestratorError::operation(Refused(refusal.build())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, body: &str) -> HttpResponse {
        HttpResponse::new(status.try_into().unwrap(), SdkBody::from(body))
    }

    #[test]
    fn a_refusal_keeps_awss_code_and_words() {
        // <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html>
        let text = "<Response><Errors><Error><Code>InvalidGroup.NotFound</Code><Message>The security group 'sg-1' does \
            not exist</Message></Error></Errors><RequestID>ea966190-f9aa-478e-9ede-example</RequestID></Response>";
        let refused = |status, text: &str| {
            answer(&response(status, text))
                .unwrap_err()
                .as_operation_error()
                .map(|it| (it.code().map(str::to_owned), it.message().map(str::to_owned)))
        };
        let expected = ("InvalidGroup.NotFound".to_owned(), "The security group 'sg-1' does not exist".to_owned());
        assert_eq!(refused(400, text), Some((Some(expected.0), Some(expected.1))));
        assert_eq!(refused(503, "<html>busy"), Some((None, None)), "not an answer of EC2's own");
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_no_answer() {
        assert!(answer(&response(200, "<a>")).unwrap_err().as_operation_error().is_none());
        assert_eq!(answer(&response(200, "<a><return>true</return></a>")).unwrap().root.name, "a");
    }
}
