//! Members of other namespaces than the group's own: its guests. They bring rules and backends. Only members of the
//! group's own namespace decide what all members share, and their rules come first.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::myingress::{ListenerProtocol, ListenerSpec, Scheme};
use causeway_api::{MyIngress, MyIngressSpec};
use causeway_aws::elbv2::{Condition, Match, Protocol};

use super::field::Field;
use super::{Complaint, RuleModel};
use crate::ownership::Owner;

const REASON: &str = "GuestRefused";
/// The reason of a guest while no member in the group's own namespace says where the balancer stands.
pub const WITHOUT_BALANCER: &str = "GroupWithoutBalancer";

/// The complaint about a guest while no member of the group's own namespace says where the balancer stands.
pub fn without_home(owner: &Owner) -> Complaint {
    let message = format!(
        "spec.group: no valid member of namespace {} sets subnets for the balancer of group {}: ask there for one with \
         subnets or a subnetSelector",
        owner.namespace, owner.name
    );
    Complaint { reason: WITHOUT_BALANCER, message }
}

/// The spec of the guest, with the protocols of the group's listeners; or a complaint about the first field that a
/// guest may not set.
pub fn admitted(
    object: &MyIngress,
    owner: &Owner,
    protocols: &BTreeMap<u16, Protocol>,
) -> Result<MyIngressSpec, Complaint> {
    let (spec, field) = (&object.spec, Field::spec());
    let field = field.with_reason(REASON);
    if let Some(name) = common_field(spec) {
        return field.name(name).complain(for_home(owner));
    }
    let list = field.name("listeners");
    let mut admitted = spec.clone();
    for (index, listener) in admitted.listeners.iter_mut().enumerate() {
        listen(listener, owner, protocols, &list.item(index))?;
    }
    Ok(admitted)
}

/// The first field that is set although all members of a group share it. Every field is named here, so a new one is not
/// forgotten.
fn common_field(spec: &MyIngressSpec) -> Option<&'static str> {
    let MyIngressSpec {
        name,
        subnets,
        subnet_selector,
        scheme,
        ip_address_type,
        security_groups,
        target_security_groups,
        inbound_cidrs,
        inbound_prefix_lists,
        adopt,
        idle_timeout,
        deletion_protection,
        http2,
        drop_invalid_headers,
        access_logs,
        waf_acl_arn,
        minimum_capacity_units,
        attributes,
        tags,
        // The guest's own fields.
        listeners: _,
        backends: _,
        group: _,
        suspend: _,
        // It says what becomes of the balancer, which the deletion of a guest does not affect.
        deletion_policy: _,
    } = spec;
    let fields = [
        ("name", name.is_some()),
        ("subnets", !subnets.is_empty()),
        ("subnetSelector", subnet_selector.is_some()),
        // A scheme that is left out reads as the default one.
        ("scheme", *scheme != Scheme::default()),
        ("ipAddressType", ip_address_type.is_some()),
        ("securityGroups", !security_groups.is_empty()),
        ("targetSecurityGroups", !target_security_groups.is_empty()),
        ("inboundCidrs", !inbound_cidrs.is_empty()),
        ("inboundPrefixLists", !inbound_prefix_lists.is_empty()),
        ("adopt", adopt.is_some()),
        ("idleTimeout", idle_timeout.is_some()),
        ("deletionProtection", deletion_protection.is_some()),
        ("http2", http2.is_some()),
        ("dropInvalidHeaders", drop_invalid_headers.is_some()),
        ("accessLogs", access_logs.is_some()),
        ("wafAclArn", waf_acl_arn.is_some()),
        ("minimumCapacityUnits", minimum_capacity_units.is_some()),
        ("attributes", !attributes.is_empty()),
        ("tags", !tags.is_empty()),
    ];
    fields.into_iter().find_map(|(name, set)| set.then_some(name))
}

/// Takes the protocol of the group's listener on that port, or complains about the listener.
fn listen(
    listener: &mut ListenerSpec,
    owner: &Owner,
    protocols: &BTreeMap<u16, Protocol>,
    field: &Field<'_>,
) -> Result<(), Complaint> {
    let ListenerSpec {
        port,
        protocol,
        certificate_arns,
        ssl_policy,
        mutual_authentication,
        inbound_cidrs,
        attributes,
        default_action,
        rules,
    } = listener;
    for (name, set) in [
        ("certificateArns", !certificate_arns.is_empty()),
        ("sslPolicy", ssl_policy.is_some()),
        ("mutualAuthentication", mutual_authentication.is_some()),
        ("inboundCidrs", !inbound_cidrs.is_empty()),
        ("attributes", !attributes.is_empty()),
        ("defaultAction", default_action.is_some()),
    ] {
        if set {
            return field.name(name).complain(for_home(owner));
        }
    }
    let Some(spoken) = protocols.get(port) else {
        let open: Vec<String> = protocols.keys().map(u16::to_string).collect();
        let open = if open.is_empty() { "there is none yet".to_owned() } else { format!("use {}", open.join(" or ")) };
        return field.name("port").complain(format_args!(
            "is {port}, which members of namespace {} alone can open: {open}, or ask them for a listener on it",
            owner.namespace
        ));
    };
    let spoken = match spoken {
        Protocol::Http => ListenerProtocol::Http,
        Protocol::Https => ListenerProtocol::Https,
    };
    if protocol.is_some_and(|protocol| protocol != spoken) {
        return field.name("protocol").complain("differs from that of the group's listener: remove it here");
    }
    *protocol = Some(spoken);
    let list = field.name("rules");
    for (index, rule) in rules.iter().enumerate() {
        if rule.action.forward.as_ref().is_some_and(|forward| !forward.target_groups.is_empty()) {
            let item = list.item(index);
            let (action, forward) = (item.name("action"), "forward");
            return action.name(forward).name("targetGroups").complain(for_home(owner));
        }
    }
    Ok(())
}

fn for_home(owner: &Owner) -> String {
    format!(
        "is for members of namespace {}, to which group {} belongs: remove it here, or ask them to set it",
        owner.namespace, owner.name
    )
}

/// Refuses a guest's rule for requests that a rule of the group's own namespace is about, as far as the patterns show
/// that. Where they do not, the other rule still comes first.
pub fn answers_nothing_of<'a>(
    home: impl IntoIterator<Item = &'a RuleModel>,
    guest: &RuleModel,
) -> Result<(), Complaint> {
    let Some(asked) = Claim::of_rule(guest) else { return Ok(()) };
    let clash = home.into_iter().find(|rule| Claim::of_rule(rule).is_some_and(|claim| claim.excludes(&asked)));
    let Some(RuleModel { member: (namespace, name), field, .. }) = clash else { return Ok(()) };
    let message = format!(
        "{} is about requests that are for {field} of {namespace}/{name}, which comes first whatever the priority: choose \
         another host or path",
        guest.field
    );
    Err(Complaint { reason: REASON, message })
}

/// The hosts and paths that a rule is about, by pattern; `None` stands for all.
struct Claim<'a> {
    hosts: Vec<Option<&'a str>>,
    paths: Vec<Option<&'a str>>,
    /// True if the rule has other conditions besides them.
    narrowed: bool,
}

impl<'a> Claim<'a> {
    /// Returns the hosts and paths of the rule; `None` if it has a regular expression for host or path.
    fn of_rule(rule: &'a RuleModel) -> Option<Self> {
        let mut claim = Self { hosts: vec![None], paths: vec![None], narrowed: false };
        let all = |patterns: &'a BTreeSet<String>| patterns.iter().map(|it| Some(it.as_str())).collect();
        for condition in &rule.settings.conditions {
            match condition {
                Condition::Host(Match::Wildcards(patterns)) => claim.hosts = all(patterns),
                Condition::Path(Match::Wildcards(patterns)) => claim.paths = all(patterns),
                Condition::Host(Match::Regex(_)) | Condition::Path(Match::Regex(_)) => return None,
                _ => claim.narrowed = true,
            }
        }
        Some(claim)
    }

    /// Reports whether a guest's rule with that claim must be refused because of this rule.
    ///
    /// A rule that has only hosts and paths answers all requests for them, so nothing is left to the guest. A rule that
    /// names a host and has other conditions, such as client networks, must not be bypassed: a client that it does not
    /// let pass must not reach a guest.
    fn excludes(&self, guest: &Claim<'_>) -> bool {
        let alike =
            |ours: Option<&str>, theirs: Option<&str>| covers(ours, theirs) || (self.narrowed && covers(theirs, ours));
        let counts = |host: Option<&str>| !self.narrowed || host.is_some();
        let hosts = self.hosts.iter().copied().filter(|it| counts(*it));
        let host = hosts.flat_map(|ours| guest.hosts.iter().map(move |theirs| (ours, *theirs)));
        let mut path = self.paths.iter().flat_map(|ours| guest.paths.iter().map(move |theirs| (*ours, *theirs)));
        host.clone().any(|(ours, theirs)| alike(ours, theirs)) && path.any(|(ours, theirs)| alike(ours, theirs))
    }
}

/// Reports whether the outer pattern matches everything that the inner one matches.
pub fn covers(outer: Option<&str>, inner: Option<&str>) -> bool {
    match (outer, inner) {
        (None, _) => true,
        (Some(outer), None) => !outer.is_empty() && outer.bytes().all(|it| it == b'*'),
        (Some(outer), Some(inner)) => matches(outer.as_bytes(), inner.as_bytes()),
    }
}

/// Reports whether a pattern with `*` and `?` matches a text. Wildcards in the text stand for themselves: a `?` there
/// is no `*`.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    // The position of the last `*`, and how much of the text it takes.
    let (mut at, mut read, mut star) = (0, 0, None);
    while read < text.len() {
        let here = pattern.get(at);
        if here == Some(&b'*') {
            star = Some((at, read));
            at += 1;
        } else if here == Some(&text[read]) || (here == Some(&b'?') && text[read] != b'*') {
            (at, read) = (at + 1, read + 1);
        } else if let Some((place, taken)) = star {
            (at, read) = (place + 1, taken + 1);
            star = Some((place, taken + 1));
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|it| *it == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_covers_what_it_matches_in_any_case() {
        for (outer, inner, wanted) in [
            ("*.example.com", "a.example.com", true),
            ("*.example.com", "*.a.example.com", true),
            ("*.example.com", "example.com", false),
            ("?.example.com", "*.example.com", false),
            ("?.example.com", "?.example.com", true),
            ("/shop/*", "/shop/cart/*", true),
            ("/shop/*", "/shop", false),
            ("/*/a*b", "/x/y/acab", true),
            ("/a", "/a", true),
            ("*", "", true),
        ] {
            assert_eq!(covers(Some(outer), Some(inner)), wanted, "{outer} {inner}");
        }
        assert!(covers(None, Some("/a")) && covers(Some("*"), None) && !covers(Some("/*"), None));
    }
}
