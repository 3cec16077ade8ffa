//! Turns authentication on and off, changes root's password, and reports when no login works.

use kube::ResourceExt;

use causeway_api::etcdcluster::AuthStatus;
use causeway_databases::etcd::Password;
use causeway_databases::password::Emptied;
use causeway_runtime::consent::account::grant;
use causeway_runtime::consent::{ETCDCLUSTER, not_shared};
use causeway_runtime::{ConditionStatus, ExtraCondition};

use super::super::action::Action;
use super::super::auth::secrets::{Note, goes};
use super::super::auth::{Access, concerns, kept_secret, user_provided_secret};
use super::{CORRECTION_INTERVAL, Step, View, majority};

/// The longest password, in bytes: bcrypt, with which etcd hashes passwords, takes no more.
const LONGEST: usize = 72;

/// The reason while no login works.
const BROKEN: &str = "AuthBroken";

/// Explains what is wrong with the passwords, with the field and the fix.
pub fn complaint(view: &View<'_>) -> Option<(&'static str, String)> {
    let auth = &view.observed.auth;
    let (wanted, secret) = (view.object.spec.auth.enabled, user_provided_secret(view.object));
    if auth.denied {
        let description = format!(
            "spec.auth needs the right to get, create and patch Secrets, such as {secret}: bind the ClusterRole \
             causeway-database-secrets in this namespace ({})",
            grant(None, "causeway-database-secrets")
        );
        return Some(("SecretsDenied", description));
    }
    if auth.foreign {
        let description = format!(
            "spec.auth.enabled needs Secret {}, which belongs to another owner: delete it, or choose another metadata.name",
            kept_secret(view.object)
        );
        return Some(("NameTaken", description));
    }
    if !wanted {
        return None;
    }
    if auth.unshared {
        let namespace = view.object.namespace().unwrap_or_default();
        return Some(("SecretNotShared", format!("spec.auth: {}", not_shared(&namespace, &secret, ETCDCLUSTER.kind))));
    }
    match &auth.user_provided {
        None if view.object.spec.auth.secret_name.is_some() => {
            let description = format!("spec.auth.secretName: Secret {secret} has no key password: make it");
            Some(("PasswordMissing", description))
        }
        None if auth.emptied == Some(Emptied::Theirs) => Some(("PasswordMissing", Emptied::describe(&secret))),
        Some(Password(text)) if text.len() > LONGEST || text.contains(char::is_control) => {
            let description = format!("Secret {secret}: key password must have 1 to {LONGEST} bytes in one line");
            Some(("PasswordInvalid", description))
        }
        _ => None,
    }
}

/// The next step of authentication. None of these steps disturbs a member.
pub fn step(view: &View<'_>, accepted: bool) -> Option<Step> {
    let auth = &view.observed.auth;
    if !accepted {
        return None;
    }
    let via = || view.via();
    if !view.object.spec.auth.enabled {
        let via = via().filter(|_| matches!(auth.access, Access::With(_)))?;
        return Some(act(vec![Action::DisableAuth { via }], "turning authentication off"));
    }
    let (Some(user_provided), Some(kept)) = (&auth.user_provided, &auth.kept) else { return Some(prepare(view)) };
    let action = match (&auth.access, &kept.next) {
        (Access::With(works), Some(next)) if works == next => note(view, next, None),
        (Access::With(_), Some(next)) => Action::ChangePassword { password: next.clone(), via: via()? },
        (Access::With(_), None) if kept.current != *user_provided => note(view, &kept.current, Some(user_provided)),
        (Access::Free, next) if kept.current != *user_provided || next.is_some() => note(view, user_provided, None),
        (Access::Free, _) => {
            let root = Action::PrepareRoot { password: user_provided.clone(), via: via()? };
            return Some(act(vec![root, Action::EnableAuth { via: via()? }], "turning authentication on"));
        }
        (Access::With(_), None) if kept.goes != goes(view.object) => note(view, &kept.current, None),
        _ => return None,
    };
    Some(act(vec![action], "root gets the password that its Secret has"))
}

/// The step if no login works. Only another password in the Secret can change that, or a user who knows root's.
pub fn await_password(view: &View<'_>, accepted: bool) -> Option<Step> {
    let description = shut_out(view)?;
    let repair = match (&view.observed.auth.user_provided, &view.observed.auth.kept) {
        (user_provided, None) if accepted && (user_provided.is_some() || view.object.spec.auth.enabled) => {
            return Some(prepare(view));
        }
        // None of the recorded passwords works, so overwriting one of them loses nothing.
        (Some(user_provided), Some(kept)) if accepted && kept.passwords().all(|known| known != user_provided) => {
            note(view, &kept.current, Some(user_provided))
        }
        _ => return Some(Step { again: CORRECTION_INTERVAL, ..Step::stalled(BROKEN, description) }),
    };
    Some(act(vec![repair], "trying the password that the Secret has"))
}

/// Reports whether clients that have the password are let in, as the spec asks for.
pub fn is_settled(view: &View<'_>) -> bool {
    !view.object.spec.auth.enabled || matches!(view.observed.auth.access, Access::With(_))
}

/// Returns the part of the status about authentication: it is recorded from before the first step until clients need not log in
/// any more.
pub fn record(view: &View<'_>) -> Option<AuthStatus> {
    let before = || view.object.status.as_ref().and_then(|status| status.auth.clone());
    if view.object.spec.auth.enabled {
        let refused = view.observed.auth.denied || view.observed.auth.foreign;
        return if refused { before() } else { Some(AuthStatus { secret_name: kept_secret(view.object) }) };
    }
    before().filter(|_| view.observed.auth.access != Access::Free)
}

/// Reports whether the status must record that clients are to log in, before anything is done.
pub fn begins(view: &View<'_>) -> bool {
    let recorded = view.object.status.as_ref().is_some_and(|status| status.auth.is_some());
    !recorded && record(view).is_some()
}

/// Reports whether clients must log in; not reported while it is not known.
pub fn part(view: &View<'_>) -> Option<ExtraCondition> {
    let part = |status: ConditionStatus, reason: &'static str, message: String| {
        Some(ExtraCondition { type_: "AuthEnabled", status, reason, message })
    };
    if !concerns(view.object) || record(view).is_none() {
        return part(ConditionStatus::Absent, "NotAsked", String::new());
    }
    if let Some(description) = shut_out(view) {
        return part(ConditionStatus::False, BROKEN, description);
    }
    let secret = kept_secret(view.object);
    match &view.observed.auth.access {
        Access::With(_) => part(
            ConditionStatus::True,
            "Enabled",
            format!("clients must log in; root's password is in Secret {secret}"),
        ),
        Access::Free => part(ConditionStatus::False, "Enabling", "clients need not log in yet".into()),
        _ => None,
    }
}

/// Reports the majority by the members' statuses while no login works and the operator may not ask for the list of members.
pub fn quorate(view: &View<'_>) -> Option<ExtraCondition> {
    let description = shut_out(view)?;
    let led = view.observed.statuses.values().filter(|status| status.leader != 0).count();
    let known = view.observed.set.pods.len();
    let message = if view.observed.reserved.is_empty() {
        format!("{led} of {known} members have a leader; {description}")
    } else {
        format!("members require a login; {description}")
    };
    Some(ExtraCondition { type_: "Quorate", status: (led >= majority(known)).into(), reason: BROKEN, message })
}

fn shut_out(view: &View<'_>) -> Option<String> {
    let secret = user_provided_secret(view.object);
    match view.observed.auth.access {
        Access::Refused => Some(format!(
            "etcd does not take root's password, which was changed by hand: put the one that it has into Secret {secret} \
             (spec.auth; key password), or change it back (etcdctl --user root user passwd root)"
        )),
        Access::Locked if view.object.spec.auth.enabled => {
            Some(format!("etcd asks for a login: put root's password into Secret {secret} (spec.auth; key password)"))
        }
        Access::Locked => Some(
            "authentication was turned on by hand: set spec.auth.enabled, and spec.auth.secretName to a Secret with root's \
             password in key password; or turn it off (etcdctl --user root auth disable)"
                .into(),
        ),
        _ => None,
    }
}

/// Makes the Secrets, one after the other, or fills those that a user emptied.
fn prepare(view: &View<'_>) -> Step {
    let action = match &view.observed.auth.user_provided {
        None => {
            let known = view.observed.auth.kept.as_ref().map(|kept| kept.current.clone());
            let before = view.observed.auth.emptied.as_ref().and_then(Emptied::version).cloned();
            Action::MakePassword { secret: user_provided_secret(view.object), known, before }
        }
        Some(user_provided) => note(view, user_provided, None),
    };
    act(vec![action], "making root's password")
}

fn note(view: &View<'_>, current: &Password, next: Option<&Password>) -> Action {
    let auth = &view.observed.auth;
    let version = auth.kept.as_ref().map(|kept| &kept.version).or(auth.kept_emptied.as_ref()).cloned();
    Action::NotePassword(Note { version, current: current.clone(), next: next.cloned(), goes: goes(view.object) })
}

fn act(actions: Vec<Action>, description: &str) -> Step {
    Step::act(actions, "ChangingAuth", description)
}
