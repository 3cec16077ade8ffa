//! Everything known about one object, its group and its balancer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use causeway_api::MyIngress;
use causeway_api::myingress::AlbStatus;
use causeway_aws::acm::Certificate;
use causeway_aws::ec2::{SecurityGroup, Subnet};

use crate::drift::rivals::Rival;
use crate::members::{Members, key};
use crate::model::{Built, Complaint, Limits};
use crate::ownership::{ObjectKey, Owner};
use crate::refusals::Refusal;
use crate::region::assets::Assets;
use crate::targets::{Binding, Endpoints, Summary};

/// The observations that matter to one object.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The object, or its group, as an owner.
    pub owner: Owner,
    /// A resource of another cluster with our name, if that keeps the owner from doing anything.
    pub rival: Option<Rival>,
    /// Who shares the balancer.
    pub members: Members,
    /// The wanted state that they describe together.
    pub built: Built,
    /// The owner's resources in AWS.
    pub assets: Assets,
    /// Names that our balancer might use and that are taken.
    pub taken: BTreeSet<String>,
    /// Target groups of others that have names which ours would have: their ARNs by name.
    pub taken_groups: BTreeMap<String, String>,
    /// The status names a balancer that exists and does not carry our tags.
    pub disowned: Option<AlbStatus>,
    /// The balancer that is to be adopted.
    pub adoption: Option<Adoption>,
    /// Subnets that fit the selector, or those that the spec names where their VPC matters.
    pub subnets: Vec<Subnet>,
    /// Security groups that the spec calls by their names, those of the targets, and those of the balancer if they are not
    /// Causeway's.
    pub security_groups: Vec<SecurityGroup>,
    /// Certificates of AWS Certificate Manager, where they matter.
    pub certificates: Vec<Certificate>,
    /// The endpoints of the backends, by name of their target group.
    pub endpoints: BTreeMap<String, Endpoints>,
    /// Summaries of the targets' health in AWS, by ARN of their group.
    pub summaries: BTreeMap<String, Summary>,
    /// The bindings that are in force.
    pub bound: Vec<Binding>,
    /// Actions that AWS refused and that are not tried now.
    pub refusals: Vec<Refusal>,
    /// When target groups lost their bindings, by ARN.
    pub idle: BTreeMap<String, Timestamp>,
    /// How long a balancer that was replaced goes on serving, and a target group that nothing forwards to stays.
    pub replacement_grace: Duration,
    /// How much AWS lets one balancer have.
    pub limits: Limits,
    /// A hash of everything that AWS should follow.
    pub basis: u64,
    /// True if AWS was as the spec says, and nothing that it should follow has changed since: what differs is what others
    /// changed.
    pub was_right: bool,
}

/// A balancer that is to be adopted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// There is none of that name.
    Missing,
    /// Its tags do not agree.
    Refused,
    /// Its tags agree.
    Agreed { arn: String },
}

/// The key under which an owner binds targets.
pub fn key_of(owner: &Owner) -> ObjectKey {
    (owner.namespace.clone(), owner.uid.clone())
}

impl Observed {
    /// Fills in the summary of each group that is not followed yet: it will have the targets of its backend, and none
    /// of them is healthy so far. A backend that is not known yet counts as one that has targets, so that no requests
    /// go to a group that is still empty.
    pub fn expect_targets(&mut self) {
        for (name, endpoints) in &self.endpoints {
            let Some(member) = self.assets.group_named(name) else { continue };
            let arn = member.group.arn.clone();
            match endpoints {
                Endpoints::Known(wanted) => {
                    let summary = Summary { total: wanted.targets.len(), ..Summary::default() };
                    self.summaries.entry(arn).or_insert(summary);
                }
                Endpoints::NotReadyYet => {
                    let summary = self.summaries.entry(arn).or_default();
                    summary.total = summary.total.max(1);
                }
                _ => {}
            }
        }
    }

    /// Returns the complaint about the object itself.
    pub fn complaint(&self, object: &MyIngress) -> Option<&Complaint> {
        let key = key(object);
        self.members.refused.get(&key).or_else(|| self.built.complaints.get(&key))
    }
}
