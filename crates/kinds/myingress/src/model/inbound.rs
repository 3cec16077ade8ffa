//! The rules of the balancer's own security group.

use std::collections::BTreeSet;

use causeway_api::myingress::MyIngressSpec;
use causeway_api::network::canonical;
use causeway_aws::ec2::{Permission, Source};

use super::{Complaint, Model, SecurityModel};

/// Rules that a security group may have for each address family, in an account with the default quota.
/// <https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html>, read on 2026-11-23: "enforced separately
/// for IPv4 rules and IPv6 rules"; a rule with another group or a prefix list counts in both.
pub const MOST_RULES: usize = 60;

/// The outbound rule that AWS gives to a new security group.
/// <https://docs.aws.amazon.com/vpc/latest/userguide/creating-security-groups.html>
pub fn everywhere() -> Permission {
    Permission::all_traffic(Source::Network("0.0.0.0/0".into()))
}

/// The one that it gives to a new security group in a VPC with IPv6, in addition.
pub fn everywhere_by_ipv6() -> Permission {
    Permission::all_traffic(Source::Network("::/0".into()))
}

/// How many of the rules count for IPv4, and how many for IPv6. AWS counts the highest number of entries that a prefix
/// list may have. That number is unknown here, so a list counts once.
pub fn counted<'a>(permissions: impl IntoIterator<Item = &'a Permission>) -> (usize, usize) {
    permissions.into_iter().fold((0, 0), |(four, six), permission| match &permission.source {
        Source::Network(cidr) if cidr.contains(':') => (four, six + 1),
        Source::Network(_) => (four + 1, six),
        Source::Group(_) | Source::PrefixList(_) => (four + 1, six + 1),
    })
}

/// The inbound rules for the ports of these listeners. A listener with networks of its own lets in those and no others.
pub fn permissions<'a>(
    security: &SecurityModel,
    listeners: impl IntoIterator<Item = (u16, &'a BTreeSet<String>)>,
) -> BTreeSet<Permission> {
    let SecurityModel::Managed { cidrs, prefix_lists, .. } = security else { return BTreeSet::new() };
    let network = |cidr: &String| Source::Network(cidr.clone());
    let everywhere: BTreeSet<Source> =
        cidrs.iter().map(network).chain(prefix_lists.iter().cloned().map(Source::PrefixList)).collect();
    let of_listener = |(port, own): (u16, &BTreeSet<String>)| {
        let sources = if own.is_empty() { everywhere.clone() } else { own.iter().map(network).collect() };
        sources.into_iter().map(move |source| Permission::tcp(port, source)).collect::<Vec<_>>()
    };
    listeners.into_iter().flat_map(of_listener).collect()
}

/// Checks, before anything is created, that one security group may have these rules.
pub fn check(permissions: &BTreeSet<Permission>, most: usize) -> Result<(), Complaint> {
    let (four, six) = counted(permissions);
    let (number, family) = if four >= six { (four, "IPv4") } else { (six, "IPv6") };
    if number <= most {
        return Ok(());
    }
    let message = format!(
        "spec.inboundCidrs makes {number} {family} rules, one for each network and listener's port, and a security group \
         takes {most}: name fewer or larger networks, put them into a prefix list (spec.inboundPrefixLists), or make a \
         security group yourself and name it in spec.securityGroups"
    );
    Err(Complaint { reason: "InboundInvalid", message })
}

/// A network or prefix list that a spec lets in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbound<'a> {
    /// The field that names it.
    pub field: String,
    /// As the spec has it.
    pub text: &'a str,
    /// The source that AWS is asked to let in.
    pub source: Source,
    /// The port of the listener, if it is let in on that one only.
    port: Option<u16>,
}

impl Inbound<'_> {
    /// Reports whether it asks for that inbound rule.
    pub fn asks_for(&self, permission: &Permission) -> bool {
        let port = permission.ports.map(|ports| ports.from);
        self.source == permission.source && self.port.is_none_or(|own| port == Some(own.into()))
    }

    /// The network or the id in the form in which AWS gets it.
    pub fn canonical(&self) -> &str {
        match &self.source {
            Source::Network(text) | Source::Group(text) | Source::PrefixList(text) => text,
        }
    }
}

/// The networks and prefix lists that a spec lets in.
pub fn inbound_of(spec: &MyIngressSpec) -> Vec<Inbound<'_>> {
    let network = |text: &String| Source::Network(canonical(text).unwrap_or_else(|| text.clone()));
    let networks = spec.inbound_cidrs.iter().enumerate().map(|(index, text)| Inbound {
        field: format!("spec.inboundCidrs[{index}]"),
        text,
        source: network(text),
        port: None,
    });
    let lists = spec.inbound_prefix_lists.iter().enumerate().map(|(index, text)| Inbound {
        field: format!("spec.inboundPrefixLists[{index}]"),
        text,
        source: Source::PrefixList(text.clone()),
        port: None,
    });
    let by_listener = spec.listeners.iter().enumerate().flat_map(|(at, listener)| {
        listener.inbound_cidrs.iter().enumerate().map(move |(index, text)| Inbound {
            field: format!("spec.listeners[{at}].inboundCidrs[{index}]"),
            text,
            source: network(text),
            port: Some(listener.port),
        })
    });
    networks.chain(lists).chain(by_listener).collect()
}

impl Model {
    /// The wanted inbound rules of the balancer's own security group.
    pub fn inbound(&self) -> BTreeSet<Permission> {
        permissions(&self.balancer.security, self.listeners.iter().map(|(port, listener)| (*port, &listener.inbound)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::model::fixtures::{complaint, model};

    fn networks(number: usize) -> Vec<String> {
        (0..number).map(|it| format!("10.{it}.0.0/16")).collect()
    }

    fn ports(number: u16) -> Value {
        (0..number).map(|it| json!({ "port": 8000 + it })).collect()
    }

    #[test]
    fn networks_times_ports_are_counted_before_anything_is_made() {
        let fits = json!({ "inboundCidrs": networks(20), "listeners": ports(3) });
        assert_eq!(model(fits).inbound().len(), 60);
        let (reason, message) = complaint(json!({ "inboundCidrs": networks(31), "listeners": ports(2) }));
        assert_eq!(reason, "InboundInvalid");
        assert!(message.starts_with("spec.inboundCidrs makes 62 IPv4 rules"), "{message}");
    }

    #[test]
    fn families_are_counted_apart() {
        let six = (0..31).map(|it| format!("2001:db8:{it}::/48"));
        let both: Vec<String> = networks(30).into_iter().chain(six).collect();
        assert!(complaint(json!({ "inboundCidrs": &both, "listeners": ports(2) })).1.contains("makes 62 IPv6 rules"));
        assert_eq!(model(json!({ "inboundCidrs": both[..60], "listeners": ports(2) })).inbound().len(), 120);
    }

    #[test]
    fn a_listener_with_own_networks_lets_no_others_in() {
        let spec = json!({
            "inboundCidrs": ["0.0.0.0/0"], "inboundPrefixLists": ["pl-1"],
            "listeners": [{ "port": 80 }, { "port": 8080, "inboundCidrs": ["10.1.2.3/8"] }],
        });
        let wanted = [
            Permission::tcp(80, Source::Network("0.0.0.0/0".into())),
            Permission::tcp(80, Source::PrefixList("pl-1".into())),
            Permission::tcp(8080, Source::Network("10.0.0.0/8".into())),
        ];
        assert_eq!(model(spec).inbound(), wanted.into());
    }

    #[test]
    fn what_does_not_go_together_is_named() {
        for (spec, words) in [
            (json!({ "inboundPrefixLists": ["x"] }), "spec.inboundPrefixLists[0] must be an id such as pl-0a1b2c3d"),
            (
                json!({ "inboundPrefixLists": ["pl-1"], "securityGroups": ["sg-1"] }),
                "spec.inboundPrefixLists makes a security group of its own",
            ),
            (
                json!({ "listeners": [{ "port": 80, "inboundCidrs": ["10.0.0.0/8"] }] }),
                "spec.listeners[0].inboundCidrs needs a security group of Causeway's own",
            ),
            (
                json!({ "inboundCidrs": ["::/0"], "listeners": [{ "port": 80, "inboundCidrs": ["10.0.0.0"] }] }),
                "spec.listeners[0].inboundCidrs[0] must be a network",
            ),
        ] {
            let (_, message) = complaint(spec);
            assert!(message.contains(words), "{message}\nshould say: {words}");
        }
    }
}
