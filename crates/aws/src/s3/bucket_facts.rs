//! The settings of a bucket, as they are and as they are to be: plain data.

use aws_sdk_s3::types::{AbortIncompleteMultipartUpload, ExpirationStatus, LifecycleRule, LifecycleRuleFilter};
use serde_json::{Value, json};

use super::Tags;
use super::keeping::Keeping;

/// Name of the rule that aborts uploads that are never completed.
const RULE: &str = "causeway-abort-incomplete-uploads";
/// Days after which the rule does so.
const DAYS: i32 = 7;
/// Name of the statement that denies access without TLS.
const ONLY_BY_TLS: &str = "CausewayOnlyByTls";
/// Name of the statement that denies overwriting.
const WRITE_ONCE: &str = "CausewayWriteOnce";

/// The answer to a look at the bucket of that name.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// There is no such bucket.
    Absent,
    /// It belongs to another account, or we may not look at it; AWS's message.
    Forbidden(String),
    /// It is in another region, or the name is not allowed; AWS's message.
    Invalid(String),
    /// It is there, and we may look at it.
    There(Box<BucketFacts>),
}

/// The settings of a bucket.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BucketFacts {
    /// The tags by key.
    pub tags: Tags,
    /// True if nothing is in it; not checked if it has tags.
    pub empty: bool,
    /// True if all four kinds of public access are blocked.
    pub private: bool,
    /// True if its owner owns everything in it, and access control lists do not count.
    pub owner_enforced: bool,
    /// The algorithm that encrypts its objects by default.
    pub encryption: Option<String>,
    /// The policy, if it has one.
    pub policy: Option<Value>,
    /// The lifecycle rules, including those of others.
    pub rules: Vec<LifecycleRule>,
    /// The versions that it keeps, and their locks; not checked if it has no tags.
    pub keeping: Keeping,
}

impl BucketFacts {
    /// Returns true if uploads that are never completed are aborted.
    pub fn aborts_uploads(&self) -> bool {
        self.rules.iter().any(|rule| {
            let days = rule
                .abort_incomplete_multipart_upload()
                .and_then(AbortIncompleteMultipartUpload::days_after_initiation);
            rule.id() == Some(RULE) && *rule.status() == ExpirationStatus::Enabled && days == Some(DAYS)
        })
    }

    /// Returns true if its policy denies access without TLS, and overwriting.
    pub fn is_guarded(&self, bucket: &str) -> bool {
        let live = self.policy.as_ref().and_then(|policy| policy["Statement"].as_array());
        let has = |wanted: &Value| {
            live.into_iter().flatten().any(|it| it["Sid"] == wanted["Sid"] && same_statement(it, wanted))
        };
        statements(bucket).iter().all(has)
    }

    /// The settings after everything was done.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn after_hardening(self, bucket: &str) -> Self {
        Self {
            private: true,
            owner_enforced: true,
            encryption: self.encryption.clone().or(Some(aws_sdk_s3::types::ServerSideEncryption::Aes256.to_string())),
            policy: Some(self.guarding_policy(bucket)),
            rules: self.rules_with_abort(),
            ..self
        }
    }

    /// Returns its policy with our statements. Other statements stay.
    pub(super) fn guarding_policy(&self, bucket: &str) -> Value {
        let mut policy = self.policy.clone().unwrap_or_else(|| json!({ "Version": "2012-10-17" }));
        let is_ours = |it: &&Value| it["Sid"] == ONLY_BY_TLS || it["Sid"] == WRITE_ONCE;
        let others = policy["Statement"].as_array().into_iter().flatten().filter(|it| !is_ours(it));
        let statements: Vec<Value> = others.cloned().chain(statements(bucket)).collect();
        policy["Statement"] = statements.into();
        policy
    }

    /// Returns its lifecycle rules with ours. Other rules stay.
    pub(super) fn rules_with_abort(&self) -> Vec<LifecycleRule> {
        let others = self.rules.iter().filter(|rule| rule.id() != Some(RULE));
        others.cloned().chain(abort_rule()).collect()
    }
}

fn abort_rule() -> Option<LifecycleRule> {
    let rule = LifecycleRule::builder()
        .id(RULE)
        .status(ExpirationStatus::Enabled)
        .filter(LifecycleRuleFilter::builder().prefix("").build())
        .abort_incomplete_multipart_upload(
            AbortIncompleteMultipartUpload::builder().days_after_initiation(DAYS).build(),
        );
    rule.build().ok()
}

/// The statements that deny access without TLS, and overwriting.
/// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/security-best-practices.html>, and
/// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes-enforce.html>
fn statements(bucket: &str) -> [Value; 2] {
    let only_by_tls = json!({
        "Sid": ONLY_BY_TLS,
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": [format!("arn:aws:s3:::{bucket}"), format!("arn:aws:s3:::{bucket}/*")],
        "Condition": { "Bool": { "aws:SecureTransport": "false" } },
    });
    let write_once = json!({
        "Sid": WRITE_ONCE,
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:PutObject",
        "Resource": format!("arn:aws:s3:::{bucket}/*"),
        "Condition": {
            "Null": { "s3:if-none-match": "true" },
            "Bool": { "s3:ObjectCreationOperation": "true" },
        },
    });
    [only_by_tls, write_once]
}

/// Returns true if a statement is the wanted one. AWS may write the principal as an object.
fn same_statement(live: &Value, wanted: &Value) -> bool {
    ["Effect", "Action", "Resource", "Condition"].iter().all(|key| live[*key] == wanted[*key])
        && (live["Principal"] == "*" || live["Principal"] == json!({ "AWS": "*" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_and_rules_of_others_stay_when_ours_are_added() {
        let other = json!({ "Sid": "Theirs", "Effect": "Deny" });
        let facts = BucketFacts {
            policy: Some(json!({ "Version": "2012-10-17", "Statement": [other] })),
            rules: LifecycleRule::builder()
                .id("theirs")
                .status(ExpirationStatus::Enabled)
                .build()
                .into_iter()
                .collect(),
            ..BucketFacts::default()
        };
        assert!(!facts.is_guarded("b") && !facts.aborts_uploads());
        let after = BucketFacts {
            policy: Some(facts.guarding_policy("b")),
            rules: facts.rules_with_abort(),
            ..BucketFacts::default()
        };
        assert!(after.is_guarded("b") && after.aborts_uploads());
        assert_eq!(after.policy.as_ref().map(|policy| policy["Statement"][0].clone()), Some(other));
        assert_eq!(after.rules[0].id(), Some("theirs"));
        assert_eq!(after.guarding_policy("b"), facts.guarding_policy("b"), "done twice it is the same");
        assert!(!after.is_guarded("another"));
        for lacking in [ONLY_BY_TLS, WRITE_ONCE] {
            let mut policy = facts.guarding_policy("b");
            let statements = policy["Statement"].as_array_mut().expect("statements");
            statements.retain(|it| it["Sid"] != lacking);
            assert!(
                !BucketFacts { policy: Some(policy), ..BucketFacts::default() }.is_guarded("b"),
                "without {lacking}"
            );
        }
    }

    #[test]
    fn a_principal_is_every_caller_in_either_form() {
        for wanted in statements("b") {
            let mut live = wanted.clone();
            live["Principal"] = json!({ "AWS": "*" });
            assert!(same_statement(&live, &wanted));
            live["Condition"] = json!({});
            assert!(!same_statement(&live, &wanted));
        }
    }
}
