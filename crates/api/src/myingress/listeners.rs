//! Listeners.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules::{ActionSpec, RuleSpec};

/// A port on which the load balancer accepts requests.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerSpec {
    /// Port, 1 to 65535, for example `443`. Each port can be used once on the load balancer.
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,

    /// Protocol of clients: `HTTP` or `HTTPS`. Left out, `HTTPS` on port 443 and `HTTP` on other ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<ListenerProtocol>,

    /// ARNs of certificates in AWS Certificate Manager or IAM, for example
    /// `arn:aws:acm:eu-west-1:111122223333:certificate/0a1b2c3d`. The first one is the default; of the others the load
    /// balancer chooses by the server name that the client sends. Left out on an HTTPS listener, Causeway finds
    /// certificates in AWS Certificate Manager by the hosts of the rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 101), inner(length(max = 2048), regex(pattern = "^arn:[^:]+:(acm|iam):")))]
    pub certificate_arns: Vec<String>,

    /// Security policy, for example `ELBSecurityPolicy-TLS13-1-3-2021-06`. Left out, the policy that the listener has,
    /// or for a new listener `ELBSecurityPolicy-TLS13-1-2-Res-PQ-2025-09`, which AWS recommends.
    /// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/describe-ssl-policies.html>
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub ssl_policy: Option<String>,

    /// How client certificates are checked, for example `{ "mode": "passthrough" }`. Left out, clients are not asked
    /// for certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual_authentication: Option<MutualAuthenticationSpec>,

    /// Networks from which traffic is allowed on this port, and no others, for example `10.0.0.0/8`. They replace
    /// `spec.inboundCidrs` and `spec.inboundPrefixLists`, one of which must be given, on this port. In a group of
    /// objects, traffic is allowed from the networks that any member gives for the port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 40), inner(length(max = 43)))]
    #[x_kube(validation = ("self.all(s, isCIDR(s))", "listeners[].inboundCidrs must be networks such as 0.0.0.0/0 or 2001:db8::/32"))]
    pub inbound_cidrs: Vec<String>,

    /// Attributes of the listener, by AWS's own keys, for example `routing.http.response.server.enabled: "false"`.
    /// Keys: <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_ListenerAttribute.html>
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 30, "additionalProperties" = { "type": "string", "maxLength": 1024 }))]
    pub attributes: BTreeMap<String, String>,

    /// Action for requests that match no rule, for example `{ "forward": { "backends": [{ "name": "shop" }] } }`. Left out,
    /// they are answered with status 404.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_action: Option<ActionSpec>,

    /// Rules, evaluated in this order: the first rule that matches decides. Left out, none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub rules: Vec<RuleSpec>,
}

/// Protocol of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum ListenerProtocol {
    /// Plain HTTP.
    Http,
    /// HTTP over TLS.
    Https,
}

/// How client certificates are checked.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/mutual-authentication.html>
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.trustStoreArn) == (self.mode == 'verify')", "mutualAuthentication.trustStoreArn goes with mode verify, and only with it"))]
pub struct MutualAuthenticationSpec {
    /// `verify` checks client certificates against a trust store; `passthrough` passes them to the targets, which check
    /// them.
    pub mode: MutualAuthenticationMode,

    /// ARN of the trust store, for example
    /// `arn:aws:elasticloadbalancing:eu-west-1:111122223333:truststore/clients/0123456789abcdef`. Required with mode
    /// `verify`, and not allowed otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), regex(pattern = "^arn:[^:]+:elasticloadbalancing:"))]
    pub trust_store_arn: Option<String>,

    /// With mode `verify`: accepts expired certificates; `false` unless given.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_client_certificate_expiry: bool,

    /// With mode `verify`: sends clients the names of the certificate authorities in the trust store; `false` unless
    /// given.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub advertise_trust_store_ca_names: bool,
}

/// How certificates of clients are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MutualAuthenticationMode {
    /// Against a trust store.
    Verify,
    /// By the targets.
    Passthrough,
}
