//! Rules of listeners: conditions, rewrites and actions.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::Duration;

/// A rule: which requests it takes, and what happens to them. All kinds of conditions that are given must hold; of one
/// kind, one value must match. A rule may have five values in all; a path of type `Prefix` counts as two.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("has(self.hosts) || has(self.hostRegexes) || has(self.paths) || has(self.headers) || has(self.query) || has(self.queryAll) || has(self.methods) || has(self.sourceCidrs)", "a rule needs a condition (hosts, paths, headers, query, queryAll, methods or sourceCidrs): what goes for every request is the listener's defaultAction"),
    validation = ("!has(self.hosts) || !has(self.hostRegexes)", "a rule has hosts or hostRegexes, not both: make two rules")
)]
pub struct RuleSpec {
    /// Hosts, in which `*` stands for any characters and `?` for one, for example `*.example.com`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5), inner(length(min = 1, max = 128)))]
    pub hosts: Vec<String>,

    /// Regular expressions for the host, for example `^(www|shop)\.example\.com$`; not together with `hosts`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5), inner(length(min = 1, max = 128)))]
    pub host_regexes: Vec<String>,

    /// Paths, for example `[{ "value": "/shop" }]`; one must match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5))]
    pub paths: Vec<PathMatch>,

    /// Headers; each one must match. A header that is named twice must match both.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5))]
    pub headers: Vec<HeaderMatch>,

    /// Parameters of the query; one must match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5))]
    pub query: Vec<QueryMatch>,

    /// Parameters of the query; each one must match, for example `[{ "key": "a", "value": "1" }, { "key": "b", "value": "2" }]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5))]
    pub query_all: Vec<QueryMatch>,

    /// Methods in capital letters, for example `GET`; one must match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5), inner(length(min = 1, max = 40), regex(pattern = "^[A-Z_-]+$")))]
    pub methods: Vec<String>,

    /// Networks of which the client must be in one, for example `192.0.2.0/24`. Behind a proxy it is the proxy's address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5), inner(length(min = 1, max = 43)))]
    pub source_cidrs: Vec<String>,

    /// Place of the rule among the listener's rules: 1 to 50000, the lowest is evaluated first. Left out, it is the next
    /// free number after that of the rule that precedes it in this list (the lowest free one for the first rule). In a group of
    /// another namespace it is the place among this object's own rules, which come after those of that namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 50_000))]
    pub priority: Option<u16>,

    /// Rewrites the request before it is forwarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewrite: Option<RewriteSpec>,

    /// What happens to the request.
    pub action: ActionSpec,
}

/// A path or a set of paths.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PathMatch {
    /// How `value` is meant: `Prefix` (the default), `Exact`, `Pattern` or `Regex`.
    #[serde(rename = "type", default)]
    pub kind: PathType,
    /// The path without its query, 1 to 128 characters; case matters. With type `Prefix` (at most 126 characters) and `Exact`
    /// it begins with a slash and means itself: `*` and `?` are refused, for example `/shop`. With type `Pattern` it
    /// begins with a slash or a wildcard, `*` stands for any characters (slashes too) and `?` for one, for example
    /// `/*.png`. With type `Regex` it is a regular expression, for example `^/v[0-9]+/`.
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
    /// Name; case does not matter. For `Host` use `hosts`.
    #[schemars(length(min = 1, max = 40), regex(pattern = "^[A-Za-z0-9!#$%&'+.^_`|~-]+$"))]
    pub name: String,
    /// Values, in which `*` stands for any characters and `?` for one; case does not matter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5), inner(length(min = 1, max = 128)))]
    pub values: Vec<String>,
    /// Regular expressions for the value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5), inner(length(min = 1, max = 128)))]
    pub regexes: Vec<String>,
}

/// A parameter of the query.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryMatch {
    /// Key; left out, any key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub key: Option<String>,
    /// Value, in which `*` stands for any characters and `?` for one.
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

/// A regular expression and what replaces it.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Substitution {
    /// Regular expression, with capture groups in parentheses, for example `^/api/(.*)$`. What it does not match stays.
    #[schemars(length(min = 1, max = 1024))]
    pub regex: String,
    /// What replaces it; `$1` is the first capture group, for example `/$1`.
    #[schemars(length(max = 1024))]
    pub replace: String,
}

/// What happens to a request: one of `forward`, `redirect` and `fixedResponse`, after the client proved who it is where
/// one of `authenticateOidc`, `authenticateCognito` and `validateJwt` asks for that (HTTPS listeners only).
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("[has(self.forward), has(self.redirect), has(self.fixedResponse)].filter(x, x).size() == 1", "an action is exactly one of forward, redirect and fixedResponse"),
    validation = ("[has(self.authenticateOidc), has(self.authenticateCognito), has(self.validateJwt)].filter(x, x).size() <= 1", "an action has at most one of authenticateOidc, authenticateCognito and validateJwt")
)]
pub struct ActionSpec {
    /// Sends the request to a backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<ForwardSpec>,
    /// Sends the client elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect: Option<RedirectSpec>,
    /// Answers at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed_response: Option<FixedResponseSpec>,
    /// Asks the client to log in with an OpenID Connect provider first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authenticate_oidc: Option<OidcSpec>,
    /// Asks the client to log in with a Cognito user pool first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authenticate_cognito: Option<CognitoSpec>,
    /// Takes only requests with a valid JSON web token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validate_jwt: Option<JwtSpec>,
}

/// Sends requests to backends.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("has(self.backends) || has(self.targetGroups)", "forward needs backends or targetGroups")
)]
pub struct ForwardSpec {
    /// Backends that share the requests by weight, five at most together with `targetGroups`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub backends: Vec<WeightedBackend>,
    /// Target groups that exist in AWS and are not Causeway's: requests are forwarded to them, and nothing of them is ever
    /// changed or deleted. Their VPC must be the balancer's, and no other balancer may use them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["arn".into()]))]
    pub target_groups: Vec<WeightedTargetGroup>,
    /// How long a client stays with the backend that served it first, for example `1h`: 1s to 168h (7 days). Left out, every
    /// request goes to any of them.
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
    /// Share of the requests, in proportion to the other weights; 1 unless given, 0 for none.
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

/// Sends the client elsewhere. A part that is left out stays as it was in the request. Host, path and query may hold parts of
/// the request: `#{protocol}`, `#{host}`, `#{port}`, `#{path}` (without its leading slash) and `#{query}` (without the
/// question mark). For example `path: "/v2/#{path}"`.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.protocol) || has(self.host) || has(self.port) || has(self.path)", "redirect must change protocol, host, port or path, or the client comes back for ever"))]
pub struct RedirectSpec {
    /// `HTTP`, `HTTPS` or `#{protocol}`; left out, `#{protocol}`: that of the request. From HTTPS to HTTP is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 11), regex(pattern = r"^(HTTP|HTTPS|#\{protocol\})$"))]
    pub protocol: Option<String>,
    /// Host, for example `www.#{host}`; left out, `#{host}`: that of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub host: Option<String>,
    /// Port: 1 to 65535, or `#{port}`. Left out, that of the request; together with a new protocol, that protocol's own
    /// (80 or 443).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 7), regex(pattern = r"^([1-9][0-9]{0,4}|#\{port\})$"))]
    pub port: Option<String>,
    /// Path with its leading slash, for example `/new/#{path}`; left out, `/#{path}`: that of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = "^/"))]
    pub path: Option<String>,
    /// Query without the question mark, for example `from=old&#{query}`; left out, `#{query}`: that of the request. The empty
    /// text removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub query: Option<String>,
    /// 301 (for ever, the default: browsers remember it) or 302 (for now).
    #[serde(default = "permanent")]
    #[schemars(extend("enum" = [301, 302]))]
    pub status_code: u16,
}

fn permanent() -> u16 {
    301
}

/// Answers at once.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FixedResponseSpec {
    /// HTTP status: 200 to 299 or 400 to 599.
    #[schemars(range(min = 200, max = 599))]
    #[x_kube(validation = ("self < 300 || self >= 400", "fixedResponse.statusCode must be 200 to 299 or 400 to 599: for 3XX use redirect"))]
    pub status_code: u16,
    /// Content type: `text/plain` (the default), `text/css`, `text/html`, `application/javascript` or `application/json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["text/plain", "text/css", "text/html", "application/javascript", "application/json"]))]
    pub content_type: Option<String>,
    /// Body, at most 1024 bytes in one line, for example `{"error":"closed"}`; left out, it is empty.
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
    /// Authorization endpoint, to which the browser is sent, for example `https://login.example.com/authorize`.
    #[schemars(length(min = 1, max = 1024), regex(pattern = "^https://"))]
    pub authorization_endpoint: String,
    /// Token endpoint, which the balancer calls, for example `https://login.example.com/token`.
    #[schemars(length(min = 1, max = 1024), regex(pattern = "^https://"))]
    pub token_endpoint: String,
    /// User info endpoint, which the balancer calls, for example `https://login.example.com/userinfo`.
    #[schemars(length(min = 1, max = 1024), regex(pattern = "^https://"))]
    pub user_info_endpoint: String,
    /// Client id, as the provider gave it.
    #[schemars(length(min = 1, max = 1024))]
    pub client_id: String,
    /// Secret of this object's namespace with the client secret. It agrees by its label
    /// `causeway.example.com/usable-by: myingress`.
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"))]
    pub client_secret_name: String,
    /// Key of that Secret; `clientSecret` unless given.
    #[serde(default = "client_secret")]
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[-._a-zA-Z0-9]+$"))]
    pub client_secret_key: String,
    /// What sessions are like.
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
    /// Id of the pool's client.
    #[schemars(length(min = 1, max = 1024))]
    pub client_id: String,
    /// Domain prefix of the pool, for example `my-shop`, or its own domain, for example `login.example.com`.
    #[schemars(length(min = 1, max = 1024))]
    pub domain: String,
    /// What sessions are like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionSpec>,
}

/// What sessions of logged-in clients are like.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionSpec {
    /// Name of the cookie; `AWSELBAuthSessionCookie` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = "^[A-Za-z0-9_.-]+$"))]
    pub cookie_name: Option<String>,
    /// Scopes that are asked for, separated by spaces, for example `openid email`; `openid` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub scope: Option<String>,
    /// How long until a client must log in again, for example `8h`: 1s to 168h (7 days); 168h unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = ("duration(self) >= duration('1s') && duration(self) <= duration('168h')", "session.timeout must be 1s to 168h, such as 8h"))]
    pub timeout: Option<Duration>,
    /// What clients without a session meet: `authenticate` (the default) sends them to the log-in page, `allow` lets the
    /// request go on without the headers of a log-in, `deny` answers 401, which fits requests of scripts.
    #[serde(default)]
    pub unauthenticated_requests: UnauthenticatedRequests,
    /// Further parameters of the authorization request, for example `prompt: login`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 10, "additionalProperties" = { "type": "string", "maxLength": 1024 }))]
    pub parameters: BTreeMap<String, String>,
}

/// What clients without a session meet.
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

/// Takes only requests with a valid JSON web token.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/listener-verify-jwt.html>
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JwtSpec {
    /// Issuer that the token must name in its claim `iss`, for example `https://login.example.com`.
    #[schemars(length(min = 1, max = 256))]
    pub issuer: String,
    /// Where the issuer's keys are, for example `https://login.example.com/.well-known/jwks.json`.
    #[schemars(length(min = 1, max = 256), regex(pattern = "^https://"))]
    pub jwks_endpoint: String,
    /// Claims that the token must have, beside a valid signature, issuer and time; each one must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub claims: Vec<JwtClaimSpec>,
}

/// A claim that a token must have.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JwtClaimSpec {
    /// Name; not `exp`, `iss`, `nbf` or `iat`, which are checked in any case.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// How the claim is written in the token: `single-string` (`"sub": "shop"`), `string-array` (`"aud": ["shop", "cart"]`)
    /// or `space-separated-values` (`"scope": "read write"`).
    pub format: JwtClaimFormat,
    /// Values of which one must be there, for example `["read"]`.
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
