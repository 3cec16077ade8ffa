//! Makes changes in the region, and enters them into the snapshot.

use std::collections::BTreeSet;
use std::time::Instant;

use causeway_aws::aws::AwsError;
use causeway_aws::ec2::SecurityGroup;
use causeway_aws::elbv2::{NewBalancer, State};
use causeway_aws::wafv2::NONEXISTENT;
use causeway_runtime::Class;

use super::Region;
use super::in_flight::InFlight;
use super::unconfirmed::Named;
use crate::action::{Action, BalancerAction, GroupAction, ListenerAction, SecurityAction};
use crate::model::{everywhere, everywhere_by_ipv6};
use crate::ownership::Owner;
use crate::region::assets::Answer;

/// The reason why a resource is not deleted.
const NOT_OURS: &str = "its tags no longer name this object";

impl Region {
    /// Makes a change for an owner, and enters it into the snapshot. [`Action::Bind`] calls nothing in AWS.
    pub async fn change(&self, owner: &Owner, action: &Action) -> Result<(), AwsError> {
        if let Action::Balancer(BalancerAction::Verify { arn, name }) = action {
            return self.verify(arn, name).await;
        }
        let _deleting = match action.deletes() {
            Some(arn) => Some(self.begin_deletion(arn).await),
            None => None,
        };
        if self.is_deleted(action) {
            return Ok(());
        }
        let in_flight = InFlight::new(self, owner, action);
        let made = match action {
            Action::Security(action) => self.change_security(owner, action).await,
            Action::Balancer(BalancerAction::Create(new)) => self.create_balancer(owner, new).await,
            Action::Balancer(action) => self.change_balancer(action).await,
            Action::Group(action) => self.change_group(owner, action).await,
            Action::Listener(action) => self.change_listener(action).await,
            Action::Bind(_) => Ok(Answer::Done),
        };
        let made = match made {
            Err(error) if error.is("TargetGroupNotFound") => Err(self.of_forwarding(owner, action, error).await),
            made => made,
        };
        in_flight.confirmed();
        match made {
            Ok(answer) => {
                self.enter(action, answer);
                if let Action::Balancer(BalancerAction::Create(new)) = action {
                    self.settled(&new.name);
                    self.provisioning_began.notify_one();
                }
                Ok(())
            }
            Err(error) => {
                self.distrust(owner, action, &error);
                Err(error)
            }
        }
    }

    fn enter(&self, action: &Action, answer: Answer) {
        let made = match &answer {
            Answer::Balancer(balancer, _) => Some(balancer.arn.clone()),
            Answer::Group(group) => Some(group.arn.clone()),
            Answer::SecurityGroup(group) => Some(group.id.clone()),
            Answer::Done | Answer::Listener(_) | Answer::Rule(_) => None,
        };
        let security = match action {
            Action::Security(action) => action.id(),
            _ => None,
        };
        let touched = made.or_else(|| action.balancer().or(action.group()).or(security).map(str::to_owned));
        let mut known = self.lock();
        known.assets.enter(action, answer);
        if let Some(id) = touched {
            known.written(&id);
            if matches!(action, Action::Balancer(BalancerAction::Create(_))) {
                // The attributes of a new balancer are AWS's defaults, so they need not be read.
                known.mark(&id).read = Some(Instant::now());
            }
        }
    }

    /// After a failed call, marks everything that may differ from the snapshot, so it is read again before it matters.
    pub(super) fn distrust(&self, owner: &Owner, action: &Action, error: &AwsError) {
        let stale = error.ambiguous || matches!(error.class, Class::NotFound | Class::Conflict);
        if !stale {
            return;
        }
        // A read that is under way may show the state before the call.
        if let Some(arn) = action.balancer().or(action.group()) {
            self.lock().written(arn);
        }
        match action {
            // `create_balancer` has noted before the call that it may have created it.
            Action::Balancer(BalancerAction::Create(new)) => {
                self.mark_unconfirmed(Named::Balancer, &new.name, &owner.uid);
            }
            Action::Group(GroupAction::Create(new)) => self.mark_unconfirmed(Named::Group, &new.name, &owner.uid),
            Action::Group(
                GroupAction::SetHealthCheck { arn, name, .. }
                | GroupAction::SetAttributes { arn, name, .. }
                | GroupAction::AddTags { arn, name, .. }
                | GroupAction::RemoveTags { arn, name, .. }
                | GroupAction::Delete { arn, name, .. },
            ) => {
                self.mark_unconfirmed(Named::Group, name, &owner.uid);
                if let Some(member) = self.lock().assets.groups.get_mut(arn) {
                    member.attributes = None;
                }
            }
            Action::Security(_) => drop(self.lock().security.unconfirmed.insert(owner.uid.clone(), Instant::now())),
            Action::Balancer(_) | Action::Listener(_) => {
                let Some(arn) = action.balancer() else { return };
                let mut known = self.lock();
                let Some(member) = known.assets.balancers.get_mut(arn) else { return };
                let name = member.balancer.name.clone();
                match action {
                    Action::Listener(_) => member.listeners = None,
                    Action::Balancer(BalancerAction::SetWebAcl { .. }) => member.web_acl = None,
                    Action::Balancer(BalancerAction::SetCapacity { .. }) => member.capacity = None,
                    _ => {}
                }
                drop(known);
                // Looking up the name again shows whether the balancer is gone.
                if matches!(action, Action::Balancer(_)) || error.is("LoadBalancerNotFound") {
                    self.mark_unconfirmed(Named::Balancer, &name, &owner.uid);
                }
            }
            Action::Bind(_) => {}
        }
    }

    /// Creates a balancer. [`Self::verify`] finds out whether AWS answered with one that existed before.
    async fn create_balancer(&self, owner: &Owner, new: &NewBalancer) -> Result<Answer, AwsError> {
        // Until the outcome is entered, it is not known what has that name.
        self.mark_created(Named::Balancer, &new.name, &owner.uid);
        match self.elb.create(new).await {
            Ok(balancer) => Ok(Answer::Balancer(balancer, new.tags.clone())),
            Err(error) => {
                // The name is taken by something that we have not seen. It stays unconfirmed until it is looked up.
                if !error.ambiguous && !error.is("DuplicateLoadBalancerName") {
                    self.settled(&new.name);
                }
                Err(error)
            }
        }
    }

    /// Checks the owner of the balancer that AWS answered a create call with: it may be an older one of the same
    /// settings.
    async fn verify(&self, arn: &str, name: &str) -> Result<(), AwsError> {
        let tags = self.tags_of(arn, name).await?;
        let mut known = self.lock();
        let Some(member) = known.assets.balancers.get_mut(arn) else { return Ok(()) };
        let ours = member.tags == tags;
        member.verify(tags);
        known.written(arn);
        if ours {
            return Ok(());
        }
        let there = format!("a load balancer {name} of the same settings was there before");
        Err(AwsError::stale("CreateLoadBalancer", there))
    }

    async fn change_balancer(&self, action: &BalancerAction) -> Result<Answer, AwsError> {
        match action {
            // These have functions of their own.
            BalancerAction::Create(_) | BalancerAction::Verify { .. } => {}
            BalancerAction::SetSubnets { arn, subnets } => self.elb.set_subnets(arn, subnets).await?,
            BalancerAction::SetSecurityGroups { arn, groups } => self.elb.set_security_groups(arn, groups).await?,
            BalancerAction::SetIpAddressType { arn, to } => self.elb.set_ip_address_type(arn, *to).await?,
            BalancerAction::SetAttributes { arn, attributes } => self.elb.set_attributes(arn, attributes).await?,
            BalancerAction::SetWebAcl { arn, acl: Some(acl) } => self.protect(arn, acl).await?,
            BalancerAction::SetWebAcl { arn, acl: None } => self.wafv2.disassociate(arn).await?,
            BalancerAction::SetCapacity { arn, units } => self.elb.set_capacity(arn, *units).await?,
            BalancerAction::AddTags { arn, tags } | BalancerAction::Adopt { arn, tags, .. } => {
                self.elb.add_tags(arn, tags).await?;
            }
            BalancerAction::RemoveTags { arn, keys } => self.elb.remove_tags([arn], keys).await?,
            BalancerAction::Delete { owner, arn, .. } => {
                if self.still_owned(owner, arn, "DeleteLoadBalancer").await? {
                    self.elb.delete(arn).await?;
                }
            }
        }
        Ok(Answer::Done)
    }

    /// The error of a listener or rule that forwards to a target group which AWS does not know. One of ours went
    /// meanwhile, and is looked up before the next decision. One that the spec names is a mistake there.
    async fn of_forwarding(&self, owner: &Owner, action: &Action, error: AwsError) -> AwsError {
        let named = match action {
            Action::Listener(action) => action.forwarded_to(),
            _ => return error,
        };
        let groups = self.owned_by(owner).groups;
        let mut foreign = BTreeSet::new();
        for arn in named {
            match groups.get(arn) {
                Some(own) => self.mark_unconfirmed(Named::Group, &own.group.name, &owner.uid),
                None => drop(foreign.insert(arn.clone())),
            }
        }
        for arn in &foreign {
            self.doubt_target_group(arn);
        }
        match self.unknown_target_groups(owner, &foreign).await.into_keys().next() {
            Some(arn) => {
                let message =
                    if error.message.contains(&arn) { error.message } else { format!("{}: {arn}", error.message) };
                AwsError { class: Class::Invalid, message, ..error }
            }
            None => error,
        }
    }

    /// Puts a balancer behind a web ACL.
    async fn protect(&self, arn: &str, acl: &str) -> Result<(), AwsError> {
        let Err(error) = self.wafv2.associate(acl, arn).await else { return Ok(()) };
        let state = self.lock().assets.balancers.get(arn).map(|member| member.balancer.state);
        Err(of_association(error, state))
    }

    /// Reports whether AWS's tags still name the owner; false when the resource is gone.
    async fn still_owned(&self, owner: &Owner, arn: &str, operation: &'static str) -> Result<bool, AwsError> {
        match self.elb.tags(&[arn.to_owned()]).await?.remove(arn) {
            Some(tags) if owner.owns(&tags) => Ok(true),
            Some(tags) => {
                let mut known = self.lock();
                if let Some(member) = known.assets.balancers.get_mut(arn) {
                    member.tags = tags;
                } else if let Some(member) = known.assets.groups.get_mut(arn) {
                    member.tags = tags;
                }
                known.written(arn);
                Err(AwsError::stale(operation, NOT_OURS.into()))
            }
            None => Ok(false),
        }
    }

    /// Reports whether AWS's tags of a security group still name the owner; false when it is gone.
    async fn security_group_still_owned(&self, owner: &Owner, id: &str) -> Result<bool, AwsError> {
        let found = self.ec2.security_groups_called(&[id.to_owned()], &[]).await?;
        let Some(group) = found.into_iter().find(|group| group.id == id) else { return Ok(false) };
        if owner.owns(&group.tags) {
            return Ok(true);
        }
        let mut known = self.lock();
        if let Some(known) = known.assets.security_groups.get_mut(id) {
            known.tags = group.tags;
        }
        known.written(id);
        Err(AwsError::stale("DeleteSecurityGroup", NOT_OURS.into()))
    }

    async fn change_group(&self, owner: &Owner, action: &GroupAction) -> Result<Answer, AwsError> {
        match action {
            GroupAction::Create(new) => {
                self.mark_created(Named::Group, &new.name, &owner.uid);
                let made = self.elb.create_target_group(new).await;
                if made.as_ref().is_ok() || made.as_ref().is_err_and(|error| !error.ambiguous) {
                    self.settled(&new.name);
                }
                return made.map(Answer::Group);
            }
            GroupAction::SetHealthCheck { arn, kind, check, .. } => {
                self.elb.modify_health_check(arn, kind, check).await?;
            }
            GroupAction::SetAttributes { arn, attributes, .. } => {
                self.elb.set_group_attributes(arn, attributes).await?;
            }
            GroupAction::AddTags { arn, tags, .. } => self.elb.add_tags(arn, tags).await?,
            GroupAction::RemoveTags { arn, keys, .. } => self.elb.remove_tags([arn], keys).await?,
            GroupAction::Delete { owner, arn, .. } => {
                if self.still_owned(owner, arn, "DeleteTargetGroup").await? {
                    self.elb.delete_target_group(arn).await?;
                }
            }
        }
        Ok(Answer::Done)
    }

    async fn change_security(&self, owner: &Owner, action: &SecurityAction) -> Result<Answer, AwsError> {
        match action {
            SecurityAction::Create { name, vpc, tags } => {
                let id = match self.ec2.create_security_group(name, &description(owner), vpc, tags).await {
                    Err(error) if error.is("InvalidGroup.Duplicate") => {
                        return Err(self.duplicate(owner, error, name, vpc).await?);
                    }
                    made => made?,
                };
                return Ok(Answer::SecurityGroup(SecurityGroup {
                    id,
                    name: name.clone(),
                    vpc: vpc.clone(),
                    tags: tags.clone(),
                    ingress: BTreeSet::new(),
                    // In a VPC without IPv6 the second one is missing. The next read shows which there are.
                    egress: BTreeSet::from([everywhere(), everywhere_by_ipv6()]),
                }));
            }
            SecurityAction::Authorize { id, permissions } => self.ec2.authorize_ingress(id, permissions).await?,
            SecurityAction::Revoke { id, permissions } => self.ec2.revoke_ingress(id, permissions).await?,
            SecurityAction::LetOut { id, permissions } => self.ec2.authorize_egress(id, permissions).await?,
            SecurityAction::KeepIn { id, permissions } => self.ec2.revoke_egress(id, permissions).await?,
            SecurityAction::AddTags { id, tags } => self.ec2.tag(id, tags).await?,
            SecurityAction::RemoveTags { id, keys } => self.ec2.untag(id, keys).await?,
            SecurityAction::LetIn(entry) => self.ec2.let_in(entry).await?,
            SecurityAction::ShutOut(entry) => self.ec2.shut_out(entry).await?,
            SecurityAction::Delete { id, .. } => {
                if self.security_group_still_owned(owner, id).await? {
                    self.ec2.delete_security_group(id).await?;
                }
            }
        }
        Ok(Answer::Done)
    }

    /// The error of a security group whose name is taken. If it is another owner's, looking again changes nothing.
    async fn duplicate(&self, owner: &Owner, error: AwsError, name: &str, vpc: &str) -> Result<AwsError, AwsError> {
        let there = self.ec2.security_group_named(name, vpc).await?;
        let Some(foreign) = there.filter(|group| !owner.owns(&group.tags)) else { return Ok(error) };
        let message = format!(
            "security group {} has the name that this object's would have ({name}), and its tags name another owner: put \
             its tags causeway.example.com/cluster and /uid back ({} and {}), or delete it",
            foreign.id, owner.cluster.name, owner.uid
        );
        Ok(AwsError { class: Class::Invalid, message, ..error })
    }

    /// Enters what was done with one of the action's certificates. If AWS refuses a later one, this one is not sent again.
    fn enter_certificate(&self, action: &ListenerAction, certificate: &str) {
        if let Some(done) = action.of_certificates(BTreeSet::from([certificate.to_owned()])) {
            self.enter(&Action::Listener(done), Answer::Done);
        }
    }

    async fn change_listener(&self, action: &ListenerAction) -> Result<Answer, AwsError> {
        match action {
            ListenerAction::Create { balancer, settings, tags } => {
                return self.elb.create_listener(balancer, settings, tags).await.map(Answer::Listener);
            }
            ListenerAction::Modify { arn, settings, .. } => {
                return self.elb.modify_listener(arn, settings).await.map(Answer::Listener);
            }
            ListenerAction::SetAttributes { arn, attributes, .. } => {
                self.elb.set_listener_attributes(arn, attributes).await?;
            }
            ListenerAction::AddCertificates { arn, certificates, .. } => {
                for certificate in certificates {
                    self.elb.add_certificate(arn, certificate).await?;
                    self.enter_certificate(action, certificate);
                }
            }
            ListenerAction::RemoveCertificates { arn, certificates, .. } => {
                for certificate in certificates {
                    self.elb.remove_certificate(arn, certificate).await?;
                    self.enter_certificate(action, certificate);
                }
            }
            ListenerAction::AddTags { arn, tags, .. } => self.elb.add_tags(arn, tags).await?,
            ListenerAction::RemoveTags { arns, keys, .. } => self.elb.remove_tags(arns, keys).await?,
            ListenerAction::Delete { arn, .. } => self.elb.delete_listener(arn).await?,
            ListenerAction::CreateRule { listener, priority, settings, tags, .. } => {
                return self.elb.create_rule(listener, *priority, settings, tags).await.map(Answer::Rule);
            }
            ListenerAction::ModifyRule { arn, settings, .. } => {
                return self.elb.modify_rule(arn, settings).await.map(Answer::Rule);
            }
            ListenerAction::SetPriorities { priorities, .. } => self.elb.set_rule_priorities(priorities).await?,
            ListenerAction::DeleteRule { arn, .. } => self.elb.delete_rule(arn).await?,
        }
        Ok(Answer::Done)
    }
}

/// The description of an owner's security group. AWS takes 255 characters.
/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateSecurityGroup.html>
fn description(owner: &Owner) -> String {
    format!("Load balancer of {}/{}, by Causeway", owner.namespace, owner.name).chars().take(255).collect()
}

/// The error of an association with a balancer in that state. WAF answers the same where it does not know the web ACL,
/// and where it does not know the balancer yet. One that serves is not new, so the web ACL is to blame.
/// <https://docs.aws.amazon.com/waf/latest/APIReference/API_AssociateWebACL.html#API_AssociateWebACL_Errors>
fn of_association(error: AwsError, state: Option<State>) -> AwsError {
    let serves = matches!(state, Some(State::Active | State::ActiveImpaired));
    let class = if serves && error.is(NONEXISTENT) { Class::Invalid } else { error.class };
    AwsError { class, ..error }
}

#[cfg(test)]
mod tests;
