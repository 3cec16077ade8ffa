//! Checks a spec and the operator's options for mistakes that keep backups from being taken.

use causeway_api::DatabaseBackup;
use causeway_api::databasebackup::Verify;
use causeway_backup::age::Recipient;
use causeway_backup::jobs::{Settings, is_plain};
use causeway_runtime::schedule::Schedule;

use super::retention;

/// The reason where the operator does not allow the S3 endpoint.
pub const ENDPOINT_NOT_ALLOWED: &str = "EndpointNotAllowed";

/// The reason where the prefix of keys has a part that may lead elsewhere, such as `..`.
pub const PREFIX_INVALID: &str = "PrefixInvalid";

/// The schedules of a spec without mistakes.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted {
    /// When backups are taken.
    pub schedule: Schedule,
    /// When they are proven; none where the spec does not ask for it.
    pub verify: Option<When>,
}

/// When backups are proven.
#[derive(Clone, Debug, PartialEq)]
pub enum When {
    /// Each backup, when it is complete.
    AfterEach,
    /// The newest backup of each database, by this schedule.
    On(Schedule),
}

/// The schedules; or a reason, and a message that names the field and the fix.
pub fn accepted(object: &DatabaseBackup, settings: &Settings) -> Result<Accepted, (&'static str, String)> {
    let spec = &object.spec;
    // This comes first: another mistake does not suspend the schedule, which would go on writing to a denied endpoint.
    if let Some(endpoint) = spec.destination.endpoint.as_ref().filter(|it| !settings.endpoints.contains(it)) {
        let message = format!(
            "spec.destination.endpoint {endpoint} is not allowed: add it to the operator's option BACKUP_ENDPOINTS, or \
             leave it out"
        );
        return Err((ENDPOINT_NOT_ALLOWED, message));
    }
    if let Some(prefix) = spec.destination.prefix.as_ref().filter(|it| !is_plain(it)) {
        let message = format!(
            "spec.destination.prefix {prefix} has a part that is empty, . or ..: make another DatabaseBackup with a plain \
             prefix"
        );
        return Err((PREFIX_INVALID, message));
    }
    in_a_region(object, settings)?;
    let zone = spec.time_zone.as_deref();
    let read = |field: &str, text: &str| {
        Schedule::read(text, zone).map_err(|mistake| ("ScheduleInvalid", mistake.describe(field, text)))
    };
    let schedule = read("spec.schedule", &spec.schedule)?;
    let verify = match &spec.verify {
        None => None,
        Some(Verify { schedule: Some(text), after_each: false }) => Some(When::On(read("spec.verify.schedule", text)?)),
        Some(Verify { schedule: None, after_each: true }) => Some(When::AfterEach),
        Some(_) => {
            let message = "spec.verify must have either schedule or afterEach: true";
            return Err(("VerifyInvalid", message.into()));
        }
    };
    if let Some(encryption) = &spec.encryption {
        for (index, key) in encryption.recipients.iter().enumerate() {
            let refused = |mistake| ("RecipientInvalid", format!("spec.encryption.recipients[{index}]: {mistake}"));
            key.parse::<Recipient>().map_err(refused)?;
        }
        if verify.is_some() && encryption.identity_secret_name.is_none() {
            let message = "spec.encryption.identitySecretName is needed for spec.verify: without a secret key no backup can \
                        be opened";
            return Err(("IdentityMissing", message.into()));
        }
    }
    if !retention::keeps_something(&spec.retention) && !retention::follows_base_backups(object) {
        let message = "spec.retention keeps nothing: give at least one of keepLast, keepHourly, keepDaily, keepWeekly, \
                    keepMonthly, keepYearly and maxAge";
        return Err(("RetentionInvalid", message.into()));
    }
    if settings.identity.is_none() {
        let message = "no IAM role for the Jobs: set the operator's option BACKUP_ROLE_ARN or BACKUP_POD_IDENTITY (see \
                       docs/databasebackup.md)";
        return Err(("RoleMissing", message.into()));
    }
    if settings.image.is_none() {
        let message = "no image for the Jobs: set the operator's option JOB_IMAGE to the operator's own image";
        return Err(("ImageMissing", message.into()));
    }
    Ok(Accepted { schedule, verify })
}

/// Checks that the bucket's region exists, and that the KMS key is in the same region.
fn in_a_region(object: &DatabaseBackup, settings: &Settings) -> Result<(), (&'static str, String)> {
    let destination = &object.spec.destination;
    // Another S3 names its regions as it likes, and has no KMS keys.
    if destination.endpoint.is_some() {
        return Ok(());
    }
    let region = settings.region_of(destination);
    if !settings.knows_region(region) {
        let message = format!(
            "spec.destination.region {region} is no region of AWS that this version knows: make another DatabaseBackup with a \
             region that there is, or, where {region} is new, add it to the operator's option BACKUP_REGIONS"
        );
        return Err(("RegionUnknown", message));
    }
    // arn:aws:kms:REGION:ACCOUNT:key/ID
    let key = destination.kms_key_id.as_ref().and_then(|arn| Some((arn, arn.split(':').nth(3)?)));
    match key.filter(|(_, of)| *of != region) {
        None => Ok(()),
        Some((arn, of)) => {
            let message = format!(
                "spec.destination.kmsKeyId {arn} is a key of {of}, and the bucket is in {region}: S3 uses keys of the \
                 bucket's region only"
            );
            Err(("KmsKeyInvalid", message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{backup, observed};
    use super::*;

    #[test]
    fn only_allowed_endpoints_are_called() {
        let (mut object, mut settings) = (backup(), observed().settings);
        settings.endpoints = vec!["https://minio.example.com".into()];
        for (endpoint, is_allowed) in [
            ("https://minio.example.com", true),
            // The instance metadata service, which hands out the node's credentials.
            ("http://169.254.169.254", false),
            ("http://[fd00:ec2::254]", false),
            ("http://minio.example.com", false),
            ("https://minio.example.com.attacker.example", false),
            ("https://minio.example.com:444", false),
        ] {
            object.spec.destination.endpoint = Some(endpoint.into());
            let answer = accepted(&object, &settings);
            assert_eq!(answer.is_ok(), is_allowed, "{endpoint}: {answer:?}");
            assert!(answer.is_ok() || answer.is_err_and(|(reason, _)| reason == ENDPOINT_NOT_ALLOWED), "{endpoint}");
        }
    }

    #[test]
    fn unknown_regions_and_foreign_kms_keys_are_refused() {
        let (mut object, mut settings) = (backup(), observed().settings);
        let refusal = |object: &DatabaseBackup, settings: &Settings| accepted(object, settings).err();
        let mut refused = |region: Option<&str>, key: Option<&str>, settings: &Settings| {
            object.spec.destination.region = region.map(str::to_owned);
            let arn = |region: &str| format!("arn:aws:kms:{region}:111122223333:key/1234abcd");
            object.spec.destination.kms_key_id = key.map(arn);
            refusal(&object, settings)
        };
        for (region, key) in [(None, None), (Some("us-east-2"), Some("us-east-2")), (None, Some("eu-west-1"))] {
            assert_eq!(refused(region, key, &settings), None, "{region:?} {key:?}");
        }
        let (reason, message) = refused(Some("eu-nowhere-1"), None, &settings).expect("a refusal");
        assert!(reason == "RegionUnknown" && message.contains("spec.destination.region eu-nowhere-1"), "{message}");
        for region in [None, Some("eu-central-1")] {
            let (reason, message) = refused(region, Some("us-east-1"), &settings).expect("a refusal");
            assert!(reason == "KmsKeyInvalid" && message.contains("is a key of us-east-1"), "{message}");
        }
        settings.regions = vec!["eu-nowhere-1".into()];
        assert_eq!(refused(Some("eu-nowhere-1"), None, &settings), None, "it is new");
        let own = Settings { region: "eu-new-1".into(), ..settings };
        assert_eq!(refused(None, None, &own), None, "the operator is there itself");
    }
}
