//! Target groups that a spec names and that are not Causeway's. Pure.

use causeway_api::myingress::MyIngressSpec;

/// A target group that an action of a spec names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignGroup<'a> {
    /// The field with its ARN.
    pub field: String,
    /// The ARN of the target group.
    pub arn: &'a String,
}

/// The target groups that a spec names, in its order.
pub fn foreign_groups(spec: &MyIngressSpec) -> Vec<ForeignGroup<'_>> {
    let mut found = Vec::new();
    for (index, listener) in spec.listeners.iter().enumerate() {
        let listener_field = format!("spec.listeners[{index}]");
        let default = listener.default_action.iter().map(|it| (format!("{listener_field}.defaultAction"), it));
        let rules = listener.rules.iter().enumerate();
        let rules = rules.map(|(rule, it)| (format!("{listener_field}.rules[{rule}].action"), &it.action));
        for (field, action) in default.chain(rules) {
            let groups = action.forward.iter().flat_map(|forward| &forward.target_groups).enumerate();
            found.extend(groups.map(|(place, group)| ForeignGroup {
                field: format!("{field}.forward.targetGroups[{place}].arn"),
                arn: &group.arn,
            }));
        }
    }
    found
}
