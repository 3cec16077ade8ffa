//! EC2's Query API. It calls any operation, with the same parts as AWS's own clients (credentials, signatures,
//! deadlines, connections).
//!
//! AWS's client of EC2 has all of its operations, several hundred. A dozen are used here, and compiling the others took
//! minutes and 7 GiB of memory.
//!
//! <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/Query-Requests.html>

use aws_config::SdkConfig;
use aws_runtime::auth::SigV4OperationSigningConfig;
use aws_runtime::auth::sigv4::{SCHEME_ID, SigV4AuthScheme};
use aws_runtime::request_info::RequestInfoInterceptor;
use aws_runtime::service_clock_skew::ServiceClockSkewInterceptor;
use aws_runtime::user_agent::{ApiMetadata, UserAgentInterceptor};
use aws_sdk_elasticloadbalancingv2::config::Intercept;
use aws_sdk_elasticloadbalancingv2::config::endpoint::{DefaultResolver, Params, ResolveEndpoint};
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
use aws_types::service_config::ServiceConfigKey;
use futures::FutureExt;

use super::element::Element;
use super::parameters::Parameters;
use crate::external::aws::timeouts;

/// The version of the API: <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/CommonParameters.html>.
const VERSION: &str = "2016-11-15";

/// The API of one region and account. It makes each call once; [`super::super::aws::Caller`] repeats it.
#[derive(Clone, Debug)]
pub struct Api {
    endpoint: String,
    plugin: SharedRuntimePlugin,
}

/// What EC2 answered.
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

/// The URL of EC2 in the region: as configured for EC2 or for all services, or else AWS's own. The latter differs from
/// that of load balancing only in the service: <https://docs.aws.amazon.com/general/latest/gr/ec2-service.html>,
/// <https://docs.aws.amazon.com/general/latest/gr/elb.html>.
fn endpoint(config: &SdkConfig) -> String {
    let key = ServiceConfigKey::builder().service_id("EC2").env("AWS_ENDPOINT_URL").profile("endpoint_url").build();
    let own = config.service_config().zip(key.ok()).and_then(|(settings, key)| settings.load_config(key));
    if let Some(configured) = own.or_else(|| config.endpoint_url().map(str::to_owned)) {
        return configured;
    }
    let region = config.region().map(ToString::to_string).unwrap_or_default();
    let wanted = Params::builder()
        .region(&*region)
        .use_fips(config.use_fips().unwrap_or_default())
        .use_dual_stack(config.use_dual_stack().unwrap_or_default())
        .build();
    let balancing =
        wanted.ok().and_then(|wanted| DefaultResolver::new().resolve_endpoint(&wanted).now_or_never()?.ok());
    match balancing {
        Some(balancing) => balancing.url().replacen("//elasticloadbalancing", "//ec2", 1),
        // No region has such a name, so the call fails because the host does not exist.
        None => format!("https://ec2.{region}.amazonaws.com"),
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
    // Something between us and EC2 may answer with something that is not XML. Then nobody knows what became of the
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
    use aws_config::Region;

    fn of(region: &'static str) -> aws_types::sdk_config::Builder {
        SdkConfig::builder().region(Region::new(region))
    }

    #[test]
    fn ec2_answers_where_awss_own_list_has_it() {
        // <https://docs.aws.amazon.com/general/latest/gr/ec2-service.html>, and the rules of botocore's
        // data/ec2/2016-11-15/endpoint-rule-set-1.json.gz, read in November 2026.
        for (config, url) in [
            (of("eu-west-1"), "https://ec2.eu-west-1.amazonaws.com"),
            (of("us-east-1").use_fips(true), "https://ec2-fips.us-east-1.amazonaws.com"),
            (of("eu-west-1").use_dual_stack(true), "https://ec2.eu-west-1.api.aws"),
            (of("us-east-1").use_fips(true).use_dual_stack(true), "https://ec2-fips.us-east-1.api.aws"),
            (of("cn-north-1"), "https://ec2.cn-north-1.amazonaws.com.cn"),
            (of("us-gov-west-1"), "https://ec2.us-gov-west-1.amazonaws.com"),
            (of("us-gov-west-1").use_fips(true), "https://ec2.us-gov-west-1.amazonaws.com"),
            (of("us-iso-east-1"), "https://ec2.us-iso-east-1.c2s.ic.gov"),
            (of("eu-west-1").endpoint_url("http://127.0.0.1:4566"), "http://127.0.0.1:4566"),
        ] {
            assert_eq!(endpoint(&config.build()), url);
        }
    }

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
