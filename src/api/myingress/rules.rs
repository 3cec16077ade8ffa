//! Rules of listeners: conditions, rewrites and actions.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A rule: which requests it takes, and what happens to them. All kinds of conditions that are given must hold; of one
/// kind, one value must match. A rule may have five values in all; a path of type `Prefix` counts as two.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("has(self.hosts) || has(self.hostRegexes) || has(self.paths) || has(self.headers) || has(self.query) || has(self.methods) || has(self.sourceCidrs)", "a rule needs a condition (hosts, paths, headers, query, methods or sourceCidrs): what goes for every request is the listener's defaultAction"),
    validation = ("!has(self.hosts) || !has(self.hostRegexes)", "a rule has hosts or hostRegexes, not both: make two rules")
)]
pub struct RuleSpec {
    /// Hosts, in which `*` stands for any characters and `?` for one, for example `*.example.com`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5), inner(length(min = 1, max = 128)))]
    pub hosts: Vec<String>,

    /// Regular expressions for the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5), inner(length(min = 1, max = 128)))]
    pub host_regexes: Vec<String>,

    /// Paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5))]
    pub paths: Vec<PathMatch>,

    /// Headers; each one must match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5))]
    pub headers: Vec<HeaderMatch>,

    /// Parameters of the query; one must match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5))]
    pub query: Vec<QueryMatch>,

    /// Methods, for example `GET`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5), inner(length(min = 1, max = 40), regex(pattern = "^[A-Z_-]+$")))]
    pub methods: Vec<String>,

    /// Networks that the client is in, for example `192.0.2.0/24`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 5), inner(length(min = 1, max = 43)))]
    pub source_cidrs: Vec<String>,

    /// Place of the rule among the listener's rules: 1 to 50000, the lowest is evaluated first. Left out, it is the next
    /// free number after that of the rule that precedes it in this list (the lowest free one for the first rule).
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
    /// How `value` is meant.
    #[serde(rename = "type", default)]
    pub kind: PathType,
    /// The path.
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
    /// This path alone.
    Exact,
    /// A pattern in which `*` stands for any characters and `?` for one.
    Pattern,
    /// A regular expression.
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
    /// Rewrites path and query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<Substitution>,
    /// Rewrites the `Host` header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Substitution>,
}

/// A regular expression and what replaces it.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Substitution {
    /// Regular expression, with capture groups in parentheses.
    #[schemars(length(min = 1, max = 1024))]
    pub regex: String,
    /// What replaces it; `$1` is the first capture group.
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
#[x_kube(validation = ("self.backends.all(b, self.backends.exists_one(c, c.name == b.name))", "forward.backends must not name a backend twice: add the weights"))]
pub struct ForwardSpec {
    /// Backends that share the requests by weight.
    #[schemars(length(min = 1, max = 5))]
    pub backends: Vec<WeightedBackend>,
    /// Seconds that a client stays with the backend it came to first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 604_800))]
    pub stickiness_seconds: Option<u32>,
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

/// Sends the client elsewhere. Every part may hold `#{protocol}`, `#{host}`, `#{port}`, `#{path}` and `#{query}` of the
/// request, and stays as it was where it is left out.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.protocol) || has(self.host) || has(self.port) || has(self.path)", "redirect must change protocol, host, port or path, or the client comes back for ever"))]
pub struct RedirectSpec {
    /// `HTTP` or `HTTPS`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 11), regex(pattern = r"^(HTTP|HTTPS|#\{protocol\})$"))]
    pub protocol: Option<String>,
    /// Host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub host: Option<String>,
    /// Port; left out together with a new protocol, that protocol's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 7), regex(pattern = r"^([1-9][0-9]{0,4}|#\{port\})$"))]
    pub port: Option<String>,
    /// Path, with its leading slash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = "^/"))]
    pub path: Option<String>,
    /// Query, without the question mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub query: Option<String>,
    /// 301 (for ever) or 302 (for now).
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
    /// Content type; `text/plain` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["text/plain", "text/css", "text/html", "application/javascript", "application/json"]))]
    pub content_type: Option<String>,
    /// Body, at most 1024 bytes in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub body: Option<String>,
}

/// Log-in with an OpenID Connect provider.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OidcSpec {
    /// Issuer URL.
    #[schemars(length(min = 1, max = 1024), regex(pattern = "^https://"))]
    pub issuer: String,
    /// Authorization endpoint.
    #[schemars(length(min = 1, max = 1024), regex(pattern = "^https://"))]
    pub authorization_endpoint: String,
    /// Token endpoint.
    #[schemars(length(min = 1, max = 1024), regex(pattern = "^https://"))]
    pub token_endpoint: String,
    /// User info endpoint.
    #[schemars(length(min = 1, max = 1024), regex(pattern = "^https://"))]
    pub user_info_endpoint: String,
    /// Client id.
    #[schemars(length(min = 1, max = 1024))]
    pub client_id: String,
    /// Where the client secret is: a Secret of this object's namespace.
    pub client_secret: SecretKey,
    /// What sessions are like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionSpec>,
}

/// A key of a Secret.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretKey {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key in it; `clientSecret` unless given.
    #[serde(default = "client_secret")]
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

fn client_secret() -> String {
    "clientSecret".into()
}

/// Log-in with a Cognito user pool.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CognitoSpec {
    /// ARN of the user pool.
    #[schemars(length(max = 2048), regex(pattern = "^arn:[^:]+:cognito-idp:"))]
    pub user_pool_arn: String,
    /// Id of the pool's client.
    #[schemars(length(min = 1, max = 1024))]
    pub client_id: String,
    /// Domain prefix or name of the pool.
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
    /// Claims that are asked for, separated by spaces; `openid` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub scope: Option<String>,
    /// Seconds until a new log-in; 7 days unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 604_800))]
    pub timeout_seconds: Option<u32>,
    /// What clients without a session meet.
    #[serde(default)]
    pub unauthenticated_requests: UnauthenticatedRequests,
    /// Further parameters of the authorization request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 10, "additionalProperties" = { "type": "string", "maxLength": 1024 }))]
    pub parameters: BTreeMap<String, String>,
}

/// What clients without a session meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum UnauthenticatedRequests {
    /// The log-in page.
    #[default]
    Authenticate,
    /// The request goes on.
    Allow,
    /// 401.
    Deny,
}

/// Takes only requests with a valid JSON web token.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/listener-verify-jwt.html>
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JwtSpec {
    /// Issuer that the token must name.
    #[schemars(length(min = 1, max = 256))]
    pub issuer: String,
    /// Where the issuer's keys are.
    #[schemars(length(min = 1, max = 256), regex(pattern = "^https://"))]
    pub jwks_endpoint: String,
    /// Claims that the token must have.
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
    /// How the claim is written.
    pub format: JwtClaimFormat,
    /// Values of which one must be there.
    #[schemars(length(min = 1, max = 10), inner(length(min = 1, max = 256)))]
    pub values: Vec<String>,
}

/// How a claim is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JwtClaimFormat {
    /// One string.
    SingleString,
    /// A list of strings.
    StringArray,
    /// A string of words.
    SpaceSeparatedValues,
}
