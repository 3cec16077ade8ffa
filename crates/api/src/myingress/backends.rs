//! Backends: Services that requests are forwarded to.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Duration;

/// A Service to which requests are forwarded. It becomes a target group.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("!has(self.slowStart) || duration(self.slowStart) == duration('0s') || !has(self.algorithm) || self.algorithm == 'round_robin'", "slowStart works with algorithm round_robin only: remove one of the two"),
    validation = ("!has(self.nodeSelector) || self.targetType == 'instance'", "nodeSelector is for targetType instance: set it, or remove nodeSelector")
)]
pub struct BackendSpec {
    /// Name by which rules refer to the backend, such as `shop`.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"))]
    pub name: String,

    /// Name of a Service in this object's namespace, such as `shop`. Left out, the backend's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"))]
    pub service: Option<String>,

    /// Port of the Service (not of its pods), by number or name, for example `80` or `http`.
    #[schemars(extend("minimum" = 1, "maximum" = 65535))]
    pub port: IntOrString,

    /// `ip` (the default) sends requests to the pods themselves, `instance` to the Service's node port on every node;
    /// for `instance` the Service must have type `NodePort` or `LoadBalancer`.
    #[serde(default)]
    pub target_type: BackendTargetType,

    /// With targetType `instance`: labels that a node must have to become a target, for example
    /// `{ "node.kubernetes.io/lifecycle": "on-demand" }`. Left out, every node that takes traffic.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 5, "additionalProperties" = { "type": "string", "maxLength": 63 }))]
    pub node_selector: BTreeMap<String, String>,

    /// Protocol to the targets: `HTTP` (the default) or `HTTPS`. Certificates of targets are not verified.
    #[serde(default)]
    pub protocol: BackendProtocol,

    /// HTTP version to the targets: `HTTP1` (the default), `HTTP2` or `GRPC`. The latter two need an HTTPS listener.
    #[serde(default)]
    pub protocol_version: BackendVersion,

    /// Port on which the agent of AWS's target optimizer answers in each target, for example `3000`: the balancer then sends
    /// a target no more requests at a time than its agent allows. Without it, targets have no agent. A change makes a new
    /// target group.
    /// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-target-groups.html#target-optimizer>
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub target_control_port: Option<u16>,

    /// Health checks of the targets, for example `{ "path": "/healthz" }`. Left out, `/` every 15s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check: Option<HealthCheckSpec>,

    /// Time in which the share of requests of a new target grows to the full share, for example `2m`: 30s to 900s, or
    /// 0s (the default) for the full share at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = ("duration(self) == duration('0s') || (duration(self) >= duration('30s') && duration(self) <= duration('900s'))", "slowStart must be 0s, or 30s to 900s"))]
    pub slow_start: Option<Duration>,

    /// How long requests in flight may continue after a target was deregistered, for example `30s`: 0s to 3600s. Left
    /// out, AWS's default, 300s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = ("duration(self) >= duration('0s') && duration(self) <= duration('3600s')", "deregistrationDelay must be 0s to 3600s, such as 30s"))]
    pub deregistration_delay: Option<Duration>,

    /// How requests are distributed over the targets: `round_robin` (AWS's default), `least_outstanding_requests` (for
    /// requests of very different duration) or `weighted_random` (required for anomaly mitigation).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<Algorithm>,

    /// Sends all requests of a client to the same target, for example `{ "type": "lb_cookie", "duration": "1h" }`. Left
    /// out, each request can go to any target. AWS refuses stickiness together with the attribute
    /// `load_balancing.cross_zone.enabled: "false"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stickiness: Option<StickinessSpec>,

    /// Other attributes of the target group, by AWS's own keys, for example
    /// `load_balancing.cross_zone.enabled: "false"`. An attribute that is left out has AWS's default.
    /// Keys: <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_TargetGroupAttribute.html>
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 30, "additionalProperties" = { "type": "string", "maxLength": 256 }))]
    pub attributes: BTreeMap<String, String>,
}

/// Kind of targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum BackendTargetType {
    /// Pods, by address.
    #[default]
    Ip,
    /// Nodes, by EC2 instance id.
    Instance,
}

/// Protocol of requests to targets, or of health checks.
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

/// Health checks of the targets.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/target-group-health-checks.html>
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.timeout) || duration(self.timeout) < duration(has(self.interval) ? self.interval : '15s')", "healthCheck.timeout must be less than healthCheck.interval (15s unless given)"))]
pub struct HealthCheckSpec {
    /// Path of the health check, for example `/healthz`; `/` unless given. With gRPC the method; `/AWS.ALB/healthcheck`
    /// unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^/[\x21-\x7E]*$"))]
    pub path: Option<String>,

    /// Port of the health checks on each target: a number from 1 to 65535, for example `9090`, or the name of a port of
    /// the Service, for example `metrics`. A name stands for the number of that port on the pods or, with targetType
    /// `instance`, for its node port. `traffic-port` (the default) is the port that receives the requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "maximum" = 65535))]
    pub port: Option<IntOrString>,

    /// Protocol of the health checks: `HTTP` or `HTTPS`. Left out, the backend's protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<BackendProtocol>,

    /// Time between two health checks, for example `10s`: 5s to 300s; 15s unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = ("duration(self) >= duration('5s') && duration(self) <= duration('300s')", "healthCheck.interval must be 5s to 300s, such as 15s"))]
    pub interval: Option<Duration>,

    /// How long a health check may take, for example `3s`: 2s to 120s, and less than `interval`; 5s unless given, or
    /// less if the interval is too short for 5s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = ("duration(self) >= duration('2s') && duration(self) <= duration('120s')", "healthCheck.timeout must be 2s to 120s, such as 5s"))]
    pub timeout: Option<Duration>,

    /// Number of consecutive successful checks after which a target counts as healthy again: 2 to 10; 2 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 10))]
    pub healthy_threshold: Option<u8>,

    /// Number of consecutive failed checks after which a target counts as unhealthy: 2 to 10; 2 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 10))]
    pub unhealthy_threshold: Option<u8>,

    /// Status codes of a successful check, for example `200,204` or `200-299`; `200` unless given (with gRPC: `12`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100), regex(pattern = "^[0-9]{1,3}(-[0-9]{1,3})?(,[0-9]{1,3}(-[0-9]{1,3})?)*$"))]
    pub success_codes: Option<String>,
}

/// Sends all requests of a client to the same target, by a cookie.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.cookieName) == (self.type == 'app_cookie')", "stickiness.cookieName goes with type app_cookie, and only with it"))]
pub struct StickinessSpec {
    /// Which cookie: the load balancer's own (`lb_cookie`, the default) or the application's (`app_cookie`, with
    /// `cookieName`).
    #[serde(rename = "type", default)]
    pub kind: StickinessType,

    /// How long stickiness lasts, for example `1h`: 1s to 168h (7 days); 24h unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = ("duration(self) >= duration('1s') && duration(self) <= duration('168h')", "stickiness.duration must be 1s to 168h, such as 24h"))]
    pub duration: Option<Duration>,

    /// Name of the application's cookie, for example `JSESSIONID`. Required with type `app_cookie`, and not allowed
    /// otherwise.
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
