//! Answers to questions that several objects ask: asked once for all, and kept until the next sweep.

use std::collections::{BTreeMap, HashMap};

use super::Region;
use crate::external::acm::Certificate;
use crate::external::aws::AwsError;
use crate::external::ec2::Subnet;

/// Tags that subnets must have: values by key, none for any value.
pub type SubnetTags = BTreeMap<String, Vec<String>>;

/// What was asked since the last sweep.
#[derive(Default)]
pub struct Lookups {
    by_tags: HashMap<SubnetTags, Vec<Subnet>>,
    by_ids: HashMap<Vec<String>, Vec<Subnet>>,
    certificates: Option<Vec<Certificate>>,
}

impl Region {
    /// The subnets that have these tags.
    pub async fn subnets_tagged(&self, tags: &SubnetTags) -> Result<Vec<Subnet>, AwsError> {
        let _reading = self.reading.lock().await;
        if let Some(known) = self.known().lookups.by_tags.get(tags) {
            return Ok(known.clone());
        }
        let found = self.ec2.subnets_tagged(tags).await?;
        self.known().lookups.by_tags.insert(tags.clone(), found.clone());
        Ok(found)
    }

    /// The subnets of these ids.
    pub async fn subnets(&self, ids: &[String]) -> Result<Vec<Subnet>, AwsError> {
        let _reading = self.reading.lock().await;
        if let Some(known) = self.known().lookups.by_ids.get(ids) {
            return Ok(known.clone());
        }
        let found = self.ec2.subnets(ids).await?;
        self.known().lookups.by_ids.insert(ids.to_vec(), found.clone());
        Ok(found)
    }

    /// The certificates of AWS Certificate Manager.
    pub async fn certificates(&self) -> Result<Vec<Certificate>, AwsError> {
        let _reading = self.reading.lock().await;
        if let Some(known) = &self.known().lookups.certificates {
            return Ok(known.clone());
        }
        let found = self.acm.issued().await?;
        self.known().lookups.certificates = Some(found.clone());
        Ok(found)
    }

    /// Forgets the answers, so that they are asked for anew.
    pub(super) fn forget_lookups(&self) {
        self.known().lookups = Lookups::default();
    }
}
