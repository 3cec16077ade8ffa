//! The operator's settings for backups, and where backups go.

use causeway_api::databasebackup::Destination;
use causeway_runtime::fingerprint;

use super::egress::Egress;
use super::regions::REGIONS;
use crate::plan;

/// Characters of the longest name of a bucket.
/// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html>
const LONGEST_BUCKET: usize = 63;
/// The placeholder for a Job's namespace in the ARN of its role.
const NAMESPACE: &str = "{namespace}";

/// The operator's settings for backups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Name of this cluster in tags.
    pub cluster: String,
    /// The bucket of objects that name none; without it, the bucket is named after cluster, account and region.
    pub bucket: Option<String>,
    /// How Jobs authenticate to AWS.
    pub identity: Option<Identity>,
    /// Name of Causeway's own image.
    pub image: Option<String>,
    /// AWS region of the operator.
    pub region: String,
    /// The endpoint at which the operator reaches AWS, if that is not AWS' own.
    pub aws_endpoint: Option<String>,
    /// How else it reaches AWS.
    pub egress: Egress,
    /// Endpoints of other S3 that objects may name.
    pub endpoints: Vec<String>,
    /// Regions that are newer than this version.
    pub regions: Vec<String>,
    /// The operator's own namespace, where it records the backups that it knows of: tenants cannot write there.
    pub namespace: String,
}

/// How Jobs authenticate to AWS. What they may do there depends on their namespace in either way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// By a token of their service account, with which they assume the role of this ARN. `{namespace}` in it stands for
    /// their namespace.
    /// <https://docs.aws.amazon.com/eks/latest/userguide/iam-roles-for-service-accounts.html>
    WebIdentity(String),
    /// EKS Pod Identity: EKS gives them credentials, whose session tags name the namespace.
    /// <https://docs.aws.amazon.com/eks/latest/userguide/pod-id-abac.html>
    PodIdentity,
}

impl Identity {
    /// ARN of the role that Jobs of a namespace assume; none if EKS does that for them.
    #[must_use]
    pub fn role_in(&self, namespace: &str) -> Option<String> {
        match self {
            Self::WebIdentity(arn) => Some(arn.replace(NAMESPACE, namespace)),
            Self::PodIdentity => None,
        }
    }

    /// Reports whether Jobs of all namespaces have one role, which then cannot tell them apart.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::WebIdentity(arn) if !arn.contains(NAMESPACE))
    }
}

impl Settings {
    /// The bucket of an object.
    #[must_use]
    pub fn bucket_of(&self, destination: &Destination, account: &str) -> String {
        let named = destination.bucket.clone().or_else(|| self.bucket.clone());
        named.unwrap_or_else(|| usual_bucket(&self.cluster, account, self.region_of(destination)))
    }

    /// The region of an object's bucket.
    #[must_use]
    pub fn region_of<'a>(&'a self, destination: &'a Destination) -> &'a str {
        destination.region.as_deref().unwrap_or(&self.region)
    }

    /// Reports whether there is a region of that name at AWS, as far as this version and the operator's options know.
    #[must_use]
    pub fn knows_region(&self, region: &str) -> bool {
        self.known_regions().any(|it| it == region)
    }

    fn known_regions(&self) -> impl Iterator<Item = &str> {
        let own = [&self.region].into_iter().chain(&self.regions).map(String::as_str);
        own.chain(REGIONS)
    }

    /// The region of the bucket of that name, where it is one of objects that name none: of all namespaces.
    #[must_use]
    pub fn region_of_default(&self, bucket: &str, account: &str) -> Option<&str> {
        if self.bucket.as_deref() == Some(bucket) {
            return Some(&self.region);
        }
        self.known_regions().find(|region| usual_bucket(&self.cluster, account, region) == bucket)
    }

    /// The destination in the plan of a Job.
    #[must_use]
    pub fn place(&self, destination: &Destination, bucket: &str, account: &str, prefix: &str) -> plan::Destination {
        plan::Destination {
            bucket: bucket.to_owned(),
            owner: account.to_owned(),
            region: self.region_of(destination).to_owned(),
            endpoint: destination.endpoint.clone(),
            prefix: prefix.to_owned(),
            storage_class: destination.storage_class.clone(),
            kms_key: destination.kms_key_id.clone(),
            bucket_encrypts: false,
        }
    }
}

/// Returns the prefix of all keys of an object, without a slash at the end. The namespace comes before all that its users
/// choose, because rights in S3 are given by it. The uid separates the backups from those of an earlier object of the same
/// name.
#[must_use]
pub fn prefix_of(destination: &Destination, namespace: &str, name: &str, uid: &str) -> String {
    let chosen = destination.prefix.iter().map(String::as_str);
    [namespace].into_iter().chain(chosen).chain([name, uid]).collect::<Vec<_>>().join("/")
}

/// Reports whether a prefix stays where it is put: S3 takes `..` literally, but programs and other S3 may not.
#[must_use]
pub fn is_plain(prefix: &str) -> bool {
    prefix.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// `causeway-<cluster>-<account>-<region>`, made a valid name. If it had to be changed, a hash keeps it unique.
fn usual_bucket(cluster: &str, account: &str, region: &str) -> String {
    let words = cluster.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let valid = words.collect::<Vec<_>>().join("-").to_ascii_lowercase();
    let whole = format!("causeway-{valid}-{account}-{region}");
    if valid == cluster && whole.len() <= LONGEST_BUCKET {
        return whole;
    }
    let end = format!("{}-{account}-{region}", fingerprint(&[cluster.as_bytes()], 8));
    let room = LONGEST_BUCKET.saturating_sub("causeway--".len() + end.len());
    let short: String = valid.chars().take(room).collect();
    let parts = ["causeway", short.trim_end_matches('-'), end.as_str()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_called_after_cluster_account_and_region() {
        assert_eq!(usual_bucket("prod", "111122223333", "eu-west-1"), "causeway-prod-111122223333-eu-west-1");
    }

    #[test]
    fn every_cluster_has_a_valid_bucket_name_of_its_own() {
        let clusters = ["prod/eu", "prod:eu", "PROD-eu", &"x".repeat(100), &format!("{}y", "x".repeat(99)), "-", "_@_"];
        let mut names: Vec<String> =
            clusters.iter().map(|cluster| usual_bucket(cluster, "111122223333", "ap-southeast-1")).collect();
        for name in &names {
            assert!((3..=63).contains(&name.len()), "{name}");
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "{name}");
            assert!(!name.contains("--") && !name.ends_with('-'), "{name}");
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), clusters.len(), "{names:?}");
    }

    #[test]
    fn default_buckets_are_known_in_every_region() {
        let mut settings = Settings { cluster: "prod".into(), region: "eu-new-1".into(), ..Settings::default() };
        settings.regions = vec!["eu-newer-1".into()];
        let region = |settings: &Settings, bucket: &str| settings.region_of_default(bucket, "1").map(str::to_owned);
        for known in ["eu-west-1", "eu-new-1", "eu-newer-1"] {
            assert_eq!(region(&settings, &format!("causeway-prod-1-{known}")).as_deref(), Some(known));
            assert!(settings.knows_region(known), "{known}");
        }
        for other in ["causeway-prod-1-locked", "causeway-prod-2-eu-west-1", "causeway-other-1-eu-west-1", "shop"] {
            assert_eq!(region(&settings, other), None, "{other}");
        }
        assert!(!settings.knows_region("eu-nowhere-1"));
        settings.bucket = Some("shared".into());
        assert_eq!(region(&settings, "shared").as_deref(), Some("eu-new-1"));
        settings.cluster = "PROD/eu".into();
        let usual = usual_bucket("PROD/eu", "1", "ap-southeast-1");
        assert_eq!(region(&settings, &usual).as_deref(), Some("ap-southeast-1"), "{usual}");
    }

    #[test]
    fn a_spec_overrides_the_operators_options() {
        let mut settings = Settings { cluster: "prod".into(), region: "eu-west-1".into(), ..Settings::default() };
        let mut destination = Destination::default();
        assert_eq!(settings.bucket_of(&destination, "1"), "causeway-prod-1-eu-west-1");
        settings.bucket = Some("shared".into());
        assert_eq!(settings.bucket_of(&destination, "1"), "shared");
        destination.bucket = Some("mine".into());
        assert_eq!(settings.bucket_of(&destination, "1"), "mine");
        destination.prefix = Some("team-a/db".into());
        assert_eq!(prefix_of(&destination, "shop", "nightly", "u1"), "shop/team-a/db/nightly/u1");
        assert_eq!(prefix_of(&Destination::default(), "shop", "nightly", "u1"), "shop/nightly/u1");
    }

    #[test]
    fn keys_stay_in_the_namespace_with_any_prefix() {
        for prefix in ["bank", "bank/nightly", "..", "../bank", "*", "a/../../bank"] {
            let destination = Destination { prefix: Some(prefix.into()), ..Destination::default() };
            let keys = prefix_of(&destination, "shop", "nightly", "u1");
            assert!(keys.starts_with("shop/"), "{keys}");
        }
        for plain in ["team-a", "team-a/db", "a..b", "...", ".hidden"] {
            assert!(is_plain(plain), "{plain}");
        }
        for other in ["", ".", "..", "../bank", "a/../b", "a/.", "a//b", "/a", "a/"] {
            assert!(!is_plain(other), "{other}");
        }
    }

    #[test]
    fn each_namespace_has_its_role_if_the_arn_says_so() {
        let each = Identity::WebIdentity("arn:aws:iam::111122223333:role/causeway-backup-{namespace}".into());
        assert_eq!(each.role_in("shop").as_deref(), Some("arn:aws:iam::111122223333:role/causeway-backup-shop"));
        assert!(!each.is_shared());
        let one = Identity::WebIdentity("arn:aws:iam::111122223333:role/jobs".into());
        assert_eq!(one.role_in("shop").as_deref(), Some("arn:aws:iam::111122223333:role/jobs"));
        assert!(one.is_shared());
        assert_eq!((Identity::PodIdentity.role_in("shop"), Identity::PodIdentity.is_shared()), (None, false));
    }
}
