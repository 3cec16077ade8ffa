//! Elastic Load Balancing v2 as far as Application Load Balancers go: plain data in, plain data out.
//!
//! <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/Welcome.html>

mod actions;
mod actions_wire;
mod authentication_wire;
mod balancer;
mod balancers;
mod conditions;
mod errors;
mod limits;
mod listener;
mod listeners;
mod pages;
mod rule;
mod rules;
mod ssl_policies;
mod tags;
mod target;
mod target_group;
mod target_groups;
mod target_groups_wire;
mod targets;
mod transforms;

use std::collections::BTreeMap;

use aws_config::SdkConfig;
use aws_sdk_elasticloadbalancingv2::Client;
use aws_sdk_elasticloadbalancingv2::config::Builder;

use causeway_runtime::leader::Fence;
use causeway_runtime::metrics::Metrics;

use super::aws::{AwsError, Caller, FenceGuard, timeouts};
use super::budget::Budget;

pub use actions::{Cognito, FixedResponse, Jwt, JwtClaim, Oidc, Redirect, RuleAction, Session, Unauthenticated};
pub use balancer::{Balancer, IpAddressType, NewBalancer, State};
pub use conditions::{Condition, Match};
pub use listener::{Listener, ListenerSettings, MutualAuthentication, Protocol};
pub use rule::{Rule, RuleSettings};
pub use target::{Target, TargetHealth, TargetState};
pub use target_group::{GroupKind, HealthCheck, NewTargetGroup, ProtocolVersion, TargetGroup, TargetType};
pub use transforms::{Transform, TransformedPart};

/// Tags or attributes by key.
pub type Pairs = BTreeMap<String, String>;

/// The API of one region and account.
#[derive(Clone, Debug)]
pub struct Elbv2 {
    client: Client,
    caller: Caller,
}

type Outcome<T> = Result<T, AwsError>;

impl Elbv2 {
    /// A client that counts into `metrics`, changes things only while `fence` is open, and waits for its share of
    /// AWS's rates as `budget` says.
    pub fn new(config: &SdkConfig, metrics: Metrics, fence: Fence, budget: Budget) -> Self {
        Self {
            client: Client::from_conf(
                Builder::from(config).timeout_config(timeouts()).interceptor(FenceGuard(fence)).build(),
            ),
            caller: Caller { service: SERVICE, metrics, class_of: errors::class_of, budget },
        }
    }

    /// Returns a client for work that can wait: it makes only the calls that no other caller needs.
    #[must_use]
    pub fn in_background(&self) -> Self {
        Self { client: self.client.clone(), caller: self.caller.in_background() }
    }

    /// The resource that was created or changed, from the answer of a call.
    fn first_result<A, T>(
        &self,
        operation: &'static str,
        answered: Option<Vec<A>>,
        read: impl Fn(A) -> Option<T>,
    ) -> Outcome<T> {
        let first = answered.unwrap_or_default().into_iter().next().and_then(read);
        first.ok_or_else(|| self.caller.empty_answer(operation))
    }
}

const SERVICE: &str = "elasticloadbalancing";
