//! Rules of listeners: conditions, rewrites and actions.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Duration;

/// A rule: which requests it matches, and what happens to them. All types of conditions that are given must match; of
/// one type, one value must match. A rule may have at most five values in total; a path of type `Prefix` counts as two.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("has(self.hosts) || has(self.hostRegexes) || has(self.paths) || has(self.headers) || has(self.query) || has(self.queryAll) || has(self.methods) || has(self.sourceCidrs)", "a rule needs a condition (hosts, paths, headers, query, queryAll, methods or sourceCidrs): for all requests, use the listener's defaultAction"),
    validation = ("!has(self.hosts) || !has(self.hostRegexes)", "a rule has hosts or hostRegexes, not both: make two rules")
)]
pub struct RuleSpec {
    /// Hosts, for example `*.example.com`; `*` matches any characters and `?` one character.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5), inner(length(min = 1, max = 128)))]
    pub hosts: Vec<String>,

    /// Regular expressions for the host, for example `^(www|shop)\.example\.com$`. Not allowed together with `hosts`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5), inner(length(min = 1, max = 128)))]
    pub host_regexes: Vec<String>,

    /// Paths, for example `[{ "value": "/shop" }]`; one must match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5))]
    pub paths: Vec<PathMatch>,

    /// Headers, for example `[{ "name": "X-Env", "values": ["test"] }]`; each one must match. If a header is named
    /// twice, both entries must match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5))]
    pub headers: Vec<HeaderMatch>,

    /// Query parameters, for example `[{ "key": "version", "value": "2" }]`; one must match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5))]
    pub query: Vec<QueryMatch>,

    /// Query parameters, for example `[{ "key": "a", "value": "1" }, { "key": "b", "value": "2" }]`; each one must
    /// match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5))]
    pub query_all: Vec<QueryMatch>,

    /// HTTP methods in capital letters, for example `GET`; one must match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5), inner(length(min = 1, max = 40), regex(pattern = "^[A-Z_-]+$")))]
    pub methods: Vec<String>,

    /// Networks, for example `192.0.2.0/24`; one must contain the address of the client. Behind a proxy this is the
    /// address of the proxy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5), inner(length(min = 1, max = 43)))]
    pub source_cidrs: Vec<String>,

    /// Priority of the rule on the listener: 1 to 50000, the lowest is evaluated first. Left out, the next free number
    /// after that of the previous rule in this list (for the first rule, the lowest free number). In a group of another
    /// namespace it orders only this object's own rules, which come after the rules of that namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 50_000))]
    pub priority: Option<u16>,

    /// Rewrites the request before it is forwarded, for example
    /// `{ "url": { "regex": "^/api/(.*)$", "replace": "/$1" } }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewrite: Option<RewriteSpec>,

    /// Action for the request, for example `{ "forward": { "backends": [{ "name": "shop" }] } }`.
    pub action: ActionSpec,
}

/// A path or a set of paths.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PathMatch {
    /// How `value` is interpreted: `Prefix` (the default), `Exact`, `Pattern` or `Regex`.
    #[serde(rename = "type", default)]
    pub kind: PathType,
    /// The path without its query, 1 to 128 characters; it is case-sensitive. With type `Prefix` (at most 126
    /// characters) or `Exact` it starts with a slash and is taken literally, for example `/shop`; `*` and `?` are
    /// refused. With type `Pattern` it starts with a slash or a wildcard, for example `/*.png`; `*` matches any
    /// characters, including slashes, and `?` one character. With type `Regex` it is a regular expression, for example
    /// `^/v[0-9]+/`.
    #[schemars(length(min = 1, max = 128))]
    pub value: String,
}

/// How a path is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PathType {
    /// This path and everything below it: `/shop` is also `/shop/` and `/shop/cart`, but not `/shopping`. A slash at
    /// the end changes nothing.
    #[default]
    Prefix,
    /// This path alone: `/shop` is not `/shop/`.
    Exact,
    /// A pattern in which `*` stands for any characters, slashes too, and `?` for one: `/*.png`.
    Pattern,
    /// A regular expression: `^/v[0-9]+/`. A rule cannot mix it with the other types.
    Regex,
}

/// A header.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.values) != has(self.regexes)", "a header has values or regexes, and not both"))]
pub struct HeaderMatch {
    /// Name of the header, case-insensitive, for example `X-Env`. For `Host` use `hosts`.
    #[schemars(length(min = 1, max = 40), regex(pattern = "^[A-Za-z0-9!#$%&'+.^_`|~-]+$"))]
    pub name: String,
    /// Values, case-insensitive, for example `test-*`; `*` matches any characters and `?` one character. One must
    /// match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5), inner(length(min = 1, max = 128)))]
    pub values: Vec<String>,
    /// Regular expressions for the value, for example `^test-[0-9]+$`; one must match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5), inner(length(min = 1, max = 128)))]
    pub regexes: Vec<String>,
}

/// A query parameter.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryMatch {
    /// Key of the parameter, for example `version`. Left out, any key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub key: Option<String>,
    /// Value of the parameter, for example `2*`; `*` matches any characters and `?` one character.
    #[schemars(length(min = 1, max = 128))]
    pub value: String,
}

/// Rewrites a request before it is forwarded.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/rule-transforms.html>
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.url) || has(self.host)", "rewrite needs url or host"))]
pub struct RewriteSpec {
    /// Rewrites path and query, for example `regex: "^/api/(.*)$"` with `replace: "/$1"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<Substitution>,
    /// Rewrites the `Host` header, for example `regex: "^.*$"` with `replace: "internal.example.com"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Substitution>,
}

/// A regular expression and its replacement.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Substitution {
    /// Regular expression, for example `^/api/(.*)$`; parentheses are capture groups. A value that it does not match
    /// stays unchanged.
    #[schemars(length(min = 1, max = 1024))]
    pub regex: String,
    /// Replacement, for example `/$1`; `$1` is the first capture group.
    #[schemars(length(max = 1024))]
    pub replace: String,
}

/// Action for a request: exactly one of `forward`, `redirect` and `fixedResponse`. With one of `authenticateOidc`,
/// `authenticateCognito` and `validateJwt` the client must authenticate first (HTTPS listeners only).
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("[has(self.forward), has(self.redirect), has(self.fixedResponse)].filter(x, x).size() == 1", "an action is exactly one of forward, redirect and fixedResponse"),
    validation = ("[has(self.authenticateOidc), has(self.authenticateCognito), has(self.validateJwt)].filter(x, x).size() <= 1", "an action has at most one of authenticateOidc, authenticateCognito and validateJwt")
)]
pub struct ActionSpec {
    /// Forwards the request to backends, for example `{ "backends": [{ "name": "shop" }] }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<ForwardSpec>,
    /// Redirects the client, for example `{ "protocol": "HTTPS" }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect: Option<RedirectSpec>,
    /// Answers with a fixed response, for example `{ "statusCode": 503 }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed_response: Option<FixedResponseSpec>,
    /// Requires that the client logs in with an OpenID Connect provider first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authenticate_oidc: Option<OidcSpec>,
    /// Requires that the client logs in with a Cognito user pool first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authenticate_cognito: Option<CognitoSpec>,
    /// Accepts only requests with a valid JSON web token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validate_jwt: Option<JwtSpec>,
}

/// Forwards requests to backends.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("has(self.backends) || has(self.targetGroups)", "forward needs backends or targetGroups")
)]
pub struct ForwardSpec {
    /// Backends that share the requests by weight, for example
    /// `[{ "name": "shop", "weight": 9 }, { "name": "canary", "weight": 1 }]`: at most five together with
    /// `targetGroups`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub backends: Vec<WeightedBackend>,
    /// Existing target groups in AWS that are not Causeway's. Requests are forwarded to them, and Causeway never
    /// changes or deletes them. They must be in the load balancer's VPC, and no other load balancer may use them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["arn".into()]))]
    pub target_groups: Vec<WeightedTargetGroup>,
    /// How long a client stays with the backend of its first request, for example `1h`: 1s to 168h (7 days). Left out,
    /// each request can go to any of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = ("duration(self) >= duration('1s') && duration(self) <= duration('168h')", "forward.stickinessDuration must be 1s to 168h, such as 1h"))]
    pub stickiness_duration: Option<Duration>,
}

/// A backend and its share of the requests.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WeightedBackend {
    /// Name of one of `spec.backends`.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Share of the requests, in proportion to the other weights: 0 (none) to 999; 1 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 999))]
    pub weight: Option<u16>,
}

/// A target group that is not Causeway's, and its share of the requests.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WeightedTargetGroup {
    /// Its ARN, for example `arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/legacy/0123456789abcdef`.
    #[schemars(length(max = 2048), regex(pattern = "^arn:[^:]+:elasticloadbalancing:[^:]+:[0-9]{12}:targetgroup/"))]
    pub arn: String,
    /// Share of the requests, in proportion to the other weights: 0 (none) to 999; 1 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 999))]
    pub weight: Option<u16>,
}

/// Redirects the client. A part that is left out stays as it was in the request. Host, path and query can contain parts
/// of the request: `#{protocol}`, `#{host}`, `#{port}`, `#{path}` (without its leading slash) and `#{query}` (without
/// the question mark). For example `path: "/v2/#{path}"`.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.protocol) || has(self.host) || has(self.port) || has(self.path)", "redirect must change protocol, host, port or path, or the client is redirected in a loop"))]
pub struct RedirectSpec {
    /// `HTTP`, `HTTPS` or `#{protocol}`. Left out, `#{protocol}`: that of the request. A redirect from HTTPS to HTTP is
    /// refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 11), regex(pattern = r"^(HTTP|HTTPS|#\{protocol\})$"))]
    pub protocol: Option<String>,
    /// Host, for example `www.#{host}`. Left out, `#{host}`: that of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub host: Option<String>,
    /// Port: 1 to 65535, or `#{port}`. Left out, that of the request or, if `protocol` changes, the default port of the
    /// new protocol (80 or 443).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 7), regex(pattern = r"^([1-9][0-9]{0,4}|#\{port\})$"))]
    pub port: Option<String>,
    /// Path with its leading slash, for example `/new/#{path}`. Left out, `/#{path}`: that of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = "^/"))]
    pub path: Option<String>,
    /// Query without the question mark, for example `from=old&#{query}`. Left out, `#{query}`: that of the request. An
    /// empty string removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub query: Option<String>,
    /// 301 (permanent, the default: browsers remember it) or 302 (temporary).
    #[serde(default = "permanent")]
    #[schemars(extend("enum" = [301, 302]))]
    pub status_code: u16,
}

fn permanent() -> u16 {
    301
}

/// Answers with a fixed response.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FixedResponseSpec {
    /// HTTP status code: 200 to 299 or 400 to 599, for example `503`.
    #[schemars(range(min = 200, max = 599))]
    #[x_kube(validation = ("self < 300 || self >= 400", "fixedResponse.statusCode must be 200 to 299 or 400 to 599: for 3XX use redirect"))]
    pub status_code: u16,
    /// Content type: `text/plain` (the default), `text/css`, `text/html`, `application/javascript` or `application/json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["text/plain", "text/css", "text/html", "application/javascript", "application/json"]))]
    pub content_type: Option<String>,
    /// Body, at most 1024 bytes in one line, for example `{"error":"closed"}`. Left out, it is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub body: Option<String>,
}

/// Log-in with an OpenID Connect provider.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OidcSpec {
    /// Issuer URL, as the provider's `/.well-known/openid-configuration` names it, for example `https://login.example.com`.
    #[schemars(length(min = 1, max = 1024), regex(pattern = "^https://"))]
    pub issuer: String,
    /// Authorization endpoint, to which the browser is redirected, for example `https://login.example.com/authorize`.
    #[schemars(length(min = 1, max = 1024), regex(pattern = "^https://"))]
    pub authorization_endpoint: String,
    /// Token endpoint, which the balancer calls, for example `https://login.example.com/token`.
    #[schemars(length(min = 1, max = 1024), regex(pattern = "^https://"))]
    pub token_endpoint: String,
    /// User info endpoint, which the balancer calls, for example `https://login.example.com/userinfo`.
    #[schemars(length(min = 1, max = 1024), regex(pattern = "^https://"))]
    pub user_info_endpoint: String,
    /// Client id that the provider assigned, for example `shop`.
    #[schemars(length(min = 1, max = 1024))]
    pub client_id: String,
    /// Name of a Secret of this object's namespace with the client secret, for example `shop-login`. It needs the label
    /// `causeway.example.com/usable-by: myingress`.
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"))]
    pub client_secret_name: String,
    /// Key of the client secret in that Secret; `clientSecret` unless given.
    #[serde(default = "client_secret")]
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[-._a-zA-Z0-9]+$"))]
    pub client_secret_key: String,
    /// Settings of the sessions of logged-in clients, for example `{ "timeout": "8h" }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionSpec>,
}

fn client_secret() -> String {
    "clientSecret".into()
}

/// Log-in with a Cognito user pool.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CognitoSpec {
    /// ARN of the user pool, for example `arn:aws:cognito-idp:eu-west-1:111122223333:userpool/eu-west-1_AbCdEf`.
    #[schemars(length(max = 2048), regex(pattern = "^arn:[^:]+:cognito-idp:"))]
    pub user_pool_arn: String,
    /// Id of the user pool's app client.
    #[schemars(length(min = 1, max = 1024))]
    pub client_id: String,
    /// Domain prefix of the user pool, for example `my-shop`, or its custom domain, for example `login.example.com`.
    #[schemars(length(min = 1, max = 1024))]
    pub domain: String,
    /// Settings of the sessions of logged-in clients, for example `{ "timeout": "8h" }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionSpec>,
}

/// Settings of the sessions of logged-in clients.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionSpec {
    /// Name of the session cookie, for example `shop-session`; `AWSELBAuthSessionCookie` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = "^[A-Za-z0-9_.-]+$"))]
    pub cookie_name: Option<String>,
    /// OAuth scopes to request, separated by spaces, for example `openid email`; `openid` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub scope: Option<String>,
    /// Time after which a client must log in again, for example `8h`: 1s to 168h (7 days); 168h unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = ("duration(self) >= duration('1s') && duration(self) <= duration('168h')", "session.timeout must be 1s to 168h, such as 8h"))]
    pub timeout: Option<Duration>,
    /// Action for requests without a session: `authenticate` (the default) redirects to the log-in page, `allow` forwards the
    /// request without the headers of a log-in, `deny` answers with status 401, which suits requests of scripts.
    #[serde(default)]
    pub unauthenticated_requests: UnauthenticatedRequests,
    /// Further parameters of the authorization request, for example `prompt: login`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 10, "additionalProperties" = { "type": "string", "maxLength": 1024 }))]
    pub parameters: BTreeMap<String, String>,
}

/// Action for requests without a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum UnauthenticatedRequests {
    /// They are sent to the log-in page.
    #[default]
    Authenticate,
    /// The request goes on, without the headers of a log-in.
    Allow,
    /// The answer is 401.
    Deny,
}

/// Accepts only requests with a valid JSON web token.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/listener-verify-jwt.html>
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JwtSpec {
    /// Issuer that the token must name in its claim `iss`, for example `https://login.example.com`.
    #[schemars(length(min = 1, max = 256))]
    pub issuer: String,
    /// URL of the issuer's public keys, for example `https://login.example.com/.well-known/jwks.json`.
    #[schemars(length(min = 1, max = 256), regex(pattern = "^https://"))]
    pub jwks_endpoint: String,
    /// Claims that the token must have, in addition to a valid signature, issuer and time; each one must match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub claims: Vec<JwtClaimSpec>,
}

/// A claim that a token must have.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JwtClaimSpec {
    /// Name of the claim, for example `scope`. Not `exp`, `iss`, `nbf` or `iat`, which are always checked.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// Format of the claim in the token: `single-string` (`"sub": "shop"`), `string-array` (`"aud": ["shop", "cart"]`)
    /// or `space-separated-values` (`"scope": "read write"`).
    pub format: JwtClaimFormat,
    /// Values, for example `["read"]`; the claim must have one of them.
    #[schemars(length(min = 1, max = 10), inner(length(min = 1, max = 256)))]
    pub values: Vec<String>,
}

/// How a claim is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JwtClaimFormat {
    /// One string: `"sub": "shop"`.
    SingleString,
    /// A list of strings: `"aud": ["shop", "cart"]`.
    StringArray,
    /// A string of words: `"scope": "read write"`.
    SpaceSeparatedValues,
}
