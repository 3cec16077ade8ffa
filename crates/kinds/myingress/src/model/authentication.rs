//! Authentication of clients.
//!
//! <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/listener-authenticate-users.html>

use causeway_api::myingress::{
    ActionSpec, CognitoSpec, JwtClaimFormat, JwtClaimSpec, JwtSpec, OidcSpec, SessionSpec, UnauthenticatedRequests,
};
use causeway_aws::elbv2::{Cognito, Jwt, JwtClaim, Oidc, Protocol, RuleAction, Session, Unauthenticated};

use super::field::Field;
use super::listening::{Listening, WEEK};
use super::{Complaint, text};

const LONGEST: usize = 1024;
const LONGEST_OF_JWT: usize = 256;
const MOST_PARAMETERS: usize = 10;
const MOST_CLAIMS: usize = 10;

/// Claims that AWS always checks, and for which it takes no values.
const CHECKED_ANYWAY: [&str; 4] = ["exp", "iss", "nbf", "iat"];

/// The action that authenticates clients, if there is one.
pub fn action(
    spec: &ActionSpec,
    listening: &Listening<'_>,
    field: &Field<'_>,
) -> Result<Option<RuleAction>, Complaint> {
    let name = match (&spec.authenticate_oidc, &spec.authenticate_cognito, &spec.validate_jwt) {
        (None, None, None) => return Ok(None),
        (Some(_), None, None) => "authenticateOidc",
        (None, Some(_), None) => "authenticateCognito",
        (None, None, Some(_)) => "validateJwt",
        _ => return field.complain("must have at most one of authenticateOidc, authenticateCognito and validateJwt"),
    };
    let field = field.name(name);
    if listening.protocol != Protocol::Https {
        return field.complain("needs an HTTPS listener: set its protocol to HTTPS, or remove this");
    }
    let oidc = spec.authenticate_oidc.as_ref().map(|spec| oidc(spec, listening, &field)).transpose()?;
    let cognito = spec.authenticate_cognito.as_ref().map(|spec| cognito(spec, &field)).transpose()?;
    let jwt = spec.validate_jwt.as_ref().map(|spec| jwt(spec, &field)).transpose()?;
    Ok(oidc.or(cognito).or(jwt))
}

fn oidc(spec: &OidcSpec, listening: &Listening<'_>, field: &Field<'_>) -> Result<RuleAction, Complaint> {
    for (name, url) in [
        ("issuer", &spec.issuer),
        ("authorizationEndpoint", &spec.authorization_endpoint),
        ("tokenEndpoint", &spec.token_endpoint),
        ("userInfoEndpoint", &spec.user_info_endpoint),
    ] {
        text::https_url(url, LONGEST, &field.name(name))?;
    }
    text::unbroken(&spec.client_id, 1, LONGEST, &field.name("clientId"))?;
    let secret = client_secret(spec, listening, field)?;
    Ok(RuleAction::AuthenticateOidc(Box::new(Oidc {
        issuer: spec.issuer.clone(),
        authorization_endpoint: spec.authorization_endpoint.clone(),
        token_endpoint: spec.token_endpoint.clone(),
        user_info_endpoint: spec.user_info_endpoint.clone(),
        client_id: spec.client_id.clone(),
        client_secret: Some(secret),
        session: session(spec.session.as_ref(), &field.name("session"))?,
    })))
}

/// The secret itself never appears in a message.
fn client_secret(spec: &OidcSpec, listening: &Listening<'_>, field: &Field<'_>) -> Result<String, Complaint> {
    let (name, key, namespace) =
        (spec.client_secret_name.as_str(), spec.client_secret_key.as_str(), listening.namespace);
    let field = field.name("clientSecretName");
    let place = (namespace.to_owned(), name.to_owned(), key.to_owned());
    let Some(secret) = listening.context.secrets.get(&place) else {
        return field.with_reason("SecretMissing").complain(format_args!(
            "names key {key:?} of Secret {name:?} in namespace {namespace:?}, which is not there, cannot be read, or \
             has more than 4096 bytes: create it, or correct the name"
        ));
    };
    if secret.is_empty() || !secret.chars().all(|c| c.is_ascii_graphic()) {
        return field.with_reason("SecretInvalid").complain(format_args!(
            "names key {key:?} of Secret {name:?} in namespace {namespace:?}, which is empty or has a line break or \
             other characters that AWS does not take: write the secret alone (printf rather than echo)"
        ));
    }
    Ok(secret.clone())
}

fn cognito(spec: &CognitoSpec, field: &Field<'_>) -> Result<RuleAction, Complaint> {
    text::arn(&spec.user_pool_arn, &["cognito-idp"], &field.name("userPoolArn"))?;
    text::unbroken(&spec.client_id, 1, LONGEST, &field.name("clientId"))?;
    text::unbroken(&spec.domain, 1, LONGEST, &field.name("domain"))?;
    Ok(RuleAction::AuthenticateCognito(Box::new(Cognito {
        user_pool: spec.user_pool_arn.clone(),
        client_id: spec.client_id.clone(),
        domain: spec.domain.clone(),
        session: session(spec.session.as_ref(), &field.name("session"))?,
    })))
}

/// A session, with AWS's defaults.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_AuthenticateOidcActionConfig.html>
fn session(spec: Option<&SessionSpec>, field: &Field<'_>) -> Result<Session, Complaint> {
    let spec = spec.cloned().unwrap_or_default();
    let session = Session {
        cookie: spec.cookie_name.unwrap_or_else(|| "AWSELBAuthSessionCookie".into()),
        scope: spec.scope.unwrap_or_else(|| "openid".into()),
        timeout_seconds: spec.timeout.map_or(WEEK, |it| u32::try_from(it.seconds()).unwrap_or(u32::MAX)),
        unauthenticated: match spec.unauthenticated_requests {
            UnauthenticatedRequests::Authenticate => Unauthenticated::Authenticate,
            UnauthenticatedRequests::Allow => Unauthenticated::Allow,
            UnauthenticatedRequests::Deny => Unauthenticated::Deny,
        },
        parameters: spec.parameters,
    };
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    text::of_characters(&session.cookie, 1, 128, &field.name("cookieName"), allowed, "letters, digits and _ . -")?;
    text::printable(&session.scope, 1, LONGEST, &field.name("scope"))?;
    if !(1..=WEEK).contains(&session.timeout_seconds) {
        return field.name("timeout").complain("must be 1s to 168h");
    }
    let parameters = field.name("parameters");
    if session.parameters.len() > MOST_PARAMETERS {
        return parameters.complain(format_args!("has more than {MOST_PARAMETERS} entries: remove some"));
    }
    for (key, value) in &session.parameters {
        text::unbroken(key, 1, LONGEST, &parameters.key(key))?;
        text::printable(value, 0, LONGEST, &parameters.key(key))?;
    }
    Ok(session)
}

/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_JwtValidationActionConfig.html>
fn jwt(spec: &JwtSpec, field: &Field<'_>) -> Result<RuleAction, Complaint> {
    text::unbroken(&spec.issuer, 1, LONGEST_OF_JWT, &field.name("issuer"))?;
    text::https_url(&spec.jwks_endpoint, LONGEST_OF_JWT, &field.name("jwksEndpoint"))?;
    let list = field.name("claims");
    if spec.claims.len() > MOST_CLAIMS {
        return list.complain(format_args!("has more than {MOST_CLAIMS} entries: remove some"));
    }
    let claims = spec.claims.iter().enumerate().map(|(index, it)| claim(it, &list.item(index)));
    Ok(RuleAction::ValidateJwt(Jwt {
        issuer: spec.issuer.clone(),
        jwks_endpoint: spec.jwks_endpoint.clone(),
        claims: claims.collect::<Result<_, _>>()?,
    }))
}

fn claim(spec: &JwtClaimSpec, field: &Field<'_>) -> Result<JwtClaim, Complaint> {
    text::printable(&spec.name, 1, LONGEST_OF_JWT, &field.name("name"))?;
    if CHECKED_ANYWAY.contains(&spec.name.as_str()) {
        return field.name("name").complain("must not be exp, iss, nbf or iat: AWS checks these in any case");
    }
    let list = field.name("values");
    if spec.values.is_empty() || spec.values.len() > MOST_CLAIMS {
        return list.complain(format_args!("must have 1 to {MOST_CLAIMS} entries"));
    }
    let words = spec.format == JwtClaimFormat::SpaceSeparatedValues;
    for (index, value) in spec.values.iter().enumerate() {
        let check = if words { text::unbroken } else { text::printable };
        check(value, 1, LONGEST_OF_JWT, &list.item(index))?;
    }
    let format = match spec.format {
        JwtClaimFormat::SingleString => "single-string",
        JwtClaimFormat::StringArray => "string-array",
        JwtClaimFormat::SpaceSeparatedValues => "space-separated-values",
    };
    Ok(JwtClaim { name: spec.name.clone(), format: format.into(), values: spec.values.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixtures::{self, complaint, model};
    use serde_json::{Value, json};

    fn on_port(port: u16, mut action: Value) -> Value {
        action["fixedResponse"] = json!({ "statusCode": 200 });
        let certificates =
            if port == 443 { json!(["arn:aws:acm:eu-west-1:000000000000:certificate/a"]) } else { json!([]) };
        json!({ "listeners": [{ "port": port, "certificateArns": certificates, "defaultAction": action }] })
    }

    fn oidc_spec(change: impl Fn(&mut Value)) -> Value {
        let mut spec = fixtures::oidc();
        spec["clientId"] = json!("c");
        change(&mut spec);
        json!({ "authenticateOidc": spec })
    }

    fn jwt_spec(claim: &Value) -> Value {
        json!({ "validateJwt": { "issuer": "i", "jwksEndpoint": "https://i.example.com/k", "claims": [claim] } })
    }

    #[test]
    fn a_log_in_comes_first_with_awss_defaults() {
        let listeners = model(on_port(443, oidc_spec(|_| {}))).listeners;
        let [RuleAction::AuthenticateOidc(oidc), RuleAction::FixedResponse(_)] = &listeners[&443].default_actions[..]
        else {
            panic!("{:?}", listeners[&443].default_actions)
        };
        assert_eq!(oidc.client_secret.as_deref(), Some("s3cr3t"));
        let session = &oidc.session;
        assert_eq!((session.cookie.as_str(), session.scope.as_str()), ("AWSELBAuthSessionCookie", "openid"));
        assert_eq!((session.timeout_seconds, session.unauthenticated), (WEEK, Unauthenticated::Authenticate));
    }

    #[test]
    fn a_missing_or_broken_secret_is_named_and_never_shown() {
        let (reason, message) = complaint(on_port(443, oidc_spec(|it| it["clientSecretKey"] = json!("other"))));
        assert_eq!(reason, "SecretMissing");
        let words =
            "authenticateOidc.clientSecretName names key \"other\" of Secret \"shop-login\" in namespace \"shop\"";
        assert!(message.contains(words), "{message}");
        let (reason, message) = complaint(on_port(443, oidc_spec(|it| it["clientSecretKey"] = json!("broken"))));
        assert_eq!(reason, "SecretInvalid");
        assert!(!message.contains("s3cr3t"), "{message}");
    }

    #[test]
    fn what_aws_would_refuse_is_named_with_field_and_fix() {
        let claim =
            |name: &str, format: &str, value: &str| json!({ "name": name, "format": format, "values": [value] });
        let cognito = json!({ "userPoolArn": "arn:aws:s3:::x", "clientId": "c", "domain": "d" });
        for (spec, words) in [
            (on_port(80, oidc_spec(|_| {})), "authenticateOidc needs an HTTPS listener"),
            (on_port(80, jwt_spec(&claim("a", "string-array", "b"))), "validateJwt needs an HTTPS listener"),
            (
                on_port(443, oidc_spec(|it| it["issuer"] = json!("http://i"))),
                "issuer must be a full URL that begins with https://",
            ),
            (on_port(443, oidc_spec(|it| it["tokenEndpoint"] = json!("https://"))), "tokenEndpoint must be a full URL"),
            (on_port(443, oidc_spec(|it| it["clientId"] = json!("a\n"))), "clientId has '\\n'"),
            (
                on_port(443, oidc_spec(|it| it["session"] = json!({ "timeout": "0s" }))),
                "session.timeout must be 1s to 168h",
            ),
            (
                on_port(443, oidc_spec(|it| it["session"] = json!({ "cookieName": "a;b" }))),
                "session.cookieName has ';'",
            ),
            (on_port(443, json!({ "authenticateCognito": cognito })), "userPoolArn must be an ARN of cognito-idp"),
            (
                on_port(443, jwt_spec(&claim("exp", "string-array", "b"))),
                "claims[0].name must not be exp, iss, nbf or iat",
            ),
            (on_port(443, jwt_spec(&claim("a", "space-separated-values", "b c"))), "claims[0].values[0] has ' '"),
        ] {
            let (_, message) = complaint(spec);
            assert!(message.contains(words), "{message}\nshould say: {words}");
        }
        let mut two = oidc_spec(|_| {});
        two["validateJwt"] = json!({ "issuer": "i", "jwksEndpoint": "https://i.example.com/k" });
        assert!(complaint(on_port(443, two)).1.contains("must have at most one of"));
    }
}
