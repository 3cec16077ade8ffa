//! Security groups that belong to others: those of the balancer, given by name, and those of its targets.

use causeway_api::MyIngress;
use causeway_aws::ec2::{Element, Parameters};
use serde_json::json;

use super::{created, ready, spec, stalled_by};
use crate::support::{Account, Operator, Scene, wait_for};

/// Makes a group of that name in the VPC; returns its id.
pub async fn group(scene: &Scene, name: &str) -> String {
    let parameters = Parameters::default()
        .add("VpcId", "vpc-causeway")
        .add("GroupName", format!("group of {name}"))
        .add("GroupDescription", "-")
        .add("TagSpecification.1.ResourceType", "security-group")
        .add("TagSpecification.1.Tag.1.Key", "Name")
        .add("TagSpecification.1.Tag.1.Value", name);
    scene.ec2("CreateSecurityGroup", parameters).await.value("groupId").expect("an id")
}

pub async fn rules(scene: &Scene, group: &str) -> Vec<Element> {
    let by_id = Parameters::default().add("Filter.1.Name", "group-id").add("Filter.1.Value.1", group);
    let found = scene.ec2("DescribeSecurityGroups", by_id).await;
    found.items("securityGroupInfo").flat_map(|group| group.items("ipPermissions")).cloned().collect()
}

/// The groups that a group lets in, with the descriptions of the rules.
async fn let_in(scene: &Scene, group: &str) -> Vec<(String, String)> {
    let described = |pair: &Element| ["groupId", "description"].map(|it| pair.value(it).unwrap_or_default()).into();
    rules(scene, group).await.iter().flat_map(|rule| rule.items("groups")).map(described).collect()
}

#[tokio::test]
async fn the_nodes_let_the_balancer_in_once_they_agree() {
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

    let consent = Parameters::default().add("ResourceId.1", &nodes).add("Tag.1.Key", "causeway.example.com/let-in");
    scene.ec2("CreateTags", consent.add("Tag.1.Value", &scene.namespace)).await;
    ready(&scene, "app").await;
    let object = scene.api::<MyIngress>().get("app").await.expect("the object");
    let own = object.status.and_then(|status| status.security_group).expect("a group of its own");
    let mark = format!("causeway.example.com/uid={} {}/app", object.metadata.uid.unwrap(), scene.namespace);
    let wanted = vec![(own, mark)];
    assert_eq!(let_in(&scene, &nodes).await, wanted);

    // An administrator takes the rule away.
    let rule = rules(&scene, &nodes).await.remove(0);
    let said = |name| rule.value(name).expect("protocol and ports");
    let taken = Parameters::default()
        .add("GroupId", &nodes)
        .add("IpPermissions.1.IpProtocol", said("ipProtocol"))
        .add("IpPermissions.1.FromPort", said("fromPort"))
        .add("IpPermissions.1.ToPort", said("toPort"))
        .add("IpPermissions.1.Groups.1.GroupId", &wanted[0].0)
        .add("IpPermissions.1.Groups.1.Description", &wanted[0].1);
    scene.ec2("RevokeSecurityGroupIngress", taken).await;
    wait_for("the rule to be put back", || let_in(&scene, &nodes), |seen| *seen == wanted).await;
    scene.has_event("app", "DriftRepaired", "let").await;

    // A new process finds the rule again, and removes it: the object was deleted meanwhile.
    operator.stop().await;
    scene.delete::<MyIngress>("app").await;
    let _operator = Operator::start(&scene).await;
    scene.gone::<MyIngress>("app").await;
    assert_eq!(let_in(&scene, &nodes).await, []);
}
