//! Listeners.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules::{ActionSpec, RuleSpec};

/// A port that the balancer answers on.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerSpec {
    /// Port, 1 to 65535, for example `443`; unique on the balancer.
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,

    /// What clients speak: `HTTP` or `HTTPS`. Left out, it is `HTTPS` on port 443 and `HTTP` on others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<ListenerProtocol>,

    /// ARNs of certificates of AWS Certificate Manager or IAM; the first one is the default, the others are chosen by the
    /// client's server name. Left out on an HTTPS listener, they are found in AWS
    /// Certificate Manager by the hosts of the rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 101), inner(length(max = 2048), regex(pattern = "^arn:[^:]+:(acm|iam):")))]
    pub certificate_arns: Vec<String>,

    /// Security policy, for example `ELBSecurityPolicy-TLS13-1-2-2021-06`; left out, the one that AWS chooses when the
    /// listener is made, or that it has.
    /// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/describe-ssl-policies.html>
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub ssl_policy: Option<String>,

    /// How certificates of clients are checked; left out, they are not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutual_authentication: Option<MutualAuthenticationSpec>,

    /// Networks that are let in on this port, and no others: they take the place of `spec.inboundCidrs` and
    /// `spec.inboundPrefixLists`, one of which must be given. For example `10.0.0.0/8`. In a group of objects the networks
    /// that members give for the port are all let in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 40), inner(length(max = 43)))]
    #[x_kube(validation = ("self.all(s, isCIDR(s))", "listeners[].inboundCidrs must be networks such as 0.0.0.0/0 or 2001:db8::/32"))]
    pub inbound_cidrs: Vec<String>,

    /// Attributes of the listener by AWS's own keys, for example `routing.http.response.server.enabled: "false"`.
    /// Keys: <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_ListenerAttribute.html>
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 30, "additionalProperties" = { "type": "string", "maxLength": 1024 }))]
    pub attributes: BTreeMap<String, String>,

    /// What happens to requests that no rule matches; left out, they are answered with 404.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_action: Option<ActionSpec>,

    /// Rules, evaluated in this order: the first that matches decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub rules: Vec<RuleSpec>,
}

/// What clients speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum ListenerProtocol {
    /// Plain HTTP.
    Http,
    /// HTTP over TLS.
    Https,
}

/// How certificates of clients are checked.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/mutual-authentication.html>
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.trustStoreArn) == (self.mode == 'verify')", "mutualAuthentication.trustStoreArn goes with mode verify, and only with it"))]
pub struct MutualAuthenticationSpec {
    /// `verify` checks them against a trust store, `passthrough` hands them to the targets.
    pub mode: MutualAuthenticationMode,

    /// ARN of the trust store; needed with mode `verify`, and only with it. For example
    /// `arn:aws:elasticloadbalancing:eu-west-1:111122223333:truststore/clients/0123456789abcdef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), regex(pattern = "^arn:[^:]+:elasticloadbalancing:"))]
    pub trust_store_arn: Option<String>,

    /// With mode `verify`: lets expired certificates pass; false unless given.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_client_certificate_expiry: bool,

    /// With mode `verify`: tells clients the names of the trust store's authorities; false unless given.
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
