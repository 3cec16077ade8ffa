//! Where the pods of a database run: apart from each other unless their user says otherwise. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, PodAffinityTerm, PodAntiAffinity, PodSpec, Toleration, TopologySpreadConstraint, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// The fields of a spec about placement.
pub struct Placement<'a> {
    /// Labels of all pods of the database.
    pub pods: BTreeMap<String, String>,
    /// Labels of the nodes that they may run on.
    pub node_selector: &'a BTreeMap<String, String>,
    /// Taints that they tolerate.
    pub tolerations: &'a [Toleration],
    /// Takes the place of the default.
    pub affinity: Option<&'a Affinity>,
    /// Takes the place of the default, even if it is empty. A constraint without a selector gets the one of the database's
    /// own pods: only those are to be spread.
    pub constraints: Option<&'a Vec<TopologySpreadConstraint>>,
    /// A pod waits rather than share a node of Kubernetes with another.
    pub alone: bool,
}

impl Placement<'_> {
    /// The pod with all of this.
    pub fn put(&self, pod: PodSpec) -> PodSpec {
        PodSpec {
            node_selector: Some(self.node_selector.clone()).filter(|labels| !labels.is_empty()),
            tolerations: Some(self.tolerations.iter().map(without_empty).collect::<Vec<_>>())
                .filter(|all| !all.is_empty()),
            affinity: Some(self.affinity.cloned().unwrap_or_else(|| self.apart())),
            topology_spread_constraints: Some(self.spread()).filter(|all| !all.is_empty()),
            ..pod
        }
    }

    /// Keeps pods on different nodes: in any case if they are to be `alone`, else if there are enough nodes.
    fn apart(&self) -> Affinity {
        let term = PodAffinityTerm {
            topology_key: "kubernetes.io/hostname".into(),
            label_selector: Some(self.selector()),
            ..PodAffinityTerm::default()
        };
        let rule = if self.alone {
            PodAntiAffinity {
                required_during_scheduling_ignored_during_execution: Some(vec![term]),
                ..PodAntiAffinity::default()
            }
        } else {
            let preferred = WeightedPodAffinityTerm { weight: 100, pod_affinity_term: term };
            PodAntiAffinity {
                preferred_during_scheduling_ignored_during_execution: Some(vec![preferred]),
                ..PodAntiAffinity::default()
            }
        };
        Affinity { pod_anti_affinity: Some(rule), ..Affinity::default() }
    }

    /// The constraints that are given; else pods are in different zones if there are enough.
    fn spread(&self) -> Vec<TopologySpreadConstraint> {
        let Some(user_provided) = self.constraints else {
            return vec![TopologySpreadConstraint {
                max_skew: 1,
                topology_key: "topology.kubernetes.io/zone".into(),
                when_unsatisfiable: "ScheduleAnyway".into(),
                label_selector: Some(self.selector()),
                ..TopologySpreadConstraint::default()
            }];
        };
        let selected = |constraint: &TopologySpreadConstraint| TopologySpreadConstraint {
            label_selector: constraint.label_selector.clone().or_else(|| Some(self.selector())),
            ..constraint.clone()
        };
        user_provided.iter().map(selected).collect()
    }

    fn selector(&self) -> LabelSelector {
        LabelSelector { match_labels: Some(self.pods.clone()), match_expressions: None }
    }
}

/// The toleration as the API server keeps it: without texts that are empty.
fn without_empty(toleration: &Toleration) -> Toleration {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    Toleration {
        effect: given(&toleration.effect),
        key: given(&toleration.key),
        operator: given(&toleration.operator),
        value: given(&toleration.value),
        ..toleration.clone()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::NodeAffinity;

    use super::*;

    const NOWHERE: &BTreeMap<String, String> = &BTreeMap::new();

    fn placement() -> Placement<'static> {
        Placement {
            pods: BTreeMap::from([("set".into(), "cache".into())]),
            node_selector: NOWHERE,
            tolerations: &[],
            affinity: None,
            constraints: None,
            alone: false,
        }
    }

    #[test]
    fn what_is_given_takes_the_place_of_the_default() {
        let usual = placement().put(PodSpec::default());
        assert!(usual.affinity.is_some_and(|it| it.pod_anti_affinity.is_some()));
        assert_eq!(usual.topology_spread_constraints.map(|all| all.len()), Some(1));
        let (affinity, none) =
            (Affinity { node_affinity: Some(NodeAffinity::default()), ..Affinity::default() }, Vec::new());
        let user_provided = Placement { affinity: Some(&affinity), constraints: Some(&none), ..placement() };
        let user_provided = user_provided.put(PodSpec::default());
        assert_eq!((user_provided.affinity, user_provided.topology_spread_constraints), (Some(affinity), None));
    }

    #[test]
    fn empty_texts_of_a_toleration_are_left_out() {
        let text = |text: &str| Some(text.to_owned());
        let taint =
            Toleration { key: text("dedicated"), operator: text("Equal"), value: text(""), ..Default::default() };
        let all = Toleration { key: text(""), operator: text("Exists"), effect: text(""), ..Default::default() };
        let tolerations = [taint, all];
        let pod = Placement { tolerations: &tolerations, ..placement() }.put(PodSpec::default());
        let json = serde_json::to_value(pod.tolerations).unwrap();
        assert_eq!(json, serde_json::json!([{ "key": "dedicated", "operator": "Equal" }, { "operator": "Exists" }]));
    }

    #[test]
    fn a_constraint_without_a_selector_spreads_the_own_pods() {
        let user_provided = TopologySpreadConstraint { topology_key: "rack".into(), max_skew: 2, ..Default::default() };
        let own = LabelSelector::default();
        let another = TopologySpreadConstraint { label_selector: Some(own.clone()), ..user_provided.clone() };
        let constraints = vec![user_provided, another];
        let placement = Placement { constraints: Some(&constraints), ..placement() };
        let selectors: Vec<_> = placement.spread().into_iter().map(|constraint| constraint.label_selector).collect();
        assert_eq!(selectors, [Some(placement.selector()), Some(own)]);
    }

    #[test]
    fn a_pod_that_must_be_alone_waits() {
        let rule = Placement { alone: true, ..placement() }.apart().pod_anti_affinity.unwrap();
        assert!(rule.preferred_during_scheduling_ignored_during_execution.is_none());
        assert_eq!(rule.required_during_scheduling_ignored_during_execution.map(|all| all.len()), Some(1));
    }
}
