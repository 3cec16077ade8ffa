//! EC2, for what the test itself looks at.

use causeway_aws::aws::FenceGuard;
use causeway_aws::ec2::{Api, Element, Parameters, SecurityGroup};
use causeway_runtime::leader::Fence;
use serde_json::{Map, Value};

use super::{Scene, wait_for};

impl Scene {
    /// Calls an operation of EC2, and again without an answer: `LocalStack` closes connections that were idle for seconds.
    pub async fn ec2(&self, action: &'static str, parameters: Parameters) -> Element {
        let api = Api::new(&self.bystander, FenceGuard(Fence::always_open()));
        let call = || async {
            match api.call(action, parameters.clone()).await {
                Ok(answer) => Some(answer.root),
                Err(error) => match error.as_service_error() {
                    Some(refused) => panic!("{action}: {refused}"),
                    None => None,
                },
            }
        };
        wait_for(&format!("an answer to {action}"), call, Option::is_some).await.expect("just seen")
    }
}

/// Every security group of the account, as EC2 describes it.
pub async fn described_security_groups(scene: &Scene) -> Vec<Element> {
    let answer = scene.ec2("DescribeSecurityGroups", Parameters::default()).await;
    answer.items("securityGroupInfo").cloned().collect()
}

/// Every security group of the account.
pub async fn security_groups(scene: &Scene) -> Vec<SecurityGroup> {
    described_security_groups(scene).await.iter().map(SecurityGroup::from_aws).collect()
}

/// An element as JSON: lists of `item`s are lists.
pub fn json_of(element: &Element) -> Value {
    match element.children.as_slice() {
        [] => Value::String(element.text.clone()),
        children if children.iter().all(|child| child.name == "item") => children.iter().map(json_of).collect(),
        children => {
            let fields = children.iter().map(|child| (child.name.clone(), json_of(child)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
    }
}
