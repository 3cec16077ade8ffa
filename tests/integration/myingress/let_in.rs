//! Security groups that are somebody else's: of the balancer by name, and of its targets.

use aws_sdk_ec2::types::{Filter, IpPermission, ResourceType, SecurityGroup, Tag, TagSpecification, UserIdGroupPair};
use causeway::api::MyIngress;
use serde_json::json;

use super::{created, ready, spec, stalled_by};
use crate::support::{Account, Operator, Scene, wait_for};

fn tag(key: &str, value: &str) -> Tag {
    Tag::builder().key(key).value(value).build()
}

/// Makes a group of that name in the VPC, and tells its id.
async fn group(scene: &Scene, name: &str) -> String {
    let tags = TagSpecification::builder().resource_type(ResourceType::SecurityGroup).tags(tag("Name", name)).build();
    let call = scene.ec2().create_security_group().vpc_id("vpc-causeway").group_name(format!("group of {name}"));
    let made = call.description("-").tag_specifications(tags).send().await.expect("the group is made");
    made.group_id.expect("an id")
}

async fn rules(scene: &Scene, group: &str) -> Vec<IpPermission> {
    let by_id = Filter::builder().name("group-id").values(group).build();
    let found = scene.ec2().describe_security_groups().filters(by_id).send().await.expect("groups");
    let found: Vec<SecurityGroup> = found.security_groups.unwrap_or_default();
    found.into_iter().next().and_then(|group| group.ip_permissions).unwrap_or_default()
}

/// Whom a group lets in, and what the rules say.
async fn let_in(scene: &Scene, group: &str) -> Vec<(String, String)> {
    let rules = rules(scene, group).await.into_iter();
    let pairs = rules.flat_map(|rule| rule.user_id_group_pairs.unwrap_or_default());
    let message = |pair: UserIdGroupPair| (pair.group_id.unwrap_or_default(), pair.description.unwrap_or_default());
    pairs.map(message).collect()
}

#[tokio::test]
async fn the_nodes_let_the_balancer_in_once_they_agree_and_forget_it() {
    let scene = Scene::new("let-in").await;
    let (nodes, edge) = (group(&scene, "nodes").await, group(&scene, "edge").await);
    let operator = Operator::start(&scene).await;
    created(&scene, "named", spec(json!({ "securityGroups": ["edge", "sg-web"] }))).await;
    let named = Account::of(&scene).await.0["balancers"]["named-alb"]["securityGroups"].clone();
    assert!(named.as_array().is_some_and(|ids| ids.len() == 2 && ids.contains(&json!(edge))), "{named}");

    let reaching = spec(json!({ "inboundCidrs": ["10.0.0.0/8"], "targetSecurityGroups": ["nodes"] }));
    scene.create::<MyIngress>("app", reaching).await;
    let words = stalled_by(&scene, "app", "TargetSecurityGroupRefused").await;
    let fix = format!("aws ec2 create-tags --resources {nodes} --tags Key=causeway.example.com/let-in,Value=");
    assert!(words.starts_with("spec.targetSecurityGroups: ") && words.contains(&fix), "{words}");
    assert_eq!(let_in(&scene, &nodes).await, []);

    let consent = tag("causeway.example.com/let-in", &scene.namespace);
    scene.ec2().create_tags().resources(&nodes).tags(consent).send().await.expect("the nodes agree");
    ready(&scene, "app").await;
    let object = scene.api::<MyIngress>().get("app").await.expect("the object");
    let own = object.status.and_then(|status| status.security_group).expect("a group of its own");
    let mark = format!("causeway.example.com/uid={} {}/app", object.metadata.uid.unwrap(), scene.namespace);
    let wanted = vec![(own, mark)];
    assert_eq!(let_in(&scene, &nodes).await, wanted);

    // Somebody takes the rule away.
    let taken = rules(&scene, &nodes).await;
    let call = scene.ec2().revoke_security_group_ingress().group_id(&nodes).set_ip_permissions(Some(taken));
    call.send().await.expect("the rule is taken away");
    wait_for("the rule to be put back", || let_in(&scene, &nodes), |seen| *seen == wanted).await;
    scene.was_told("app", "DriftRepaired", "let").await;

    // Another process finds it again, whatever the object says by then.
    operator.stop().await;
    scene.delete::<MyIngress>("app").await;
    let _operator = Operator::start(&scene).await;
    scene.gone::<MyIngress>("app").await;
    assert_eq!(let_in(&scene, &nodes).await, []);
}
