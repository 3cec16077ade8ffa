//! Actions in AWS's form. Actions that are read have a canonical form: what was written reads back equal, whichever of
//! its notations AWS answers in, and AWS's defaults are filled in.

use aws_sdk_elasticloadbalancingv2::types as aws;
use aws_sdk_elasticloadbalancingv2::types::{Action, ActionTypeEnum};

use super::actions::{FixedResponse, Redirect, RuleAction};
use super::authentication_wire as authentication;

/// The weight of a target group for which AWS returns none.
const WEIGHT: u16 = 1;

/// Actions in AWS's form, numbered in their order.
pub(super) fn to_aws(actions: &[RuleAction]) -> Vec<Action> {
    actions.iter().zip(1..).map(|(action, order)| one_to_aws(action, order)).collect()
}

/// Actions from AWS's form, in the order that AWS carries them out.
pub(super) fn from_aws(mut actions: Vec<Action>) -> Vec<RuleAction> {
    actions.sort_by_key(|action| action.order);
    actions.into_iter().map(one_from_aws).collect()
}

fn one_to_aws(action: &RuleAction, order: i32) -> Action {
    let builder = Action::builder().order(order);
    match action {
        RuleAction::Forward { groups, stickiness } => {
            let tuples = groups.iter().map(|(arn, &weight)| {
                aws::TargetGroupTuple::builder().target_group_arn(arn).weight(weight.into()).build()
            });
            let sticky = aws::TargetGroupStickinessConfig::builder().enabled(stickiness.is_some());
            let sticky = sticky.set_duration_seconds(stickiness.and_then(|seconds| seconds.try_into().ok())).build();
            let config = aws::ForwardActionConfig::builder().set_target_groups(Some(tuples.collect()));
            let config = config.target_group_stickiness_config(sticky).build();
            builder.r#type(ActionTypeEnum::Forward).forward_config(config)
        }
        RuleAction::Redirect(it) => builder.r#type(ActionTypeEnum::Redirect).redirect_config(redirect_to_aws(it)),
        RuleAction::FixedResponse(it) => {
            let config = aws::FixedResponseActionConfig::builder().status_code(it.status.to_string());
            let config = config.set_content_type(it.content_type.clone()).set_message_body(it.body.clone());
            builder.r#type(ActionTypeEnum::FixedResponse).fixed_response_config(config.build())
        }
        RuleAction::AuthenticateOidc(it) => {
            builder.r#type(ActionTypeEnum::AuthenticateOidc).authenticate_oidc_config(authentication::oidc_to_aws(it))
        }
        RuleAction::AuthenticateCognito(it) => builder
            .r#type(ActionTypeEnum::AuthenticateCognito)
            .authenticate_cognito_config(authentication::cognito_to_aws(it)),
        RuleAction::ValidateJwt(it) => {
            builder.r#type(ActionTypeEnum::JwtValidation).jwt_validation_config(authentication::jwt_to_aws(it))
        }
        RuleAction::Unknown(name) => builder.r#type(ActionTypeEnum::from(name.as_str())),
    }
    .build()
}

fn one_from_aws(action: Action) -> RuleAction {
    let name = action.r#type.as_ref().map(|it| it.as_str().to_owned()).unwrap_or_default();
    let read = match action.r#type {
        Some(ActionTypeEnum::Forward) => Some(forward_from_aws(action.target_group_arn, action.forward_config)),
        Some(ActionTypeEnum::Redirect) => action.redirect_config.map(redirect_from_aws),
        Some(ActionTypeEnum::FixedResponse) => action.fixed_response_config.map(fixed_response_from_aws),
        Some(ActionTypeEnum::AuthenticateOidc) => action.authenticate_oidc_config.map(authentication::oidc_from_aws),
        Some(ActionTypeEnum::AuthenticateCognito) => {
            action.authenticate_cognito_config.map(authentication::cognito_from_aws)
        }
        Some(ActionTypeEnum::JwtValidation) => action.jwt_validation_config.map(authentication::jwt_from_aws),
        _ => None,
    };
    read.unwrap_or(RuleAction::Unknown(name))
}

/// A single group may be given besides the configuration, in it, or in both places.
fn forward_from_aws(single: Option<String>, config: Option<aws::ForwardActionConfig>) -> RuleAction {
    let (tuples, sticky) = config.map(|it| (it.target_groups, it.target_group_stickiness_config)).unwrap_or_default();
    let listed = tuples.unwrap_or_default().into_iter().filter_map(|tuple| {
        let weight = tuple.weight.and_then(|weight| weight.try_into().ok());
        Some((tuple.target_group_arn?, weight.unwrap_or(WEIGHT)))
    });
    let single = single.filter(|arn| !arn.is_empty()).map(|arn| (arn, WEIGHT));
    RuleAction::Forward {
        // The list comes last and wins, because only it has weights.
        groups: single.into_iter().chain(listed).collect(),
        stickiness: sticky
            .filter(|it| it.enabled == Some(true))
            .and_then(|it| it.duration_seconds)
            .and_then(|seconds| seconds.try_into().ok()),
    }
}

fn redirect_to_aws(redirect: &Redirect) -> aws::RedirectActionConfig {
    aws::RedirectActionConfig::builder()
        .protocol(&redirect.protocol)
        .host(&redirect.host)
        .port(&redirect.port)
        .path(&redirect.path)
        .query(&redirect.query)
        .status_code(if redirect.permanent {
            aws::RedirectActionStatusCodeEnum::Http301
        } else {
            aws::RedirectActionStatusCodeEnum::Http302
        })
        .build()
}

/// AWS's defaults keep every part of the request's URL.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_RedirectActionConfig.html>
fn redirect_from_aws(config: aws::RedirectActionConfig) -> RuleAction {
    RuleAction::Redirect(Redirect {
        protocol: config.protocol.unwrap_or_else(|| "#{protocol}".into()),
        host: config.host.unwrap_or_else(|| "#{host}".into()),
        port: config.port.unwrap_or_else(|| "#{port}".into()),
        path: config.path.unwrap_or_else(|| "/#{path}".into()),
        query: config.query.unwrap_or_else(|| "#{query}".into()),
        permanent: config.status_code == Some(aws::RedirectActionStatusCodeEnum::Http301),
    })
}

fn fixed_response_from_aws(config: aws::FixedResponseActionConfig) -> RuleAction {
    let user_provided = |text: &String| !text.is_empty();
    RuleAction::FixedResponse(FixedResponse {
        status: config.status_code.and_then(|code| code.parse().ok()).unwrap_or_default(),
        content_type: config.content_type.filter(user_provided),
        body: config.message_body.filter(user_provided),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::elbv2::actions::{Cognito, Jwt, JwtClaim, Oidc, Session, Unauthenticated};
    use proptest::collection::{btree_map, vec};
    use proptest::option;
    use proptest::prelude::*;

    /// Some authentication, then an action that answers.
    pub fn any_actions() -> impl Strategy<Value = Vec<RuleAction>> {
        let first = prop_oneof![
            (any_words(), option::of("[a-z]{1,4}"), any_session()).prop_map(|(words, client_secret, session)| {
                let [issuer, authorization_endpoint, token_endpoint, user_info_endpoint, client_id] = words;
                RuleAction::AuthenticateOidc(Box::new(Oidc {
                    issuer,
                    authorization_endpoint,
                    token_endpoint,
                    user_info_endpoint,
                    client_id,
                    client_secret,
                    session,
                }))
            }),
            (any_words(), any_session()).prop_map(|([user_pool, client_id, domain, ..], session)| {
                RuleAction::AuthenticateCognito(Box::new(Cognito { user_pool, client_id, domain, session }))
            }),
            (any_words(), vec(any_claim(), 0..3)).prop_map(|([issuer, jwks_endpoint, ..], claims)| {
                RuleAction::ValidateJwt(Jwt { issuer, jwks_endpoint, claims })
            }),
        ];
        let last = prop_oneof![
            (btree_map("[a-z]{1,4}", 0..1000u16, 1..6), option::of(1..604_800u32))
                .prop_map(|(groups, stickiness)| RuleAction::Forward { groups, stickiness }),
            (any_words(), any::<bool>()).prop_map(|([protocol, host, port, path, query], permanent)| {
                RuleAction::Redirect(Redirect { protocol, host, port, path, query, permanent })
            }),
            (200..600u16, option::of("text/(plain|html)"), option::of("[a-z ]{1,9}")).prop_map(
                |(status, content_type, body)| RuleAction::FixedResponse(FixedResponse { status, content_type, body })
            ),
        ];
        (option::of(first), last).prop_map(|(first, last)| first.into_iter().chain([last]).collect())
    }

    /// Returns such actions as AWS would.
    pub fn without_secrets(mut actions: Vec<RuleAction>) -> Vec<RuleAction> {
        for action in &mut actions {
            if let RuleAction::AuthenticateOidc(oidc) = action {
                oidc.client_secret = None;
            }
        }
        actions
    }

    fn any_words() -> impl Strategy<Value = [String; 5]> {
        vec("[a-z#{}/]{1,6}", 5).prop_map(|words| words.try_into().unwrap())
    }

    fn any_session() -> impl Strategy<Value = Session> {
        let unauthenticated =
            prop_oneof![Just(Unauthenticated::Authenticate), Just(Unauthenticated::Allow), Just(Unauthenticated::Deny)];
        let parameters = btree_map("[a-z]{1,4}", "[a-z]{1,4}", 0..3);
        (any_words(), 1..604_801u32, unauthenticated, parameters).prop_map(
            |([cookie, scope, ..], timeout_seconds, unauthenticated, parameters)| Session {
                cookie,
                scope,
                timeout_seconds,
                unauthenticated,
                parameters,
            },
        )
    }

    fn any_claim() -> impl Strategy<Value = JwtClaim> {
        let format = "single-string|string-array|space-separated-values";
        ("[a-z]{1,4}", format, vec("[a-z]{1,4}", 1..3)).prop_map(|(name, format, values)| JwtClaim {
            name,
            format,
            values,
        })
    }

    proptest! {
        #[test]
        fn what_was_written_reads_back_equal_in_any_order(actions in any_actions()) {
            let mut described = to_aws(&actions);
            described.reverse();
            prop_assert_eq!(from_aws(described), without_secrets(actions));
        }
    }

    #[test]
    fn one_group_reads_alike_wherever_aws_puts_it() {
        let tuple = aws::TargetGroupTuple::builder().target_group_arn("arn").build();
        let config = aws::ForwardActionConfig::builder().target_groups(tuple).build();
        let forward = Action::builder().r#type(ActionTypeEnum::Forward);
        let expected = RuleAction::Forward { groups: [("arn".to_owned(), 1)].into(), stickiness: None };
        for described in [
            forward.clone().target_group_arn("arn"),
            forward.clone().forward_config(config.clone()),
            forward.clone().target_group_arn("arn").forward_config(config),
        ] {
            assert_eq!(from_aws(vec![described.build()]), std::slice::from_ref(&expected));
        }
    }

    #[test]
    fn a_listed_weight_wins_over_the_default() {
        let written = RuleAction::Forward { groups: [("arn".to_owned(), 5)].into(), stickiness: None };
        let mut described = to_aws(std::slice::from_ref(&written));
        described[0].target_group_arn = Some("arn".into());
        assert_eq!(from_aws(described), [written]);
    }

    #[test]
    fn stickiness_that_is_off_is_none() {
        let off = aws::TargetGroupStickinessConfig::builder().enabled(false).duration_seconds(60).build();
        let config = aws::ForwardActionConfig::builder().target_group_stickiness_config(off).build();
        let described = Action::builder().r#type(ActionTypeEnum::Forward).forward_config(config).build();
        assert_eq!(from_aws(vec![described]), [RuleAction::Forward { groups: [].into(), stickiness: None }]);
    }

    #[test]
    fn a_redirect_keeps_the_parts_that_aws_leaves_out() {
        let config = aws::RedirectActionConfig::builder().status_code(aws::RedirectActionStatusCodeEnum::Http301);
        let described = Action::builder().r#type(ActionTypeEnum::Redirect).redirect_config(config.build()).build();
        let expected = RuleAction::Redirect(Redirect {
            protocol: "#{protocol}".into(),
            host: "#{host}".into(),
            port: "#{port}".into(),
            path: "/#{path}".into(),
            query: "#{query}".into(),
            permanent: true,
        });
        assert_eq!(from_aws(vec![described]), [expected]);
    }

    #[test]
    fn an_action_of_the_future_equals_none_of_ours() {
        let described = Action::builder().r#type(ActionTypeEnum::from("teleport")).build();
        assert_eq!(from_aws(vec![described]), [RuleAction::Unknown("teleport".into())]);
    }
}
