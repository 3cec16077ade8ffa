//! From which field of the spec a child's field comes: the apiserver names the child's field, which no user wrote. Pure.

/// Parts of paths in a child, as the apiserver names them, and the field that each comes from. The more exact come first.
const FIELDS: [(&str, &str); 25] = [
    ("containers[1].", "spec.exporter and spec.sentinel"),
    ("containers[2].", "spec.sentinel"),
    ("containers[0].resources", "spec.resources"),
    ("containers[0].image", "spec.image"),
    ("containers[0].env", "spec.config"),
    ("initContainers[0].image", "spec.recovery.image"),
    ("template.spec.nodeSelector", "spec.nodeSelector"),
    ("template.spec.tolerations", "spec.tolerations"),
    ("template.spec.affinity", "spec.affinity"),
    ("template.spec.topologySpreadConstraints", "spec.topologySpreadConstraints"),
    ("template.spec.priorityClassName", "spec.priorityClassName"),
    ("template.spec.priority", "spec.priorityClassName"),
    ("template.spec.imagePullSecrets", "spec.imagePullSecrets"),
    ("template.spec.serviceAccountName", "spec.serviceAccountName"),
    ("template.labels", "spec.podMetadata.labels"),
    ("template.annotations", "spec.podMetadata.annotations"),
    ("volumeClaimTemplates[0].spec.storageClassName", "the storage class of the spec"),
    ("volumeClaimTemplates", "the storage of the spec"),
    ("secret.secretName", "the names of Secrets in spec.tls and spec.auth"),
    ("spec.replicas", "spec.replicas"),
    ("metadata.labels", "metadata.name, which is part of labels: choose a shorter one"),
    ("metadata.name", "metadata.name: choose a shorter one"),
    ("data[", "spec.config"),
    ("ingress[0].from", "spec.allowedClients"),
    ("spec.trafficDistribution", "trafficDistribution of spec.service or spec.replicaService"),
];

/// The fields that the apiserver's message is about, as the end of a sentence; empty if it is about none of the spec's.
pub fn fix(words: &str) -> String {
    // The words are `<kind> "<name>" is invalid: <path>: <why>`, or several of these in brackets.
    let Some((_, complaints)) = words.split_once(" is invalid: ") else { return String::new() };
    let mut fields: Vec<&str> = Vec::new();
    for complaint in complaints.trim_start_matches('[').split(", spec.") {
        let path = complaint.split(": ").next().unwrap_or_default();
        let known = FIELDS.iter().find(|(part, _)| path.contains(part)).map(|(_, field)| *field);
        if let Some(field) = known.filter(|field| !fields.contains(field)) {
            fields.push(field);
        }
    }
    if fields.is_empty() { String::new() } else { format!("; that comes from {}: correct it", fields.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_childs_field_is_traced_to_the_spec() {
        let message =
            |path: &str| fix(&format!("StatefulSet.apps \"db\" is invalid: {path}: Invalid value: \"x\": no"));
        assert_eq!(
            message("spec.template.spec.containers[0].resources.requests"),
            "; that comes from spec.resources: correct it"
        );
        assert!(message("spec.template.spec.tolerations[0].operator").contains("spec.tolerations"));
        assert!(message("spec.template.spec.containers[1].image").contains("spec.exporter"));
        assert_eq!(message("spec.template.spec.hostNetwork"), "");
        let two = "[spec.template.spec.containers[0].resources.limits[cpu]: Invalid value: \"1\": must be, \
                   spec.template.spec.nodeSelector: Invalid value: \"-\"";
        assert_eq!(
            fix(&format!("StatefulSet.apps \"db\" is invalid: {two}]")),
            "; that comes from spec.resources, spec.nodeSelector: correct it"
        );
        assert_eq!(fix("etcdserver: request timed out"), "");
    }
}
