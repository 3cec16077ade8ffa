//! Tags of balancers, target groups, listeners and rules.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_elasticloadbalancingv2::types::Tag;

use causeway_runtime::Class;

use super::pages::BATCH;
use super::{Elbv2, Outcome, Pairs};

impl Elbv2 {
    /// The tags of these ARNs, of any types, read 20 per call. One that is gone is left out.
    pub async fn tags(&self, arns: &[String]) -> Outcome<BTreeMap<String, Pairs>> {
        let mut tags = BTreeMap::new();
        for batch in arns.chunks(BATCH) {
            let call = self.client.describe_tags().set_resource_arns(Some(batch.to_vec()));
            match self.caller.call_again("DescribeTags", || call.clone().send()).await {
                Ok(page) => {
                    for described in page.tag_descriptions.unwrap_or_default() {
                        let pairs = described.tags.unwrap_or_default().into_iter();
                        let pairs = pairs.map(|tag| (tag.key.unwrap_or_default(), tag.value.unwrap_or_default()));
                        tags.insert(described.resource_arn.unwrap_or_default(), pairs.collect());
                    }
                }
                // If one of them is gone, the whole batch fails.
                Err(error) if error.class == Class::NotFound && batch.len() == 1 => {}
                Err(error) if error.class == Class::NotFound => {
                    for arn in batch {
                        tags.append(&mut Box::pin(self.tags(std::slice::from_ref(arn))).await?);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(tags)
    }

    /// Adds or changes tags; others stay.
    pub async fn add_tags(&self, arn: &str, tags: &Pairs) -> Outcome<()> {
        let call = self.client.add_tags().resource_arns(arn).set_tags(Some(list(tags)));
        self.caller.call_again("AddTags", || call.clone().send()).await.map(drop)
    }

    /// Removes tags from all resources with these ARNs, which may be of any types and are at most 20. Missing keys are
    /// no error.
    pub async fn remove_tags(&self, arns: impl IntoIterator<Item = &String>, keys: &BTreeSet<String>) -> Outcome<()> {
        let call = self.client.remove_tags().set_resource_arns(Some(arns.into_iter().cloned().collect()));
        let call = call.set_tag_keys(Some(keys.iter().cloned().collect()));
        self.caller.call_again("RemoveTags", || call.clone().send()).await.map(drop)
    }

    /// Takes a resource that is gone for deleted. A policy that asks for tags denies the deletion of a resource that is
    /// gone, since that has no tags. So after a denial the tags are looked up.
    pub(super) async fn accept_gone<T>(&self, arn: &str, outcome: Outcome<T>) -> Outcome<()> {
        match outcome {
            Err(error) if error.class == Class::Denied && !self.tags(&[arn.to_owned()]).await?.is_empty() => Err(error),
            Err(error) if !matches!(error.class, Class::Denied | Class::NotFound) => Err(error),
            _ => Ok(()),
        }
    }
}

/// Tags in AWS's form.
pub(super) fn list(tags: &Pairs) -> Vec<Tag> {
    tags.iter().map(|(key, value)| Tag::builder().key(key).value(value).build()).collect()
}
