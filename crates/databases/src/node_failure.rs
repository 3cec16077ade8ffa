//! Tells whether the failure of a single node of Kubernetes takes a database down, which another placement would prevent. Pure.

use std::collections::BTreeMap;

use causeway_runtime::{ConditionStatus, ExtraCondition};

use super::facts::Pod;

/// Present only while too many pods share a node: of these pods `needed` must be left, and `otherwise` says what happens
/// if not.
pub fn part<'a, N: 'a>(pods: impl Iterator<Item = &'a Pod<N>>, needed: usize, otherwise: &str) -> ExtraCondition {
    let mut nodes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let (mut count, mut all_ready) = (0, true);
    for pod in pods {
        count += 1;
        all_ready &= pod.ready && !pod.terminating;
        if let Some(node) = &pod.evidence.node {
            nodes.entry(node).or_default().push(&pod.name);
        }
    }
    // If no placement of its pods makes a database safe, its spec asks for that.
    let is_risky = |pods: &Vec<&str>| pods.len() > 1 && count > needed && count - pods.len() < needed;
    let found = nodes.into_iter().find(|(_, pods)| is_risky(pods));
    let message = found.as_ref().map_or_else(String::new, |(node, pods)| {
        let last = pods.last().copied().unwrap_or_default();
        let place = if all_ready { "Where another node" } else { "Once all pods are ready, and where another node" };
        format!(
            "{} are on node {node}: if it fails, {otherwise}. {place} has room, move one (kubectl delete pod {last}); \
             spec.affinity can keep them apart. A volume that cannot leave the node keeps its pod there",
            pods.join(", ")
        )
    });
    ExtraCondition {
        type_: "NodeFailureRisk",
        status: ConditionStatus::only_if(found.is_some()),
        reason: "PodsShareNode",
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::super::pod_trouble::Evidence;
    use super::*;

    fn risk(nodes: &[&str], needed: usize) -> Option<String> {
        let pod = |(at, node): (usize, &&str)| Pod::<()> {
            name: format!("db-{at}"),
            ready: !node.is_empty(),
            evidence: Evidence {
                node: Some((*node).into()).filter(|it: &String| !it.is_empty()),
                ..Evidence::default()
            },
            ..Pod::default()
        };
        let pods: Vec<_> = nodes.iter().enumerate().map(pod).collect();
        let part = part(pods.iter(), needed, "the majority is lost");
        (part.status == ConditionStatus::True).then_some(part.message)
    }

    #[test]
    fn a_node_with_too_many_pods_is_named() {
        let message = risk(&["node-1", "node-2", "node-2"], 2).expect("two of three on one node");
        assert!(message.starts_with("db-1, db-2 are on node node-2: if it fails, the majority is lost."), "{message}");
        assert!(message.contains("kubectl delete pod db-2"), "{message}");
        let message = risk(&["node-1", "node-1", ""], 2).expect("two of three on one node");
        assert!(message.contains("Once all pods are ready, and where another node has room"), "{message}");
        assert_eq!(risk(&["node-1", "node-2", "node-3"], 2), None);
        assert_eq!(risk(&["node-1", "node-2", "node-3", "node-1", "node-2"], 3), None, "two of five");
        assert_eq!(risk(&["node-1", "node-1"], 2), None, "two members need each other anywhere");
        assert!(risk(&["node-1", "node-1"], 1).is_some());
        assert_eq!(risk(&["node-1"], 1), None);
        assert_eq!(risk(&["node-1", "", ""], 2), None, "it is not known where they will be");
    }
}
