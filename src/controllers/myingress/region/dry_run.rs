//! Changes that are not made, but entered as if they were.

use super::Region;
use crate::controllers::myingress::action::Action;
use crate::controllers::myingress::ownership::Owner;
use crate::controllers::myingress::predicted::PredictedAws;
use crate::external::ec2::Subnet;
use crate::external::elbv2::State;

impl Region {
    /// Enters what the action would lead to. AWS hears nothing of it.
    pub fn predict(&self, predicted: &mut PredictedAws, subnets: &[Subnet], action: &Action) {
        predicted.enter(&mut self.known().assets, subnets, action);
    }

    /// Takes the owner's balancers that are being set up for active; true when there was one.
    pub fn predict_active(&self, owner: &Owner) -> bool {
        let mut known = self.known();
        let ours = known.assets.balancers.values_mut().filter(|member| owner.owns(&member.tags));
        let waiting = ours.filter(|member| member.balancer.state == State::Provisioning);
        waiting.map(|member| member.balancer.state = State::Active).count() > 0
    }
}
