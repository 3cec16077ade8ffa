//! The operator's own service account, for commands that grant it a role.

use std::sync::OnceLock;

static OWN: OnceLock<String> = OnceLock::new();

/// The service account of deploy/base.
const USUAL: &str = "causeway-system:causeway";

/// Records that this process runs as that account. Only the first call has an effect.
pub fn runs_as(namespace: &str, name: &str) {
    OWN.get_or_init(|| format!("{namespace}:{name}"));
}

/// Returns the command that binds one of our cluster roles in `namespace`, or in the namespace of the kubeconfig if
/// that is `None`.
pub fn grant(namespace: Option<&str>, role: &str) -> String {
    granted_to(OWN.get().map_or(USUAL, String::as_str), namespace, role)
}

fn granted_to(account: &str, namespace: Option<&str>, role: &str) -> String {
    let place = namespace.map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
    format!("kubectl{place} create rolebinding {role} --clusterrole={role} --serviceaccount={account}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_names_the_account_that_runs() {
        assert_eq!(
            granted_to("ops:operator", Some("shop"), "causeway-secrets"),
            "kubectl -n shop create rolebinding causeway-secrets --clusterrole=causeway-secrets --serviceaccount=ops:operator"
        );
        assert!(
            grant(None, "r")
                .ends_with("kubectl create rolebinding r --clusterrole=r --serviceaccount=causeway-system:causeway")
        );
    }
}
