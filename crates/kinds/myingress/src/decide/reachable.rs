//! Checks whether clients can connect to a balancer at all, and whether requests reach each rule. AWS calls a balancer
//! active even if no client can reach it.

use std::collections::BTreeSet;

use causeway_aws::ec2::{Permission, SecurityGroup, Source};

use super::Scene;
use crate::model::{Model, RuleModel, SecurityModel};
use crate::ownership::ObjectKey;
use crate::region::assets::Member;

const NO_LISTENERS: &str = "NoListeners";
const NOTHING_LET_IN: &str = "NothingLetIn";
const RULE_SHADOWED: &str = "RuleShadowed";

/// The words of all warnings.
pub const WARNINGS: [&str; 3] = [NO_LISTENERS, NOTHING_LET_IN, RULE_SHADOWED];

/// Returns the reason why no client can connect, or why a rule of this member gets no request, as a word and a sentence;
/// `None` if there is none, or if that is not known.
pub fn warning(scene: &Scene, current: &Member, member: &ObjectKey) -> Option<(&'static str, String)> {
    unreachable(scene, current).or_else(|| shadowed(scene.model, member))
}

/// Finds a rule of the member whose requests all go to an earlier one: that has no condition which the rule lacks.
fn shadowed(model: &Model, member: &ObjectKey) -> Option<(&'static str, String)> {
    model.listeners.iter().find_map(|(port, listener)| {
        let rules = listener.rules.iter().enumerate().filter(|(_, rule)| rule.member == *member);
        rules.into_iter().find_map(|(index, rule)| {
            let covers = |earlier: &&RuleModel| earlier.settings.conditions.is_subset(&rule.settings.conditions);
            let earlier = listener.rules[..index].iter().find(covers)?;
            let of = if earlier.member == *member { String::new() } else { format!(" of MyIngress {}", earlier.member.1) };
            let message = format!(
                "{} gets no request on port {port}, because {}{of} comes before it and has no other conditions: change its \
                 conditions or the order",
                rule.field, earlier.field
            );
            Some((RULE_SHADOWED, message))
        })
    })
}

fn unreachable(scene: &Scene, current: &Member) -> Option<(&'static str, String)> {
    let ports: BTreeSet<u16> = scene.model.listeners.keys().copied().collect();
    if ports.is_empty() {
        return Some((NO_LISTENERS, "No client can connect, because spec.listeners has no port: add one".into()));
    }
    let groups = known_groups(scene, current)?;
    let by_default = scene.model.balancer.security == SecurityModel::Default;
    let shut: Vec<String> =
        ports.iter().filter(|port| !is_open(&groups, **port, by_default)).map(u16::to_string).collect();
    if shut.is_empty() {
        return None;
    }
    let ids: Vec<&str> = groups.iter().map(|group| group.id.as_str()).collect();
    let (groups, let_in) = if ids.len() == 1 { ("group", "lets") } else { ("groups", "let") };
    let fix = if by_default {
        "name networks in spec.inboundCidrs, or groups in spec.securityGroups"
    } else {
        "add a rule, or name other groups in spec.securityGroups"
    };
    let message = format!(
        "No client can connect on port {}, because security {groups} {} {let_in} none in: {fix}",
        shut.join(", "),
        ids.join(", ")
    );
    Some((NOTHING_LET_IN, message))
}

/// The security groups of the balancer; `None` if one of them is not known.
fn known_groups<'a>(scene: &Scene<'a>, current: &Member) -> Option<Vec<&'a SecurityGroup>> {
    let observed = scene.observed;
    let known = |id: &String| {
        let own = observed.assets.security_groups.get(id);
        own.or_else(|| observed.security_groups.iter().find(|group| group.id == *id))
    };
    let groups: Vec<&SecurityGroup> = current.balancer.security_groups.iter().map(known).collect::<Option<_>>()?;
    (!groups.is_empty()).then_some(groups)
}

/// Reports whether one of these groups lets something in on that port. The default group of a VPC lets in what has the
/// group itself: usually no client, so that does not count where no object chose the group.
fn is_open(groups: &[&SecurityGroup], port: u16, by_default: bool) -> bool {
    let opens = |group: &SecurityGroup, permission: &Permission| {
        let of_tcp = matches!(permission.protocol.as_str(), "tcp" | "6" | "-1");
        let on_port =
            permission.ports.is_none_or(|range| (range.from..=range.to).contains(&port.into()) || range.from == -1);
        let itself = matches!(&permission.source, Source::Group(id) if by_default && *id == group.id);
        of_tcp && on_port && !itself
    };
    groups.iter().any(|group| group.ingress.iter().any(|permission| opens(group, permission)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_aws::ec2::PortRange;

    fn group(rules: Vec<Permission>) -> SecurityGroup {
        SecurityGroup {
            id: "sg-1".into(),
            name: "default".into(),
            vpc: "vpc-1".into(),
            tags: [].into(),
            ingress: rules.into_iter().collect(),
            egress: [].into(),
        }
    }

    fn open(rules: Vec<Permission>, by_default: bool) -> bool {
        is_open(&[&group(rules)], 443, by_default)
    }

    #[test]
    fn a_port_is_open_if_a_tcp_rule_has_it() {
        let anywhere = || Source::Network("0.0.0.0/0".into());
        assert!(open(vec![Permission::tcp(443, anywhere())], true));
        assert!(!open(vec![Permission::tcp(80, anywhere())], true));
        assert!(!open(Vec::new(), false));
        let all = |protocol: &str, ports| Permission { protocol: protocol.into(), ports, source: anywhere() };
        assert!(open(vec![all("-1", None)], true));
        assert!(!open(vec![all("udp", Some(PortRange { from: 0, to: 65535 }))], true));
        assert!(open(vec![all("tcp", Some(PortRange { from: 400, to: 500 }))], true));
    }

    #[test]
    fn a_vpcs_default_group_lets_in_no_client() {
        let itself = || Permission { protocol: "-1".into(), ports: None, source: Source::Group("sg-1".into()) };
        assert!(!open(vec![itself()], true));
        assert!(open(vec![itself()], false), "who chose the group may have clients in it");
    }
}
