//! Predicts the state of AWS after an action: AWS's answer is made up, and then entered like a real one. Pure.
//!
//! `causeway plan` goes through a whole plan with it, and the property tests run the decisions on it. So what is shown
//! is what was tested.

use std::collections::BTreeSet;

use causeway_aws::ec2::{SecurityGroup, Subnet};
use causeway_aws::elbv2::{
    Balancer, Listener, ListenerSettings, NewBalancer, NewTargetGroup, Protocol, Rule, RuleAction, State, TargetGroup,
};

use crate::action::{Action, BalancerAction, GroupAction, ListenerAction, SecurityAction};
use crate::model::everywhere;
use crate::region::assets::{Answer, Assets, ListenerMember};

/// The policy that AWS gives to an HTTPS listener that asks for none.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateListener.html>
const DEFAULT_SSL_POLICY: &str = "ELBSecurityPolicy-2016-08";

/// Marks ARNs and ids of what does not exist. It stands before the number at their end.
pub const MADE_UP: &str = "to-be-made-";

/// Stands for what AWS chooses when something is created.
pub const CHOSEN_BY_AWS: &str = "(chosen by AWS)";

/// Makes up AWS's answers.
#[derive(Clone, Debug, Default)]
pub struct PredictedAws {
    /// How much was created, so no ARN comes twice.
    made: usize,
}

impl PredictedAws {
    /// Enters the effect of an action that AWS allows into `assets`. `subnets` are those that are known.
    pub fn enter(&mut self, assets: &mut Assets, subnets: &[Subnet], action: &Action) {
        let answer = self.answer(assets, subnets, action);
        assets.enter(action, answer);
        if let Action::Listener(action) = action {
            hang(assets, action.balancer());
        }
    }

    fn answer(&mut self, assets: &Assets, subnets: &[Subnet], action: &Action) -> Answer {
        match action {
            Action::Balancer(BalancerAction::Create(new)) => {
                Answer::Balancer(self.balancer(assets, subnets, new), new.tags.clone())
            }
            Action::Group(GroupAction::Create(new)) => Answer::Group(self.group(new)),
            Action::Security(SecurityAction::Create { name, vpc, tags }) => Answer::SecurityGroup(SecurityGroup {
                id: format!("sg-{}", self.next()),
                name: name.clone(),
                vpc: vpc.clone(),
                tags: tags.clone(),
                ingress: BTreeSet::new(),
                egress: BTreeSet::from([everywhere()]),
            }),
            Action::Listener(action) => self.listener(assets, action),
            Action::Balancer(_) | Action::Group(_) | Action::Security(_) | Action::Bind(_) => Answer::Done,
        }
    }

    fn next(&mut self) -> String {
        self.made += 1;
        format!("{MADE_UP}{}", self.made)
    }

    fn arn(&mut self, what: &str) -> String {
        format!("arn:aws:elasticloadbalancing:::{what}/{}", self.next())
    }

    fn balancer(&mut self, assets: &Assets, subnets: &[Subnet], new: &NewBalancer) -> Balancer {
        let stands_in = subnets.iter().find(|subnet| new.subnets.contains(&subnet.id)).map(|subnet| &subnet.vpc);
        let grouped = new.security_groups.iter().find_map(|id| assets.security_groups.get(id)).map(|group| &group.vpc);
        let mut security_groups = new.security_groups.clone();
        if security_groups.is_empty() {
            security_groups.insert(CHOSEN_BY_AWS.into());
        }
        Balancer {
            arn: self.arn(&format!("loadbalancer/app/{}", new.name)),
            name: new.name.clone(),
            dns: CHOSEN_BY_AWS.into(),
            zone_id: None,
            scheme: Some(new.scheme),
            state: State::Provisioning,
            vpc: stands_in.or(grouped).map_or(CHOSEN_BY_AWS, String::as_str).into(),
            ip_address_type: Some(new.ip_address_type),
            subnets: new.subnets.clone(),
            security_groups,
        }
    }

    fn group(&mut self, new: &NewTargetGroup) -> TargetGroup {
        TargetGroup {
            arn: self.arn(&format!("targetgroup/{}", new.name)),
            name: new.name.clone(),
            kind: Some(new.kind.clone()),
            health_check: Some(new.health_check.clone()),
            balancers: BTreeSet::new(),
        }
    }

    fn listener(&mut self, assets: &Assets, action: &ListenerAction) -> Answer {
        match action {
            ListenerAction::Create { settings, .. } => {
                Answer::Listener(Listener { arn: self.arn("listener/app"), settings: describe(settings) })
            }
            ListenerAction::Modify { arn, settings, .. } => {
                Answer::Listener(Listener { arn: arn.clone(), settings: describe(settings) })
            }
            ListenerAction::CreateRule { priority, settings, .. } => {
                let mut settings = settings.clone();
                keep_secrets(&mut settings.actions);
                Answer::Rule(Rule { arn: self.arn("listener-rule/app"), priority: *priority, settings })
            }
            ListenerAction::ModifyRule { balancer, listener, arn, settings, .. } => {
                let mut settings = settings.clone();
                keep_secrets(&mut settings.actions);
                let listeners = assets.balancers.get(balancer).and_then(|member| member.listeners.as_ref());
                let present = listeners.and_then(|listeners| listeners.get(listener)?.rules.get(arn));
                let priority = present.map(|member| member.rule.priority).unwrap_or_default();
                Answer::Rule(Rule { arn: arn.clone(), priority, settings })
            }
            _ => Answer::Done,
        }
    }
}

/// The settings that AWS would return for a listener with these.
fn describe(settings: &ListenerSettings) -> ListenerSettings {
    let mut settings = settings.clone();
    if settings.protocol == Protocol::Https {
        settings.ssl_policy.get_or_insert_with(|| DEFAULT_SSL_POLICY.into());
    }
    keep_secrets(&mut settings.default_actions);
    settings
}

/// Removes client secrets, which AWS never returns.
fn keep_secrets(actions: &mut [RuleAction]) {
    for action in actions {
        if let RuleAction::AuthenticateOidc(oidc) = action {
            oidc.client_secret = None;
        }
    }
}

/// Updates which target groups the balancer uses: those that it forwards to.
pub fn hang(assets: &mut Assets, balancer: &str) {
    let listeners = assets.balancers.get(balancer).and_then(|member| member.listeners.as_ref());
    let Some(listeners) = listeners else { return };
    let used: BTreeSet<String> = listeners.values().flat_map(forwards_to).cloned().collect();
    for (arn, member) in &mut assets.groups {
        if used.contains(arn) {
            member.group.balancers.insert(balancer.to_owned());
        } else {
            member.group.balancers.remove(balancer);
        }
    }
}

/// ARNs of the target groups that a listener or one of its rules forwards to.
pub fn forwards_to(listener: &ListenerMember) -> impl Iterator<Item = &String> {
    let rules = listener.rules.values().flat_map(|member| &member.rule.settings.actions);
    let actions = listener.listener.settings.default_actions.iter().chain(rules);
    actions.flat_map(RuleAction::forwarded_to)
}
