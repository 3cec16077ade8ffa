//! Backends: Services that requests are forwarded to.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::Duration;

/// A Service that requests are forwarded to. It becomes a target group.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("!has(self.slowStart) || duration(self.slowStart) == duration('0s') || !has(self.algorithm) || self.algorithm == 'round_robin'", "slowStart works with algorithm round_robin only: remove one of the two"),
    validation = ("!has(self.nodeSelector) || self.targetType == 'instance'", "nodeSelector is for targetType instance: set it, or remove nodeSelector")
)]
pub struct BackendSpec {
    /// Name by which rules call it.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"))]
    pub name: String,

    /// Name of a Service in this object's namespace; the backend's own name unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"))]
    pub service: Option<String>,

    /// Port of the Service (not of its pods), by number or name, for example `80` or `http`.
    #[schemars(extend("minimum" = 1, "maximum" = 65535))]
    pub port: IntOrString,

    /// `ip` (the default) sends requests to the pods themselves, `instance` to the Service's node port on every node, for
    /// which the Service must have type `NodePort` or `LoadBalancer`.
    #[serde(default)]
    pub target_type: BackendTargetType,

    /// With targetType `instance`: labels that a node must have to become a target, for example
    /// `{ "node.kubernetes.io/lifecycle": "on-demand" }`; every node that takes traffic unless given.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 5, "additionalProperties" = { "type": "string", "maxLength": 63 }))]
    pub node_selector: BTreeMap<String, String>,

    /// What is spoken to the targets: `HTTP` (the default) or `HTTPS`. Certificates of targets are not verified.
    #[serde(default)]
    pub protocol: BackendProtocol,

    /// Version of HTTP that is spoken to the targets: `HTTP1` (the default), `HTTP2` or `GRPC`. The latter two need an HTTPS
    /// listener.
    #[serde(default)]
    pub protocol_version: BackendVersion,

    /// How targets are checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check: Option<HealthCheckSpec>,

    /// How long it takes until a new target gets its full share of requests, for example `2m`: 30s to 900s, or 0s (the
    /// default) for at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = ("duration(self) == duration('0s') || (duration(self) >= duration('30s') && duration(self) <= duration('900s'))", "slowStart must be 0s, or 30s to 900s"))]
    pub slow_start: Option<Duration>,

    /// How long requests in flight may take after a target was deregistered, for example `30s`: 0s to 3600s. AWS's default
    /// is 300s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = ("duration(self) >= duration('0s') && duration(self) <= duration('3600s')", "deregistrationDelay must be 0s to 3600s, such as 30s"))]
    pub deregistration_delay: Option<Duration>,

    /// How requests are spread over the targets: `round_robin` (AWS's default), `least_outstanding_requests` (for requests of
    /// very different length) or `weighted_random` (which alone allows anomaly mitigation).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<Algorithm>,

    /// Keeps a client with one target, for example `{ "type": "lb_cookie", "duration": "1h" }`; left out, every request goes to
    /// any target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stickiness: Option<StickinessSpec>,

    /// Further attributes of the target group by AWS's own keys, for example
    /// `load_balancing.cross_zone.enabled: "false"`. What is left out has AWS's default.
    /// Keys: <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_TargetGroupAttribute.html>
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 30, "additionalProperties" = { "type": "string", "maxLength": 256 }))]
    pub attributes: BTreeMap<String, String>,
}

/// What targets are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum BackendTargetType {
    /// Pods, by address.
    #[default]
    Ip,
    /// Nodes, by EC2 instance id.
    Instance,
}

/// What is spoken to targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum BackendProtocol {
    /// Plain HTTP.
    #[default]
    Http,
    /// HTTP over TLS; certificates of targets are not verified.
    Https,
}

/// Version of HTTP that is spoken to targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum BackendVersion {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2.
    Http2,
    /// gRPC.
    Grpc,
}

/// How requests are spread over targets.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-target-group-attributes.html>
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// In turn.
    RoundRobin,
    /// To the target with the fewest requests under way.
    LeastOutstandingRequests,
    /// At random.
    WeightedRandom,
}

/// How targets are checked; what is left out is as AWS has it.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/target-group-health-checks.html>
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.timeout) || duration(self.timeout) < duration(has(self.interval) ? self.interval : '15s')", "healthCheck.timeout must be less than healthCheck.interval (15s unless given)"))]
pub struct HealthCheckSpec {
    /// Path, `/` unless given; for gRPC the method, `/AWS.ALB/healthcheck` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^/[\x21-\x7E]*$"))]
    pub path: Option<String>,

    /// Port of the checks on each target: a number from 1 to 65535, for example `9090`, or the name of a port of the Service,
    /// for example `metrics`, which stands for the number that this port has on the pods, or with targetType `instance` for
    /// its node port. `traffic-port`, the default, is the port of the traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "maximum" = 65535))]
    pub port: Option<IntOrString>,

    /// What is spoken in checks: `HTTP` or `HTTPS`; the backend's protocol unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<BackendProtocol>,

    /// How long from one check to the next: 5s to 300s; 15s unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = ("duration(self) >= duration('5s') && duration(self) <= duration('300s')", "healthCheck.interval must be 5s to 300s, such as 15s"))]
    pub interval: Option<Duration>,

    /// How long a check may take: 2s to 120s, and less than `interval`; 5s unless given, or less where the interval is that
    /// short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = ("duration(self) >= duration('2s') && duration(self) <= duration('120s')", "healthCheck.timeout must be 2s to 120s, such as 5s"))]
    pub timeout: Option<Duration>,

    /// Passed checks after which a target counts as healthy again, 2 to 10; 2 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 10))]
    pub healthy_threshold: Option<u8>,

    /// Failed checks after which a target counts as unhealthy, 2 to 10; 2 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 10))]
    pub unhealthy_threshold: Option<u8>,

    /// Codes that pass: `200` unless given (gRPC: `12`), for example `200,204` or `200-299`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100), regex(pattern = "^[0-9]{1,3}(-[0-9]{1,3})?(,[0-9]{1,3}(-[0-9]{1,3})?)*$"))]
    pub success_codes: Option<String>,
}

/// Keeps a client with one target by a cookie.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.cookieName) == (self.type == 'app_cookie')", "stickiness.cookieName goes with type app_cookie, and only with it"))]
pub struct StickinessSpec {
    /// Whose cookie: the balancer's own (`lb_cookie`, the default) or the application's (`app_cookie`, with `cookieName`).
    #[serde(rename = "type", default)]
    pub kind: StickinessType,

    /// How long it lasts, for example `1h`: 1s to 168h (7 days); 24h unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = ("duration(self) >= duration('1s') && duration(self) <= duration('168h')", "stickiness.duration must be 1s to 168h, such as 24h"))]
    pub duration: Option<Duration>,

    /// Name of the application's cookie, for example `JSESSIONID`; needed with type `app_cookie`, and only with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256), regex(pattern = "^[A-Za-z0-9_.-]+$"))]
    pub cookie_name: Option<String>,
}

/// Whose cookie keeps a client with one target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StickinessType {
    /// The balancer's.
    #[default]
    LbCookie,
    /// The application's.
    AppCookie,
}
