//! Enters changes into the snapshot as if they had been made.

use causeway_aws::ec2::Subnet;
use causeway_aws::elbv2::State;

use super::Region;
use crate::action::Action;
use crate::action::predicted::PredictedAws;
use crate::ownership::Owner;

impl Region {
    /// Enters the effect of an action without calling AWS.
    pub fn predict(&self, predicted: &mut PredictedAws, subnets: &[Subnet], action: &Action) {
        predicted.enter(&mut self.lock().assets, subnets, action);
    }

    /// Lets the owner's provisioning balancers become active. Returns whether there was one.
    pub fn predict_active(&self, owner: &Owner) -> bool {
        let mut known = self.lock();
        let ours = known.assets.balancers.values_mut().filter(|member| owner.owns(&member.tags));
        let waiting = ours.filter(|member| member.balancer.state == State::Provisioning);
        waiting.map(|member| member.balancer.state = State::Active).count() > 0
    }
}
