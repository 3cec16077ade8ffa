//! Log-in and tokens in AWS's form.

use std::collections::HashMap;

use aws_sdk_elasticloadbalancingv2::types as aws;

use super::actions::{Cognito, Jwt, JwtClaim, Oidc, RuleAction, Session, Unauthenticated};

/// AWS's defaults of a session.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_AuthenticateOidcActionConfig.html>
const COOKIE: &str = "AWSELBAuthSessionCookie";
const SCOPE: &str = "openid";
const SESSION_SECONDS: u32 = 604_800;

pub(super) fn oidc_to_aws(oidc: &Oidc) -> aws::AuthenticateOidcActionConfig {
    aws::AuthenticateOidcActionConfig::builder()
        .issuer(&oidc.issuer)
        .authorization_endpoint(&oidc.authorization_endpoint)
        .token_endpoint(&oidc.token_endpoint)
        .user_info_endpoint(&oidc.user_info_endpoint)
        .client_id(&oidc.client_id)
        .set_use_existing_client_secret(oidc.client_secret.is_none().then_some(true))
        .set_client_secret(oidc.client_secret.clone())
        .session_cookie_name(&oidc.session.cookie)
        .scope(&oidc.session.scope)
        .session_timeout(oidc.session.timeout_seconds.into())
        .on_unauthenticated_request(oidc.session.unauthenticated.as_str().into())
        .set_authentication_request_extra_params(parameters(&oidc.session))
        .build()
}

pub(super) fn oidc_from_aws(config: aws::AuthenticateOidcActionConfig) -> RuleAction {
    RuleAction::AuthenticateOidc(Box::new(Oidc {
        issuer: config.issuer.unwrap_or_default(),
        authorization_endpoint: config.authorization_endpoint.unwrap_or_default(),
        token_endpoint: config.token_endpoint.unwrap_or_default(),
        user_info_endpoint: config.user_info_endpoint.unwrap_or_default(),
        client_id: config.client_id.unwrap_or_default(),
        client_secret: None,
        session: Session {
            cookie: config.session_cookie_name.unwrap_or_else(|| COOKIE.into()),
            scope: config.scope.unwrap_or_else(|| SCOPE.into()),
            timeout_seconds: seconds(config.session_timeout),
            unauthenticated: Unauthenticated::from_word(
                config
                    .on_unauthenticated_request
                    .as_ref()
                    .map(aws::AuthenticateOidcActionConditionalBehaviorEnum::as_str),
            ),
            parameters: config.authentication_request_extra_params.unwrap_or_default().into_iter().collect(),
        },
    }))
}

pub(super) fn cognito_to_aws(cognito: &Cognito) -> aws::AuthenticateCognitoActionConfig {
    aws::AuthenticateCognitoActionConfig::builder()
        .user_pool_arn(&cognito.user_pool)
        .user_pool_client_id(&cognito.client_id)
        .user_pool_domain(&cognito.domain)
        .session_cookie_name(&cognito.session.cookie)
        .scope(&cognito.session.scope)
        .session_timeout(cognito.session.timeout_seconds.into())
        .on_unauthenticated_request(cognito.session.unauthenticated.as_str().into())
        .set_authentication_request_extra_params(parameters(&cognito.session))
        .build()
}

pub(super) fn cognito_from_aws(config: aws::AuthenticateCognitoActionConfig) -> RuleAction {
    RuleAction::AuthenticateCognito(Box::new(Cognito {
        user_pool: config.user_pool_arn.unwrap_or_default(),
        client_id: config.user_pool_client_id.unwrap_or_default(),
        domain: config.user_pool_domain.unwrap_or_default(),
        session: Session {
            cookie: config.session_cookie_name.unwrap_or_else(|| COOKIE.into()),
            scope: config.scope.unwrap_or_else(|| SCOPE.into()),
            timeout_seconds: seconds(config.session_timeout),
            unauthenticated: Unauthenticated::from_word(
                config
                    .on_unauthenticated_request
                    .as_ref()
                    .map(aws::AuthenticateCognitoActionConditionalBehaviorEnum::as_str),
            ),
            parameters: config.authentication_request_extra_params.unwrap_or_default().into_iter().collect(),
        },
    }))
}

pub(super) fn jwt_to_aws(jwt: &Jwt) -> aws::JwtValidationActionConfig {
    let claims = jwt.claims.iter().map(|claim| {
        aws::JwtValidationActionAdditionalClaim::builder()
            .name(&claim.name)
            .format(claim.format.as_str().into())
            .set_values(Some(claim.values.clone()))
            .build()
    });
    aws::JwtValidationActionConfig::builder()
        .issuer(&jwt.issuer)
        .jwks_endpoint(&jwt.jwks_endpoint)
        .set_additional_claims((!jwt.claims.is_empty()).then(|| claims.collect()))
        .build()
}

pub(super) fn jwt_from_aws(config: aws::JwtValidationActionConfig) -> RuleAction {
    let claims = config.additional_claims.unwrap_or_default().into_iter().map(|claim| JwtClaim {
        name: claim.name.unwrap_or_default(),
        format: claim.format.map(|format| format.as_str().to_owned()).unwrap_or_default(),
        values: claim.values.unwrap_or_default(),
    });
    RuleAction::ValidateJwt(Jwt {
        issuer: config.issuer.unwrap_or_default(),
        jwks_endpoint: config.jwks_endpoint.unwrap_or_default(),
        claims: claims.collect(),
    })
}

fn seconds(timeout: Option<i64>) -> u32 {
    timeout.and_then(|seconds| seconds.try_into().ok()).unwrap_or(SESSION_SECONDS)
}

fn parameters(session: &Session) -> Option<HashMap<String, String>> {
    (!session.parameters.is_empty()).then(|| session.parameters.clone().into_iter().collect())
}

impl Unauthenticated {
    fn as_str(self) -> &'static str {
        match self {
            Self::Authenticate => "authenticate",
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }

    fn from_word(word: Option<&str>) -> Self {
        match word {
            Some("allow") => Self::Allow,
            Some("deny") => Self::Deny,
            _ => Self::Authenticate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oidc() -> Oidc {
        let read = oidc_from_aws(aws::AuthenticateOidcActionConfig::builder().build());
        let RuleAction::AuthenticateOidc(oidc) = read else { panic!("{read:?}") };
        *oidc
    }

    #[test]
    fn a_session_has_awss_defaults() {
        let session = Session {
            cookie: "AWSELBAuthSessionCookie".into(),
            scope: "openid".into(),
            timeout_seconds: 604_800,
            unauthenticated: Unauthenticated::Authenticate,
            parameters: [].into(),
        };
        assert_eq!(oidc().session, session);
    }

    #[test]
    fn a_secret_that_is_not_given_stays() {
        let without = oidc_to_aws(&oidc());
        assert_eq!((without.use_existing_client_secret, without.client_secret), (Some(true), None));
        let with = oidc_to_aws(&Oidc { client_secret: Some("s".into()), ..oidc() });
        assert_eq!((with.use_existing_client_secret, with.client_secret), (None, Some("s".into())));
    }
}
