//! Each field of the full example, edited: what that changes in AWS, and that nothing else does.

use std::collections::BTreeSet;
use std::time::Instant;

use aws_sdk_elasticloadbalancingv2::types::{ProtocolEnum, TargetTypeEnum};
use causeway_api::MyIngress;
use causeway_aws::ec2::{Permission, SecurityGroup, Source};
use serde_json::{Value, json};

use crate::support::certificates::{EXAMPLE_COM, EXAMPLE_COM_RENEWED, EXAMPLE_ORG, import};
use crate::support::{Account, Operator, Scene, full, wait_for};

/// An edit, and its description.
type Edit = (&'static str, fn(&mut Value));

fn https(spec: &mut Value) -> &mut Value {
    &mut spec["listeners"][1]
}

fn rule(spec: &mut Value, index: usize) -> &mut Value {
    &mut spec["listeners"][1]["rules"][index]
}

fn backend(spec: &mut Value, index: usize) -> &mut Value {
    &mut spec["backends"][index]
}

fn remove(object: &mut Value, field: &str) {
    object.as_object_mut().expect("an object").remove(field);
}

/// Waits until the object is complete, and the target groups that its edit took out of use are deleted.
async fn complete_and_drained(scene: &Scene) {
    full::complete(scene).await;
    let unused = || async {
        let account = Account::of(scene).await;
        let groups = account.0["targetGroups"].as_object().cloned().unwrap_or_default();
        let unused = groups.into_iter().filter(|(_, it)| it["group"]["load_balancer_arns"] == json!([]));
        unused.map(|(name, _)| name).collect::<Vec<_>>()
    };
    wait_for("no target group without a balancer", unused, Vec::is_empty).await;
}

/// Makes the edits one after the other, each from the unchanged example; returns what each changes in AWS.
async fn effects(scene: &Scene, edits: &[Edit]) -> String {
    scene.emulator.settings(json!({ "draining_scale": 0 })).await;
    import(scene, EXAMPLE_COM).await;
    let _operator = Operator::start(scene).await;
    full::created(scene).await;
    let mut good = full::spec(scene);
    // A group that an edit takes out of use drains for its own delay.
    backend(&mut good, 0)["deregistrationDelay"] = json!("1s");
    full::replace(scene, full::NAME, &good).await;
    full::complete(scene).await;
    let before = Account::of(scene).await.facts(scene);
    let mut effects = String::new();
    for (words, edit) in edits {
        let mut spec = good.clone();
        edit(&mut spec);
        full::replace(scene, full::NAME, &spec).await;
        complete_and_drained(scene).await;
        let effect = before.diff(&Account::of(scene).await.facts(scene));
        assert!(!effect.is_empty(), "{words}: nothing changed");
        effects += &["# ", words, "\n", &effect, "\n"].concat();
        full::replace(scene, full::NAME, &good).await;
        complete_and_drained(scene).await;
        let after = before.diff(&Account::of(scene).await.facts(scene));
        assert_eq!(after, "", "{words}: what stayed of it once it was edited back");
    }
    effects
}

#[tokio::test]
async fn fields_of_the_balancer() {
    let scene = Scene::new("edits").await;
    let edits: &[Edit] = &[
        ("subnets", |spec| spec["subnets"] = json!(["subnet-abc", "subnet-def", "subnet-ghi"])),
        ("given security groups", |spec| {
            remove(spec, "inboundCidrs");
            spec["securityGroups"] = json!(["sg-web", "sg-other"]);
        }),
        ("inbound networks", |spec| spec["inboundCidrs"] = json!(["192.0.2.0/24", "2001:db8::/32"])),
        ("idle timeout", |spec| spec["idleTimeout"] = json!("60s")),
        ("invalid headers kept", |spec| remove(spec, "dropInvalidHeaders")),
        ("HTTP/2 off", |spec| spec["http2"] = json!(false)),
        ("deletion protection", |spec| spec["deletionProtection"] = json!(true)),
        ("an attribute", |spec| spec["attributes"] = json!({ "client_keep_alive.seconds": "1800" })),
        ("tags", |spec| spec["tags"] = json!({ "team": "web" })),
        ("capacity", |spec| spec["minimumCapacityUnits"] = json!(500)),
    ];
    insta::assert_snapshot!(effects(&scene, edits).await);
}

#[tokio::test]
async fn fields_of_listeners() {
    let scene = Scene::new("edits").await;
    import(&scene, EXAMPLE_ORG).await;
    let edits: &[Edit] = &[
        ("another port", |spec| spec["listeners"][0]["port"] = json!(8080)),
        ("one listener more", |spec| {
            let more = json!({ "port": 8443, "protocol": "HTTPS", "rules": [{ "hosts": ["example.org"],
                "action": { "fixedResponse": { "statusCode": 200 } } }] });
            spec["listeners"].as_array_mut().unwrap().push(more);
        }),
        ("one listener less", |spec| drop(spec["listeners"].as_array_mut().unwrap().remove(0))),
        ("TLS policy", |spec| https(spec)["sslPolicy"] = json!("ELBSecurityPolicy-TLS13-1-3-2021-06")),
        ("no header", |spec| remove(https(spec), "attributes")),
        ("another header", |spec| {
            https(spec)["attributes"] = json!({ "routing.http.response.server.enabled": "false" });
        }),
        ("a default that answers itself", |spec| {
            https(spec)["defaultAction"] = json!({ "fixedResponse": { "statusCode": 503, "body": "soon" } });
        }),
        ("the usual default", |spec| remove(https(spec), "defaultAction")),
        ("a host of another certificate", |spec| rule(spec, 0)["hosts"] = json!(["shop.example.com", "example.org"])),
    ];
    insta::assert_snapshot!(effects(&scene, edits).await);
}

#[tokio::test]
async fn certificates() {
    let scene = Scene::new("edits").await;
    let _operator = Operator::start(&scene).await;
    full::created(&scene).await;
    let (org, renewed) = (import(&scene, EXAMPLE_ORG).await, import(&scene, EXAMPLE_COM_RENEWED).await);
    let mut spec = full::spec(&scene);
    for arns in [vec![&org], vec![&org, &renewed], vec![&renewed, &org], vec![&renewed]] {
        https(&mut spec)["certificateArns"] = json!(arns);
        full::replace(&scene, full::NAME, &spec).await;
        full::complete(&scene).await;
        let certificates = || async {
            let listener = Account::of(&scene).await.0["balancers"]["shop-alb"]["listeners"]["443"].take();
            (listener["listener"]["certificates"].clone(), listener["furtherCertificates"].clone())
        };
        let wanted = (json!([{ "certificate_arn": arns[0] }]), json!(arns[1..]));
        // A certificate that became the default stays in the list until the next sweep.
        wait_for("the certificates", certificates, |seen| *seen == wanted).await;
    }
}

#[tokio::test]
async fn conditions_of_rules() {
    let scene = Scene::new("edits").await;
    let edits: &[Edit] = &[
        ("hosts", |spec| rule(spec, 0)["hosts"] = json!(["*.example.com"])),
        ("host expressions", |spec| {
            remove(rule(spec, 0), "hosts");
            rule(spec, 0)["hostRegexes"] = json!(["^(shop|store)\\.example\\.com$"]);
        }),
        ("an exact path", |spec| rule(spec, 0)["paths"] = json!([{ "type": "Exact", "value": "/basket" }])),
        ("a pattern", |spec| rule(spec, 0)["paths"] = json!([{ "type": "Pattern", "value": "/b?sket/*" }])),
        ("a path expression", |spec| rule(spec, 0)["paths"] = json!([{ "type": "Regex", "value": "^/c(art|rate)$" }])),
        ("headers", |spec| rule(spec, 0)["headers"] = json!([{ "name": "X-Beta", "values": ["yes", "si"] }])),
        ("header expressions", |spec| {
            rule(spec, 0)["headers"] = json!([{ "name": "X-Beta", "regexes": ["^y"] }]);
        }),
        ("the query", |spec| rule(spec, 0)["query"] = json!([{ "key": "beta", "value": "1" }, { "value": "x" }])),
        ("methods", |spec| rule(spec, 0)["methods"] = json!(["GET", "HEAD"])),
        ("networks", |spec| rule(spec, 4)["sourceCidrs"] = json!(["198.51.100.0/24"])),
        ("another order", |spec| full::rules(spec).reverse()),
        ("a rule less", |spec| drop(full::rules(spec).remove(2))),
        ("a rule more, in the middle", |spec| {
            let more =
                json!({ "paths": [{ "value": "/new" }], "action": { "forward": { "backends": [{ "name": "api" }] } } });
            full::rules(spec).insert(2, more);
        }),
    ];
    insta::assert_snapshot!(effects(&scene, edits).await);
}

#[tokio::test]
async fn actions_of_rules() {
    let scene = Scene::new("edits").await;
    let edits: &[Edit] = &[
        ("weights", |spec| {
            rule(spec, 0)["action"]["forward"]["backends"] =
                json!([{ "name": "cart", "weight": 1 }, { "name": "shop", "weight": 0 }]);
        }),
        ("stickiness", |spec| rule(spec, 0)["action"]["forward"]["stickinessDuration"] = json!("60s")),
        // AWS demands stickiness of the action while one of its target groups has stickiness. So these calls come in
        // another order than those that undo them.
        ("no stickiness", |spec| {
            remove(backend(spec, 1), "stickiness");
            remove(&mut rule(spec, 0)["action"]["forward"], "stickinessDuration");
        }),
        ("another backend", |spec| rule(spec, 0)["action"]["forward"]["backends"] = json!([{ "name": "api" }])),
        ("a redirect", |spec| {
            rule(spec, 1)["action"]["redirect"] = json!({ "host": "www.example.com", "port": "8443", "protocol": "HTTPS",
                "path": "/#{path}", "query": "from=shop", "statusCode": 302 });
        }),
        ("a fixed response", |spec| {
            rule(spec, 2)["action"]["fixedResponse"] =
                json!({ "statusCode": 404, "contentType": "text/plain", "body": "nothing" });
        }),
        ("another kind of action", |spec| {
            rule(spec, 2)["action"] = json!({ "forward": { "backends": [{ "name": "shop" }] } });
        }),
        ("OIDC", |spec| {
            let oidc = &mut rule(spec, 3)["action"]["authenticateOidc"];
            oidc["clientId"] = json!("members");
            oidc["session"] = json!({ "cookieName": "MEMBERS", "onUnauthenticated": "deny" });
        }),
        ("Cognito", |spec| rule(spec, 4)["action"]["authenticateCognito"]["domain"] = json!("staff")),
        ("JWT", |spec| {
            rule(spec, 5)["action"]["validateJwt"]["claims"][0] =
                json!({ "name": "aud", "format": "string-array", "values": ["api", "web"] });
        }),
        ("no log-in", |spec| remove(&mut rule(spec, 3)["action"], "authenticateOidc")),
        ("a rewrite", |spec| {
            rule(spec, 5)["rewrite"]["host"] = json!({ "regex": "^api\\.(.*)$", "replace": "internal.$1" });
        }),
        ("no rewrite", |spec| remove(rule(spec, 5), "rewrite")),
    ];
    insta::assert_snapshot!(effects(&scene, edits).await);
}

#[tokio::test]
async fn fields_of_backends() {
    let scene = Scene::new("edits").await;
    let edits: &[Edit] = &[
        ("another Service", |spec| {
            backend(spec, 1)["service"] = json!("shop");
            backend(spec, 1)["port"] = json!(80);
        }),
        ("protocol", |spec| backend(spec, 0)["protocol"] = json!("HTTPS")),
        ("protocol version", |spec| backend(spec, 0)["protocolVersion"] = json!("HTTP2")),
        ("health check", |spec| {
            backend(spec, 0)["healthCheck"] = json!({ "path": "/alive", "port": 8081, "protocol": "HTTPS",
                "interval": "20s", "timeout": "4s", "healthyThreshold": 4, "unhealthyThreshold": 5,
                "successCodes": "200-299,304" });
        }),
        ("the usual health check", |spec| remove(backend(spec, 0), "healthCheck")),
        ("slow start", |spec| backend(spec, 2)["slowStart"] = json!("30s")),
        ("deregistration delay", |spec| backend(spec, 0)["deregistrationDelay"] = json!("5s")),
        ("algorithm", |spec| backend(spec, 1)["algorithm"] = json!("weighted_random")),
        ("the balancer's cookie", |spec| {
            backend(spec, 1)["stickiness"] = json!({ "type": "lb_cookie", "duration": "60s" });
        }),
        ("no stickiness", |spec| remove(backend(spec, 1), "stickiness")),
        ("an attribute", |spec| {
            backend(spec, 0)["attributes"] = json!({ "load_balancing.cross_zone.enabled": "false" });
        }),
    ];
    insta::assert_snapshot!(effects(&scene, edits).await);
}

#[tokio::test]
async fn a_priority_is_set_and_moves_out_of_the_way() {
    let scene = Scene::new("edits").await;
    let _operator = Operator::start(&scene).await;
    full::created(&scene).await;
    let priorities = |account: Account| -> Vec<String> {
        let rules = account.0["balancers"]["shop-alb"]["listeners"]["443"]["rules"].as_array().cloned();
        let priority = |rule: &Value| rule["rule"]["priority"].as_str().unwrap_or_default().to_owned();
        rules.unwrap_or_default().iter().map(priority).collect()
    };
    let mut spec = full::spec(&scene);
    rule(&mut spec, 0)["priority"] = json!(7);
    full::replace(&scene, full::NAME, &spec).await;
    full::complete(&scene).await;
    assert_eq!(priorities(Account::of(&scene).await), ["7", "200", "300", "400", "500", "600", "default"]);
    // Without a priority in the spec the rule keeps its own: the order is right.
    full::replace(&scene, full::NAME, &full::spec(&scene)).await;
    full::complete(&scene).await;
    assert_eq!(priorities(Account::of(&scene).await)[0], "7");
    rule(&mut spec, 0)["priority"] = json!(700);
    full::replace(&scene, full::NAME, &spec).await;
    full::complete(&scene).await;
    let after = priorities(Account::of(&scene).await);
    assert!(after.contains(&"700".to_owned()), "{after:?}");
}

#[tokio::test]
async fn the_kind_of_addresses_is_changed_in_place() {
    let scene = Scene::new("edits").await;
    let _operator = Operator::start(&scene).await;
    let arn = full::created(&scene).await;
    for kind in ["dualstack", "ipv4"] {
        scene.edit::<MyIngress>(full::NAME, json!({ "ipAddressType": kind })).await;
        assert_eq!(full::complete(&scene).await, arn);
        assert_eq!(Account::of(&scene).await.0["balancers"]["shop-alb"]["addresses"], kind);
    }
}

#[tokio::test]
async fn a_client_secret_that_changes_is_set_anew() {
    let scene = Scene::new("edits").await;
    let _operator = Operator::start(&scene).await;
    full::created(&scene).await;
    let tag = |account: Account| {
        let rule = &account.0["balancers"]["shop-alb"]["listeners"]["443"]["rules"][3];
        rule["tags"]["causeway.example.com/client-secret"].as_str().map(str::to_owned).expect("the tag")
    };
    let before = tag(Account::of(&scene).await);
    assert!(!before.contains("s3cr3t"));
    crate::support::backends::secret(&scene, "shop-login", "clientSecret", "another").await;
    let begun = Instant::now();
    let look = || async { tag(Account::of(&scene).await) };
    wait_for("the other secret to be set", look, |now| *now != before).await;
    println!("» another client secret is set after {:.1} s", begun.elapsed().as_secs_f64());
}

/// The ingress rules of the security group of the account that is Causeway's: port and source.
async fn let_in(scene: &Scene) -> BTreeSet<(i32, String)> {
    let groups = crate::support::ec2::security_groups(scene).await;
    let own = |group: &SecurityGroup| group.tags.contains_key("causeway.example.com/uid");
    let permissions = groups.into_iter().filter(own).flat_map(|group| group.ingress);
    let source = |permission: Permission| match permission.source {
        Source::Network(source) | Source::PrefixList(source) => Some((permission.ports?.from, source)),
        Source::Group(_) => None,
    };
    permissions.filter_map(source).collect()
}

#[tokio::test]
async fn forty_networks_are_swapped_and_too_many_are_refused() {
    let scene = Scene::new("edits").await;
    let _operator = Operator::start(&scene).await;
    let networks = |first: u8| (0..40).map(|it| format!("10.{}.0.0/16", first + it)).collect::<Vec<_>>();
    let spec = super::spec(json!({ "inboundCidrs": networks(0), "listeners": [{ "port": 80 }] }));
    super::created(&scene, "app", spec).await;
    scene.edit::<MyIngress>("app", json!({ "inboundCidrs": networks(100) })).await;
    let wanted: BTreeSet<(i32, String)> = networks(100).into_iter().map(|it| (80, it)).collect();
    wait_for("the other networks", || let_in(&scene), |seen| *seen == wanted).await;
    super::ready(&scene, "app").await;

    scene.edit::<MyIngress>("app", json!({ "listeners": [{ "port": 80 }, { "port": 81 }] })).await;
    let words = super::stalled_by(&scene, "app", "InboundInvalid").await;
    assert!(words.starts_with("spec.inboundCidrs makes 80 IPv4 rules"), "{words}");
    assert_eq!(let_in(&scene).await, wanted, "nothing is half-made");
}

#[tokio::test]
async fn a_listener_may_let_in_networks_of_its_own() {
    let scene = Scene::new("edits").await;
    let _operator = Operator::start(&scene).await;
    let listeners = json!([{ "port": 80 }, { "port": 8080, "inboundCidrs": ["10.0.0.0/8"] }]);
    super::created(&scene, "app", super::spec(json!({ "inboundCidrs": ["0.0.0.0/0"], "listeners": listeners }))).await;
    let wanted = BTreeSet::from([(80, "0.0.0.0/0".to_owned()), (8080, "10.0.0.0/8".to_owned())]);
    wait_for("each port its networks", || let_in(&scene), |seen| *seen == wanted).await;
}

#[tokio::test]
async fn each_of_several_parameters_of_the_query_is_a_condition() {
    let scene = Scene::new("edits").await;
    let _operator = Operator::start(&scene).await;
    let rule = json!({
        "queryAll": [{ "key": "a", "value": "1" }, { "key": "b", "value": "2" }],
        "action": { "fixedResponse": { "statusCode": 200 } },
    });
    super::created(&scene, "app", super::spec(json!({ "listeners": [{ "port": 80, "rules": [rule] }] }))).await;
    let account = Account::of(&scene).await.0;
    let conditions = &account["balancers"]["app-alb"]["listeners"]["80"]["rules"][0]["rule"]["conditions"];
    assert_eq!(conditions.as_array().map(Vec::len), Some(2), "{account}");
}

#[tokio::test]
async fn a_foreign_target_group_gets_requests_and_stays_untouched() {
    let scene = Scene::new("edits").await;
    let call = scene.elb.create_target_group().name("legacy").protocol(ProtocolEnum::Http).port(80);
    let call = call.vpc_id("vpc-causeway").target_type(TargetTypeEnum::Ip);
    let group = call.send().await.expect("a target group").target_groups.unwrap_or_default().remove(0);
    let arn = group.target_group_arn.expect("an ARN");
    let _operator = Operator::start(&scene).await;
    let action = json!({ "forward": { "targetGroups": [{ "arn": arn }] } });
    super::created(&scene, "app", super::spec(json!({ "listeners": [{ "port": 80, "defaultAction": action }] }))).await;
    let groups = || async {
        let groups = scene.elb.describe_target_groups().names("legacy").send().await;
        groups.expect("the group is there").target_groups.unwrap_or_default().remove(0)
    };
    assert_eq!(groups().await.load_balancer_arns().len(), 1, "requests are forwarded to it");
    assert!(scene.tags(&arn).await.is_empty());
    scene.delete::<MyIngress>("app").await;
    scene.gone::<MyIngress>("app").await;
    assert_eq!(groups().await.load_balancer_arns().len(), 0);
}
