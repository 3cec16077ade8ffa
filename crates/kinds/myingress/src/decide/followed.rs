//! A tag of a target group that says which backend it follows. After a restart the operator still knows the backend,
//! even if a mistake in the spec hides it.

use causeway_api::common::PREFIX;

use crate::ownership::Owner;
use crate::region::assets::GroupMember;
use crate::targets::{Backend, PortName};

/// The tag. Its value is Service and port, then the labels of nodes. The namespace is the object's, and AWS reports the
/// rest.
pub fn backend_tag(backend: &Backend) -> (String, String) {
    let nodes: Vec<String> = backend.nodes.iter().map(|(key, value)| format!(" {key}={value}")).collect();
    let nodes = nodes.concat();
    (key(), format!("{}:{}{nodes}", backend.service, backend.port))
}

/// The backend that the owner's target group follows according to its tag.
pub fn remembered(owner: &Owner, grouped: bool, member: &GroupMember) -> Option<Backend> {
    let mut words = member.tags.get(&key())?.split(' ');
    let (service, port) = words.next()?.split_once(':')?;
    let nodes = words.map(|label| label.split_once('=')).collect::<Option<Vec<_>>>()?;
    let namespace =
        if grouped { member.tags.get(&super::member_tag_key())?.split_once('/')?.0 } else { &owner.namespace };
    let kind = member.group.kind.as_ref()?;
    Some(Backend {
        namespace: namespace.into(),
        service: service.into(),
        // A port's name has at least one letter.
        port: port.parse().map_or_else(|_| PortName::Name(port.into()), PortName::Number),
        target_type: kind.target_type,
        ipv6: kind.ipv6,
        nodes: nodes.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        // The health check does not change which targets there are.
        check: None,
    })
}

fn key() -> String {
    format!("{PREFIX}/backend")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use causeway_aws::elbv2::TargetType;

    #[test]
    fn the_tag_names_ports_by_number_or_name() {
        let backend = |port| Backend {
            namespace: "shop".into(),
            service: "web".into(),
            port,
            target_type: TargetType::Ip,
            ipv6: false,
            nodes: BTreeMap::new(),
            check: None,
        };
        let tag = |port| backend_tag(&backend(port)).1;
        assert_eq!(tag(PortName::Number(80)), "web:80");
        assert_eq!(tag(PortName::Name("http-80".into())), "web:http-80");
        let nodes = [("a/b".to_owned(), "c".to_owned()), ("d".to_owned(), String::new())].into();
        assert_eq!(backend_tag(&Backend { nodes, ..backend(PortName::Number(80)) }).1, "web:80 a/b=c d=");
    }
}
