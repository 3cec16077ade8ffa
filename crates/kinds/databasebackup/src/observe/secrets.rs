//! Asks which Secrets agree to be used.

use kube::ResourceExt;

use causeway_api::DatabaseBackup;
use causeway_backup::jobs::SecretMount;
use causeway_backup::transfer;
use causeway_runtime::consent::{self, Consent, DATABASEBACKUP, SECRET_MISSING};

use super::super::databases::databases;
use super::super::error::Error;
use super::super::facts::{Observed, Withheld};
use super::Observer;

/// To what a Secret must agree. With `hooks`, the Secret of the login must agree to them: they run as that login.
fn consent_of(mount: &SecretMount, hooks: bool) -> &Consent {
    let is_login = mount.field.as_ref().is_some_and(|field| field.ends_with(".authSecretName"));
    if hooks && is_login { &Consent::Hooks } else { &mount.consent }
}

impl Observer {
    /// Sorts the databases: those whose Secrets may be used, those of which one may not, and those that have not come up.
    pub(super) async fn look_at_secrets(&self, object: &DatabaseBackup, observed: &mut Observed) -> Result<(), Error> {
        let namespace = object.namespace().unwrap_or_default();
        let databases = databases(object, self.watches.clusters.all(), self.watches.redises.all());
        let encryption = object.spec.encryption.as_ref().filter(|_| object.spec.verify.is_some());
        let identity = encryption.and_then(|it| Some((it.identity_secret_name.as_deref()?, &Consent::Named)));
        let mounts = databases.iter().flat_map(|(_, database)| &database.access.mounts);
        let hooks = object.spec.hooks.as_ref().is_some_and(|hooks| !hooks.is_empty());
        let asked = mounts.map(|mount| (mount.secret.as_str(), consent_of(mount, hooks))).chain(identity);
        let answers = consent::refusals(&self.client, &namespace, DATABASEBACKUP, asked).await;
        let mut answers = answers.map_err(|source| transfer::Error::Read { what: "Secrets", source })?.into_iter();
        for (came_up, database) in databases {
            let mounts = &database.access.mounts;
            let answered: Vec<_> = answers.by_ref().take(mounts.len()).collect();
            match mounts.iter().zip(answered).find_map(|(mount, refusal)| Some((mount, refusal?))) {
                None if came_up => observed.sources.push(database),
                None => observed.starting.push(database),
                // The Secrets of a database are made as it comes up, so a missing one is no refusal yet.
                Some((_, refusal)) if !came_up && refusal.reason == SECRET_MISSING => observed.starting.push(database),
                Some((mount, mut refusal)) => {
                    if let Some(field) = &mount.field {
                        refusal.message = format!("spec.source.{field}: {}", refusal.message);
                    }
                    observed.withheld.push(Withheld { database, refusal });
                }
            }
        }
        observed.identity_refused = answers.flatten().next();
        Ok(())
    }
}
