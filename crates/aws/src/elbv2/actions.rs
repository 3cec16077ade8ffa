//! Actions of listeners and rules on requests, as plain data.

use std::collections::BTreeMap;

/// An action on a request. <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_Action.html>
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleAction {
    /// The request goes to a target of one of these groups.
    Forward {
        /// Weight by target group: by ARN in AWS, by name in a desired state.
        groups: BTreeMap<String, u16>,
        /// A client stays with its group for this many seconds.
        stickiness: Option<u32>,
    },
    /// The client is sent elsewhere.
    Redirect(Redirect),
    /// The balancer answers itself.
    FixedResponse(FixedResponse),
    /// The client must log in with an OpenID Connect provider.
    AuthenticateOidc(Box<Oidc>),
    /// The client must log in with a Cognito user pool.
    AuthenticateCognito(Box<Cognito>),
    /// The request must carry a valid JSON web token.
    ValidateJwt(Jwt),
    /// An action that this program does not know, by AWS's name. It never equals a wanted action.
    Unknown(String),
}

impl RuleAction {
    /// Target groups that it forwards to.
    pub fn forwarded_to(&self) -> impl Iterator<Item = &String> {
        let groups = match self {
            Self::Forward { groups, .. } => Some(groups.keys()),
            _ => None,
        };
        groups.into_iter().flatten()
    }
}

/// A redirect; every part may hold `#{protocol}`, `#{host}`, `#{port}`, `#{path}` and `#{query}`.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_RedirectActionConfig.html>
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// `HTTP`, `HTTPS` or `#{protocol}`.
    pub protocol: String,
    /// The host to redirect to.
    pub host: String,
    /// The port to redirect to, as text.
    pub port: String,
    /// Path, with its leading slash.
    pub path: String,
    /// Query, without the question mark.
    pub query: String,
    /// 301 instead of 302.
    pub permanent: bool,
}

/// An answer of the balancer itself.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_FixedResponseActionConfig.html>
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedResponse {
    /// HTTP status: 2XX, 4XX or 5XX.
    pub status: u16,
    /// Content type. Always give one: AWS may return its default if none was given.
    pub content_type: Option<String>,
    /// Body, at most 1024 bytes.
    pub body: Option<String>,
}

/// Log-in with an OpenID Connect provider.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_AuthenticateOidcActionConfig.html>
#[derive(Clone, PartialEq, Eq)]
pub struct Oidc {
    /// The URL of the issuer.
    pub issuer: String,
    /// The URL at which clients log in.
    pub authorization_endpoint: String,
    /// The URL at which codes are exchanged for tokens.
    pub token_endpoint: String,
    /// The URL that describes the logged-in user.
    pub user_info_endpoint: String,
    /// The id of the balancer as a client of the provider.
    pub client_id: String,
    /// Client secret. AWS never returns it, so it is `None` in what was read. Writing `None` keeps the one that is set.
    pub client_secret: Option<String>,
    /// The session of a logged-in client.
    pub session: Session,
}

impl std::fmt::Debug for Oidc {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Oidc")
            .field("issuer", &self.issuer)
            .field("client_id", &self.client_id)
            .field("client_secret", &self.client_secret.as_ref().map(|_| "…"))
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

/// Log-in with a Cognito user pool.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_AuthenticateCognitoActionConfig.html>
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cognito {
    /// ARN of the user pool.
    pub user_pool: String,
    /// Id of the pool's client.
    pub client_id: String,
    /// Domain prefix or name of the pool.
    pub domain: String,
    /// The session of a logged-in client.
    pub session: Session,
}

/// The settings of sessions of logged-in clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The name of the session's cookie.
    pub cookie: String,
    /// Claims that are asked for.
    pub scope: String,
    /// Seconds until a new log-in.
    pub timeout_seconds: u32,
    /// The treatment of clients without a session.
    pub unauthenticated: Unauthenticated,
    /// Further parameters of the authorization request.
    pub parameters: BTreeMap<String, String>,
}

/// The treatment of clients without a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unauthenticated {
    /// They are sent to the log-in page.
    #[default]
    Authenticate,
    /// Their requests go on.
    Allow,
    /// They get status 401.
    Deny,
}

/// Checks of a JSON web token.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_JwtValidationActionConfig.html>
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jwt {
    /// Issuer that the token must name.
    pub issuer: String,
    /// The URL of the issuer's keys.
    pub jwks_endpoint: String,
    /// Claims that the token must have, in order.
    pub claims: Vec<JwtClaim>,
}

/// A claim that a token must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtClaim {
    /// The name of the claim.
    pub name: String,
    /// AWS's format: `single-string`, `string-array` or `space-separated-values`.
    pub format: String,
    /// The values of which the claim must have one.
    pub values: Vec<String>,
}
