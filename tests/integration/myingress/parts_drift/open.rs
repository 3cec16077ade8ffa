//! Changes of what a spec leaves open: they stay, and are reported where Causeway sees them.

use std::collections::BTreeMap;

use aws_sdk_elasticloadbalancingv2::types::{
    Action, ActionTypeEnum, FixedResponseActionConfig, IpAddressType, ProtocolEnum, RuleCondition,
};
use serde_json::json;

use crate::myingress::bystander::{self, read_balancer};
use crate::myingress::drift_events::counted;
use crate::myingress::{created, spec, two_sweeps};
use crate::support::account::listeners;
use crate::support::certificates::{EXAMPLE_COM, import};
use crate::support::{Operator, Scene};

const TOLD: &str = "leaves it, event `DriftLeft`";

/// Each change, the operations that make it, and the reaction of Causeway.
pub const LEFT: &[(&str, &str, &str)] = &[
    ("IP address type without `ipAddressType`", "SetIpAddressType", TOLD),
    ("security groups without `securityGroups` and `inboundCidrs`", "SetSecurityGroups", TOLD),
    ("TLS policy without `sslPolicy`", "ModifyListener", TOLD),
    (
        "attribute that the spec does not name, where it names another one",
        "ModifyLoadBalancerAttributes, ModifyListenerAttributes",
        TOLD,
    ),
    (
        "web ACL and reserved capacity that the spec does not name",
        "AssociateWebACL, ModifyCapacityReservation",
        "leaves it",
    ),
    ("tag that the spec does not name", "AddTags", TOLD),
    ("listener or rule without Causeway's tags", "CreateListener, CreateRule", TOLD),
    ("tags `cluster` and `uid` of the balancer", "RemoveTags", "leaves the balancer, reason `OwnershipLost`"),
];

#[tokio::test]
async fn what_the_spec_leaves_open_stays_and_is_told() {
    let scene = Scene::new("drift").await;
    let certificate = import(&scene, EXAMPLE_COM).await;
    let operator = Operator::start(&scene).await;
    let told = |name: &'static str, words: String| {
        let scene = &scene;
        async move { scene.has_event(name, "DriftLeft", &words).await }
    };

    let addresses = created(&scene, "addresses", spec(json!({}))).await.arn;
    let call = scene.elb.set_ip_address_type().load_balancer_arn(&addresses);
    call.ip_address_type(IpAddressType::Dualstack).send().await.expect("the type");
    told("addresses", "load balancer addresses-alb: ipAddressType was ipv4, is dualstack".into()).await;

    let groups = created(&scene, "groups", spec(json!({}))).await.arn;
    let before = read_balancer(&scene, &groups).await.balancer.security_groups()[0].clone();
    bystander::set_security_groups(&scene, &groups, &["sg-other"]).await;
    told("groups", format!("load balancer groups-alb: securityGroups was {before}, is sg-other")).await;

    let named = json!({ "attributes": { "idle_timeout.timeout_seconds": "120" } });
    let attributes = created(&scene, "attributes", spec(named)).await.arn;
    bystander::set_attribute(&scene, &attributes, "client_keep_alive.seconds", "1800").await;
    told("attributes", "attributes.client_keep_alive.seconds was 3600, is 1800".into()).await;

    let secure = json!({ "listeners": [{ "port": 443, "protocol": "HTTPS", "certificateArns": [certificate] }] });
    let policy = created(&scene, "policy", spec(secure)).await.arn;
    let listener = listeners(&scene, &policy).await[&443].clone();
    let call = scene.elb.modify_listener().set_listener_arn(listener.listener_arn);
    call.ssl_policy("ELBSecurityPolicy-TLS13-1-3-2021-06").send().await.expect("the policy");
    let before = listener.ssl_policy.expect("AWS's default");
    let words =
        format!("listener on port 443 of policy-alb: sslPolicy was {before}, is ELBSecurityPolicy-TLS13-1-3-2021-06");
    told("policy", words).await;

    let open = || spec(json!({ "listeners": [{ "port": 80 }] }));
    let page = || {
        let response = FixedResponseActionConfig::builder().status_code("503").build();
        Action::builder().r#type(ActionTypeEnum::FixedResponse).fixed_response_config(response).build()
    };
    let tags = created(&scene, "tags", open()).await.arn;
    bystander::add_tag(&scene, &tags, "team", "storefront").await;
    told("tags", "otherTags was none, is team=storefront of the load balancer".into()).await;

    let ports = created(&scene, "ports", open()).await.arn;
    let call = scene.elb.create_listener().load_balancer_arn(&ports).port(81).protocol(ProtocolEnum::Http);
    call.default_actions(page()).send().await.expect("the listener");
    told("ports", "otherListeners was none, is port 81".into()).await;

    let rules = created(&scene, "rules", open()).await.arn;
    let listener = listeners(&scene, &rules).await[&80].clone();
    let path = RuleCondition::builder().field("path-pattern").values("/closed").build();
    let call = scene.elb.create_rule().set_listener_arn(listener.listener_arn).priority(50).conditions(path);
    call.actions(page()).send().await.expect("the rule");
    told("rules", "otherRules was none, is rule 50 on port 80".into()).await;

    let all = || async {
        let mut all = Vec::new();
        for arn in [&addresses, &groups, &attributes, &policy, &tags, &ports, &rules] {
            all.push(read_balancer(&scene, arn).await);
        }
        (all, listeners(&scene, &policy).await[&443].ssl_policy.clone())
    };
    let changed = all().await;
    two_sweeps(&scene).await;
    assert_eq!(all().await, changed, "it stays");
    assert_eq!(counted(&operator), BTreeMap::new(), "and nothing was repaired");
}
