//! Client secrets of log-ins. AWS never returns them, so a tag says which one was set.

use causeway_api::common::PREFIX;
use causeway_aws::elbv2::{Pairs, RuleAction};
use causeway_runtime::fingerprint;

use crate::ownership::Owner;

/// A fingerprint of the client secret among the actions. It includes the owner's uid, so equal secrets of two owners
/// have different fingerprints.
pub fn fingerprint_of(owner: &Owner, actions: &[RuleAction]) -> Option<String> {
    let secret = actions.iter().find_map(|action| match action {
        RuleAction::AuthenticateOidc(oidc) => oidc.client_secret.as_ref(),
        _ => None,
    })?;
    Some(fingerprint(&[owner.uid.as_bytes(), secret.as_bytes()], 16))
}

/// The tag that holds the fingerprint.
pub fn secret_tag(fingerprint: String) -> (String, String) {
    (format!("{PREFIX}/client-secret"), fingerprint)
}

/// Fills in the wanted secret if the tags say that it is the one that was set.
pub fn with_known_secret(present: &mut [RuleAction], tags: &Pairs, wanted_tags: &Pairs, wanted: &[RuleAction]) {
    let (key, _) = secret_tag(String::new());
    if wanted_tags.get(&key).is_none() || wanted_tags.get(&key) != tags.get(&key) {
        return;
    }
    let secret = wanted.iter().find_map(|action| match action {
        RuleAction::AuthenticateOidc(oidc) => oidc.client_secret.clone(),
        _ => None,
    });
    for action in present {
        if let RuleAction::AuthenticateOidc(oidc) = action {
            oidc.client_secret.clone_from(&secret);
        }
    }
}
