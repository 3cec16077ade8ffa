//! What of a spec, or of the operator's options, keeps backups from being taken.

use super::super::retention;
use crate::api::DatabaseBackup;
use crate::api::databasebackup::Verify;
use crate::backup::age::Recipient;
use crate::backup::jobs::Settings;
use crate::controllers::schedule::Schedule;

/// The reason where the operator does not allow the S3 that is named.
pub const ENDPOINT_NOT_ALLOWED: &str = "EndpointNotAllowed";

/// What is asked for, as it is carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted {
    /// When backups are taken.
    pub schedule: Schedule,
    /// When they are proven; none where nobody asks for it.
    pub verify: Option<When>,
}

/// When backups are proven.
#[derive(Clone, Debug, PartialEq)]
pub enum When {
    /// When they are complete.
    AfterEach,
    /// Then, the newest ones.
    On(Schedule),
}

/// What is asked for; or a reason and a sentence that names the field and the fix.
pub fn accepted(object: &DatabaseBackup, settings: &Settings) -> Result<Accepted, (&'static str, String)> {
    let spec = &object.spec;
    // First: a mistake elsewhere must not let a schedule go on writing there.
    if let Some(endpoint) = spec.destination.endpoint.as_ref().filter(|it| !settings.endpoints.contains(it)) {
        let told = format!(
            "spec.destination.endpoint {endpoint} is not allowed: add it to the operator's option BACKUP_ENDPOINTS, or \
             leave it out"
        );
        return Err((ENDPOINT_NOT_ALLOWED, told));
    }
    let zone = spec.time_zone.as_deref();
    let read = |field: &str, text: &str| {
        Schedule::read(text, zone).map_err(|mistake| ("ScheduleInvalid", mistake.told(field, text)))
    };
    let schedule = read("spec.schedule", &spec.schedule)?;
    let verify = match &spec.verify {
        None => None,
        Some(Verify { schedule: Some(text), after_each: false }) => Some(When::On(read("spec.verify.schedule", text)?)),
        Some(Verify { schedule: None, after_each: true }) => Some(When::AfterEach),
        Some(_) => {
            let told = "spec.verify must have either schedule or afterEach: true";
            return Err(("VerifyInvalid", told.into()));
        }
    };
    if let Some(encryption) = &spec.encryption {
        for (index, key) in encryption.recipients.iter().enumerate() {
            let refused = |mistake| ("RecipientInvalid", format!("spec.encryption.recipients[{index}]: {mistake}"));
            key.parse::<Recipient>().map_err(refused)?;
        }
        if verify.is_some() && encryption.identity_secret_name.is_none() {
            let told = "spec.encryption.identitySecretName is needed for spec.verify: without a secret key no backup can \
                        be opened";
            return Err(("IdentityMissing", told.into()));
        }
    }
    if !retention::keeps_something(&spec.retention) {
        let told = "spec.retention keeps nothing: give at least one of keepLast, keepHourly, keepDaily, keepWeekly, \
                    keepMonthly, keepYearly and maxAge";
        return Err(("RetentionInvalid", told.into()));
    }
    if settings.role.is_none() {
        let told = "no IAM role for the Jobs: set the operator's option BACKUP_ROLE_ARN (see docs/databasebackup.md)";
        return Err(("RoleMissing", told.into()));
    }
    if settings.image.is_none() {
        let told = "no image for the Jobs: set the operator's option JOB_IMAGE to the operator's own image";
        return Err(("ImageMissing", told.into()));
    }
    Ok(Accepted { schedule, verify })
}
