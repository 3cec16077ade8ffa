//! Calls about buckets: their settings, and hardening them.

use aws_sdk_s3::types::{
    BucketLifecycleConfiguration, BucketLocationConstraint, CreateBucketConfiguration, ObjectOwnership,
    OwnershipControls, OwnershipControlsRule, PublicAccessBlockConfiguration, ServerSideEncryption,
    ServerSideEncryptionByDefault, ServerSideEncryptionConfiguration, ServerSideEncryptionRule, Tag, Tagging,
};

use causeway_runtime::Class;

use super::bucket_facts::{BucketFacts, Found};
use super::keeping::Keeping;
use super::{Outcome, Place, S3, Tags, built, if_set};

/// The region of buckets that name no region.
const FIRST_REGION: &str = "us-east-1";

impl S3 {
    /// Reads the tags of a bucket, and everything else if `all` says so for these tags.
    pub async fn bucket(&self, place: &Place, owner: &str, all: impl Fn(&Tags) -> bool) -> Outcome<Found> {
        let (client, caller) = (self.client(place), self.caller());
        let call = client.get_bucket_tagging().bucket(&place.bucket).expected_bucket_owner(owner);
        let tags: Tags = match caller.call("GetBucketTagging", call.send()).await {
            Ok(answer) => answer.tag_set.into_iter().map(|tag| (tag.key, tag.value)).collect(),
            Err(error) if error.is("NoSuchTagSet") => Tags::new(),
            Err(error) if error.is("NoSuchBucket") => return Ok(Found::Absent),
            Err(error) if error.is("AccessDenied") => return Ok(Found::Forbidden(error.message)),
            Err(error) if error.class == Class::Invalid => return Ok(Found::Invalid(error.to_string())),
            Err(error) => return Err(error),
        };
        if !all(&tags) {
            let empty = tags.is_empty() && self.is_empty(place, owner).await?;
            let keeping = if tags.is_empty() { Keeping::default() } else { self.read_keeping(place, owner).await? };
            return Ok(Found::There(Box::new(BucketFacts { tags, empty, keeping, ..BucketFacts::default() })));
        }
        let keeping = self.read_keeping(place, owner).await?;
        let block = client.get_public_access_block().bucket(&place.bucket).expected_bucket_owner(owner);
        let block = if_set(caller.call("GetPublicAccessBlock", block.send()).await)?;
        let controls = client.get_bucket_ownership_controls().bucket(&place.bucket).expected_bucket_owner(owner);
        let controls = if_set(caller.call("GetBucketOwnershipControls", controls.send()).await)?;
        let encryption = client.get_bucket_encryption().bucket(&place.bucket).expected_bucket_owner(owner);
        let encryption = if_set(caller.call("GetBucketEncryption", encryption.send()).await)?;
        let policy = client.get_bucket_policy().bucket(&place.bucket).expected_bucket_owner(owner);
        let policy = if_set(caller.call("GetBucketPolicy", policy.send()).await)?;
        let rules = client.get_bucket_lifecycle_configuration().bucket(&place.bucket).expected_bucket_owner(owner);
        let rules = if_set(caller.call("GetBucketLifecycleConfiguration", rules.send()).await)?;
        let encryption = encryption.and_then(|answer| answer.server_side_encryption_configuration);
        let ownership = controls.and_then(|answer| answer.ownership_controls);
        Ok(Found::There(Box::new(BucketFacts {
            tags,
            empty: false,
            private: block.and_then(|answer| answer.public_access_block_configuration).as_ref()
                == Some(&access_block()),
            owner_enforced: ownership.is_some() && ownership == ownership_controls(),
            encryption: encryption.and_then(|it| it.rules.into_iter().next()).and_then(algorithm_of),
            policy: policy.and_then(|answer| serde_json::from_str(&answer.policy?).ok()),
            rules: rules.and_then(|answer| answer.rules).unwrap_or_default(),
            keeping,
        })))
    }

    /// Creates a bucket with these tags. They are part of the call if this S3 supports that. Otherwise the bucket
    /// begins without tags, and such a bucket is taken up again as its creator left it.
    pub async fn create_bucket(&self, place: &Place, tags: &Tags) -> Outcome<()> {
        let set = tag_set(tags);
        match self.create_tagged(place, Some(set)).await {
            Err(error) if error.is("MalformedXML") => self.create_tagged(place, None).await,
            outcome => outcome,
        }
    }

    async fn create_tagged(&self, place: &Place, tags: Option<Vec<Tag>>) -> Outcome<()> {
        let location = (place.region != FIRST_REGION).then(|| BucketLocationConstraint::from(place.region.as_str()));
        let configured = location.is_some() || tags.is_some();
        let configuration =
            CreateBucketConfiguration::builder().set_location_constraint(location).set_tags(tags).build();
        let call = self
            .client(place)
            .create_bucket()
            .bucket(&place.bucket)
            .object_ownership(ObjectOwnership::BucketOwnerEnforced)
            .set_create_bucket_configuration(configured.then_some(configuration));
        match self.caller().call("CreateBucket", call.send()).await {
            Err(error) if error.is("BucketAlreadyOwnedByYou") => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    /// Replaces the tags of a bucket.
    pub async fn tag_bucket(&self, place: &Place, owner: &str, tags: &Tags) -> Outcome<()> {
        let tagging = built("PutBucketTagging", Tagging::builder().set_tag_set(Some(tag_set(tags))).build())?;
        let call = self.client(place).put_bucket_tagging().bucket(&place.bucket).expected_bucket_owner(owner);
        self.caller().call("PutBucketTagging", call.tagging(tagging).send()).await.map(drop)
    }

    /// Blocks all public access.
    pub async fn block_public_access(&self, place: &Place, owner: &str) -> Outcome<()> {
        let call = self.client(place).put_public_access_block().bucket(&place.bucket).expected_bucket_owner(owner);
        let call = call.public_access_block_configuration(access_block());
        self.caller().call("PutPublicAccessBlock", call.send()).await.map(drop)
    }

    /// Makes access control lists not count.
    pub async fn enforce_owner(&self, place: &Place, owner: &str) -> Outcome<()> {
        let call = self.client(place).put_bucket_ownership_controls().bucket(&place.bucket);
        let call = call.expected_bucket_owner(owner).set_ownership_controls(ownership_controls());
        self.caller().call("PutBucketOwnershipControls", call.send()).await.map(drop)
    }

    /// Makes S3's own keys the default encryption.
    pub async fn encrypt(&self, place: &Place, owner: &str) -> Outcome<()> {
        let default = ServerSideEncryptionByDefault::builder().sse_algorithm(ServerSideEncryption::Aes256).build();
        let rule = ServerSideEncryptionRule::builder()
            .apply_server_side_encryption_by_default(built("PutBucketEncryption", default)?)
            .build();
        let configuration = ServerSideEncryptionConfiguration::builder().rules(rule).build();
        let configuration = built("PutBucketEncryption", configuration)?;
        let call = self.client(place).put_bucket_encryption().bucket(&place.bucket).expected_bucket_owner(owner);
        let call = call.server_side_encryption_configuration(configuration);
        self.caller().call("PutBucketEncryption", call.send()).await.map(drop)
    }

    /// Denies access without TLS, and overwriting. The other statements of the policy stay.
    pub async fn guard(&self, place: &Place, owner: &str, facts: &BucketFacts) -> Outcome<()> {
        let policy = facts.guarding_policy(&place.bucket).to_string();
        let call = self.client(place).put_bucket_policy().bucket(&place.bucket).expected_bucket_owner(owner);
        self.caller().call("PutBucketPolicy", call.policy(policy).send()).await.map(drop)
    }

    /// Aborts uploads that are never completed. Other lifecycle rules stay.
    pub async fn abort_uploads(&self, place: &Place, owner: &str, facts: &BucketFacts) -> Outcome<()> {
        let rules = BucketLifecycleConfiguration::builder().set_rules(Some(facts.rules_with_abort())).build();
        let rules = built("PutBucketLifecycleConfiguration", rules)?;
        let call = self.client(place).put_bucket_lifecycle_configuration().bucket(&place.bucket);
        let call = call.expected_bucket_owner(owner).lifecycle_configuration(rules);
        self.caller().call("PutBucketLifecycleConfiguration", call.send()).await.map(drop)
    }

    /// Deletes a bucket. S3 refuses that if something is in it.
    pub async fn delete_bucket(&self, place: &Place, owner: &str) -> Outcome<()> {
        let call = self.client(place).delete_bucket().bucket(&place.bucket).expected_bucket_owner(owner);
        match self.caller().call("DeleteBucket", call.send()).await {
            Err(error) if error.is("NoSuchBucket") => Ok(()),
            outcome => outcome.map(drop),
        }
    }
}

fn tag_set(tags: &Tags) -> Vec<Tag> {
    tags.iter().filter_map(|(key, value)| Tag::builder().key(key).value(value).build().ok()).collect()
}

fn access_block() -> PublicAccessBlockConfiguration {
    PublicAccessBlockConfiguration::builder()
        .block_public_acls(true)
        .ignore_public_acls(true)
        .block_public_policy(true)
        .restrict_public_buckets(true)
        .build()
}

fn ownership_controls() -> Option<OwnershipControls> {
    let rule = OwnershipControlsRule::builder().object_ownership(ObjectOwnership::BucketOwnerEnforced).build().ok()?;
    OwnershipControls::builder().rules(rule).build().ok()
}

fn algorithm_of(rule: ServerSideEncryptionRule) -> Option<String> {
    rule.apply_server_side_encryption_by_default.map(|default| default.sse_algorithm.to_string())
}
