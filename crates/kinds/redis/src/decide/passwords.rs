//! Decides who may log in. A changed password takes effect in running processes, and the previous one stays valid.

use kube::ResourceExt;

use causeway_databases::ChildAction;
use causeway_databases::password::Emptied;
use causeway_databases::redis::Login;
use causeway_runtime::consent::{REDIS, not_shared};

use super::super::action::Action;
use super::super::facts::{SecretString, Users};
use super::super::{names, resources};
use super::{Step, View};

/// The longest password, in bytes: a longer one is a mistake.
const LONGEST: usize = 512;

/// Explains what is wrong with the passwords, with the field and the fix.
pub fn complaint(view: &View<'_>) -> Option<(&'static str, String)> {
    if !view.object.spec.auth.enabled {
        return None;
    }
    let passwords = &view.observed.passwords;
    let named = view.object.spec.auth.secret_name.as_ref();
    let secret = named.cloned().unwrap_or_else(|| names::password(view.object));
    if passwords.denied {
        let message = format!(
            "spec.auth.enabled needs Secrets: bind the ClusterRole causeway-database-secrets in this namespace to the operator \
             (docs/redis.md), or remove spec.auth (Secret {secret})"
        );
        return Some(("SecretsDenied", message));
    }
    if passwords.unshared {
        let namespace = view.object.namespace().unwrap_or_default();
        let message = format!("spec.auth: {}", not_shared(&namespace, &secret, REDIS.kind));
        return Some(("SecretNotShared", message));
    }
    match &passwords.user_provided {
        None if named.is_some() => {
            Some(("PasswordMissing", format!("spec.auth.secretName: Secret {secret} has no key password: make it")))
        }
        None if passwords.emptied == Some(Emptied::Theirs) => Some(("PasswordMissing", Emptied::describe(&secret))),
        Some(SecretString(text)) if text.is_empty() || text.len() > LONGEST || text.contains(char::is_control) => {
            let message = format!("Secret {secret}: key password must have 1 to {LONGEST} characters in one line");
            Some(("PasswordInvalid", message))
        }
        _ => None,
    }
}

/// Passwords and users that are to be made, before anything that needs them.
pub fn step(view: &View<'_>) -> Option<Step> {
    if !view.object.spec.auth.enabled {
        return None;
    }
    let passwords = &view.observed.passwords;
    let action = match (&passwords.user_provided, &passwords.users) {
        (None, _) => {
            let before = passwords.emptied.as_ref().and_then(Emptied::version).cloned();
            Action::MakePassword { secret: names::password(view.object), before }
        }
        (Some(user_provided), None) => {
            Action::MakeUsers { secret: names::users(view.object), hash: resources::hash(&user_provided.0) }
        }
        (Some(_), Some(known)) => {
            let wanted = users(view).filter(|wanted| wanted != known || passwords.users_lost)?;
            ChildAction::Apply { child: Box::new(resources::users_secret(view.object, &wanted)), uid: None }.into()
        }
    };
    Some(Step::act(vec![action], "Configuring", "users are made for the password of clients"))
}

/// The users as they should be.
pub fn users(view: &View<'_>) -> Option<Users> {
    let passwords = &view.observed.passwords;
    let known = passwords.users.clone()?;
    let hash = passwords.user_provided.as_ref().map(|user_provided| resources::hash(&user_provided.0));
    // Pods that were made before `spec.sentinel` was removed still read its password.
    let sentinel = known.sentinel || view.object.spec.sentinel.is_some();
    let known = Users { exporter: true, sentinel, ..known };
    match hash {
        Some(hash) if hash != known.current => Some(Users { previous: Some(known.current), current: hash, ..known }),
        _ => Some(known),
    }
}

/// The user as which replicas log in to their master.
pub fn internal(view: &View<'_>) -> Option<Login> {
    let users = view.observed.passwords.users.as_ref().filter(|_| view.object.spec.auth.enabled)?;
    Some(Login { user: names::INTERNAL_USER.into(), password: users.internal.0.clone() })
}
