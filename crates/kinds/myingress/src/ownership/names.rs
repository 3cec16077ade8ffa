//! Names in AWS. Those of balancers and target groups have at most 32 letters, digits and hyphens.
//!
//! <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateLoadBalancer.html>
//! <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateTargetGroup.html>
//! <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateSecurityGroup.html>

use causeway_api::myingress::Scheme;
use causeway_aws::elbv2::{Protocol, ProtocolVersion, TargetType};
use causeway_runtime::fingerprint;

use crate::ownership::{ObjectKey, Owner};

const LONGEST: usize = 32;

/// Names to try, in this order. First the one that the spec gives, or `<name>-alb`. If that is not allowed or taken,
/// one with a hash of the owner. If the owner's own balancer of the other scheme has that one, one with a hash of owner
/// and scheme. The last one is for groups: all that the hashes before depend on is known to any user who knows
/// namespace and name of the group, so another tenant may have taken these names by its `spec.name`. This hash depends
/// on the cluster's uid, too, which tenants do not know. The same owner and scheme always give the same names, so a
/// balancer is found again after a crash.
pub fn candidates(owner: &Owner, scheme: Scheme, user_provided: Option<&str>) -> Vec<String> {
    let Owner { cluster, namespace, name, uid } = owner;
    let plain = user_provided.map_or_else(|| format!("{name}-alb"), str::to_owned);
    let parts = [&cluster.name, namespace, name, uid].map(String::as_bytes);
    let owner_hash = fingerprint(&parts, 8);
    let scheme_hash = fingerprint(&[&parts[..], &[scheme.as_str().as_bytes()]].concat(), 8);
    let unknown = cluster.uid.as_ref().filter(|_| owner.is_group());
    let unforeseen = unknown.map(|unknown| {
        let more = [scheme.as_str(), unknown.as_str()].map(str::as_bytes);
        fingerprint(&[&parts[..], &more[..]].concat(), 8)
    });
    let hashes = [owner_hash, scheme_hash].into_iter().chain(unforeseen);
    let others = hashes.map(|hash| format!("{}-{hash}", short(name)));
    std::iter::once(plain).filter(|plain| allowed(plain)).chain(others).collect()
}

/// The identity of a target group: whom it is for, and those of its settings that AWS cannot change. Another identity
/// needs another group. The Service that its targets come from is left out, for that can change in place.
pub struct TargetGroupIdentity<'a> {
    /// The owner of the balancer.
    pub owner: &'a Owner,
    /// The object that has the backend.
    pub member: &'a ObjectKey,
    /// Name of the backend.
    pub backend: &'a str,
    /// The balancer's scheme: while one balancer replaces another, each has its own groups.
    pub scheme: Scheme,
    /// The type of the targets: IP addresses or instances.
    pub target_type: TargetType,
    /// Protocol of requests to them.
    pub protocol: Protocol,
    pub version: ProtocolVersion,
    /// True if their addresses are IPv6.
    pub ipv6: bool,
    /// Port on which targets tell the balancer how many requests they take.
    pub control_port: Option<u16>,
}

impl TargetGroupIdentity<'_> {
    /// The group's name: readable parts of the object's and the backend's name, and a hash of the identity.
    pub fn name(&self) -> String {
        let target_type = match self.target_type {
            TargetType::Ip => "ip",
            TargetType::Instance => "instance",
        };
        let protocol = match self.protocol {
            Protocol::Http => "http",
            Protocol::Https => "https",
        };
        let version = match self.version {
            ProtocolVersion::Http1 => "http1",
            ProtocolVersion::Http2 => "http2",
            ProtocolVersion::Grpc => "grpc",
        };
        let (namespace, name) = self.member;
        let control_port = self.control_port.map(|port| port.to_string());
        let mut parts = vec![
            self.owner.cluster.name.as_str(),
            &self.owner.uid,
            namespace,
            name,
            self.backend,
            self.scheme.as_str(),
            target_type,
            protocol,
            version,
            if self.ipv6 { "ipv6" } else { "ipv4" },
        ];
        parts.extend(control_port.as_deref());
        let hash = fingerprint(&parts.into_iter().map(str::as_bytes).collect::<Vec<_>>(), 10);
        // Ten characters of each name, a hyphen between them, a hyphen and the hash: 32 in all.
        let part = |text: &str| shortened(text, 10);
        let parts = [part(name), part(self.backend)].into_iter().filter(|part| !part.is_empty());
        let readable = harmless(&parts.collect::<Vec<_>>().join("-"), "group");
        format!("{readable}-{hash}")
    }
}

/// Name of the security group that is created for the owner's balancer.
pub fn security_group_name(owner: &Owner) -> String {
    let Owner { cluster, namespace, name, uid } = owner;
    let hash = fingerprint(&[&cluster.name, namespace, name, uid].map(String::as_bytes), 8);
    let readable = match shortened(name, 200) {
        readable if readable.is_empty() || readable.starts_with("sg-") => format!("alb-{readable}"),
        readable => readable,
    };
    format!("{}-{hash}", readable.trim_end_matches('-'))
}

fn allowed(name: &str) -> bool {
    name.len() <= LONGEST
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.starts_with("internal-")
}

/// The part of the name that fits before `-` and the hash, made of allowed characters.
fn short(name: &str) -> String {
    harmless(&shortened(name.strip_prefix("internal-").unwrap_or(name), LONGEST - 9), "alb")
}

/// The first `most` characters, made of allowed ones, without hyphens at the ends.
fn shortened(name: &str, most: usize) -> String {
    let fitting: String = name.chars().take(most).map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    fitting.trim_matches('-').into()
}

/// The name, or `otherwise` if AWS does not allow a name to begin like this.
fn harmless(name: &str, otherwise: &str) -> String {
    if name.is_empty() || name.starts_with("internal-") || name == "internal" { otherwise } else { name }.into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use causeway_runtime::cluster::Cluster;
    use proptest::prelude::*;

    fn owner(name: &str) -> Owner {
        Owner { cluster: "prod".into(), namespace: "shop".into(), name: name.into(), uid: "u-1".into() }
    }

    #[test]
    fn the_first_choice_is_the_plain_name() {
        assert_eq!(candidates(&owner("myapp"), Scheme::InternetFacing, None)[0], "myapp-alb");
    }

    #[test]
    fn a_name_of_the_spec_comes_first() {
        let names = candidates(&owner("myapp"), Scheme::Internal, Some("shop-public"));
        assert_eq!(names[0], "shop-public");
        assert_eq!(names[1..], candidates(&owner("myapp"), Scheme::Internal, None)[1..]);
    }

    #[test]
    fn a_name_that_aws_refuses_is_hashed() {
        for name in ["a-name-that-is-clearly-too-long-for-aws", "with.dots", "internal-tools"] {
            let names = candidates(&owner(name), Scheme::Internal, None);
            assert_eq!(names.len(), 2, "{names:?}");
            assert!(names.iter().all(|name| allowed(name)), "{names:?}");
        }
    }

    #[test]
    fn tenants_cannot_foresee_the_last_name_of_a_group() {
        let of = |cluster_uid: Option<&str>, uid: &str, scheme| {
            let cluster = Cluster { name: "prod".into(), uid: cluster_uid.map(str::to_owned) };
            candidates(&Owner { cluster, uid: uid.into(), ..owner("all") }, scheme, None)
        };
        let (one, other) = (of(Some("a"), "group-1", Scheme::Internal), of(Some("b"), "group-1", Scheme::Internal));
        assert_eq!((one.len(), &one[..3]), (4, &other[..3]));
        let replacement = of(Some("a"), "group-1", Scheme::InternetFacing);
        let last = BTreeSet::from([&one[3], &other[3], &replacement[3]]);
        assert_eq!(last.len(), 3, "{last:?}");
        assert_eq!(of(None, "group-1", Scheme::Internal), one[..3], "the cluster's uid is not known");
        assert_eq!(of(Some("a"), "u-1", Scheme::Internal).len(), 3, "no tenant foresees an object's uid");
    }

    fn group_of<'a>(owner: &'a Owner, member: &'a ObjectKey, backend: &'a str) -> TargetGroupIdentity<'a> {
        TargetGroupIdentity {
            owner,
            member,
            backend,
            scheme: Scheme::Internal,
            target_type: TargetType::Ip,
            protocol: Protocol::Http,
            version: ProtocolVersion::Http1,
            ipv6: false,
            control_port: None,
        }
    }

    #[test]
    fn target_group_names_are_readable_and_follow_immutable_settings() {
        let (owner, member) = (owner("web"), ("shop".to_owned(), "storefront-of-the-shop".to_owned()));
        let of = |change: fn(&mut TargetGroupIdentity<'_>)| {
            let mut identity = group_of(&owner, &member, "cart");
            change(&mut identity);
            identity.name()
        };
        let names = [
            of(|_| {}),
            of(|it| it.backend = "card"),
            of(|it| it.scheme = Scheme::InternetFacing),
            of(|it| it.target_type = TargetType::Instance),
            of(|it| it.protocol = Protocol::Https),
            of(|it| it.version = ProtocolVersion::Http2),
            of(|it| it.ipv6 = true),
            of(|it| it.control_port = Some(3000)),
            of(|it| it.control_port = Some(3001)),
        ];
        assert!(names[0].starts_with("storefront-cart-"), "{}", names[0]);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
    }

    #[test]
    fn a_security_group_never_looks_like_an_id() {
        assert!(security_group_name(&owner("web")).starts_with("web-"));
        assert!(security_group_name(&owner("sg-web")).starts_with("alb-sg-web-"));
        assert!(security_group_name(&owner(&"x".repeat(253))).len() <= 255);
    }

    proptest! {
        #[test]
        fn every_target_group_has_an_allowed_name(
            name in "[a-z0-9]([a-z0-9.-]{0,60}[a-z0-9])?|internal-.{0,9}|\\PC{0,40}",
            backend in "[a-z0-9]([a-z0-9-]{0,60}[a-z0-9])?|internal-.{0,9}|\\PC{0,40}",
        ) {
            let (owner, member) = (owner("web"), ("shop".to_owned(), name));
            let name = group_of(&owner, &member, &backend).name();
            prop_assert!(allowed(&name), "{}", name);
        }

        #[test]
        fn every_candidate_is_allowed_and_no_two_are_alike(name in "[a-z0-9]([a-z0-9.-]{0,60}[a-z0-9])?") {
            for scheme in [Scheme::Internal, Scheme::InternetFacing] {
                let names = candidates(&owner(&name), scheme, None);
                prop_assert!(names.iter().all(|name| allowed(name)), "{names:?}");
                prop_assert_ne!(&names[names.len() - 1], &names[names.len() - 2]);
            }
        }

        #[test]
        fn owners_have_hashed_names_of_their_own(a in "[a-z]{1,5}", b in "[a-z]{1,5}") {
            prop_assume!(a != b);
            let one = candidates(&Owner { namespace: a.clone(), ..owner("x") }, Scheme::Internal, None);
            let other = candidates(&Owner { namespace: b, ..owner("x") }, Scheme::Internal, None);
            prop_assert!(one[1..].iter().all(|name| !other[1..].contains(name)));
        }
    }
}
