//! Listeners that change their protocol. Log-ins and target groups for HTTP/2 or gRPC need HTTPS: AWS refuses a rule
//! that has them on an HTTP listener, and does not turn a listener with such a rule to HTTP.
//!
//! <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/listener-authenticate-users.html>,
//! <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-target-groups.html>

use causeway_aws::elbv2::{Protocol, ProtocolVersion, Redirect, Rule, RuleAction, RuleSettings};

use super::Listener;
use crate::action::ListenerAction;
use crate::decide::rules::Step;
use crate::model::nothing_here;
use crate::region::assets::{ListenerMember, RuleMember};

impl Listener<'_> {
    /// The change from HTTP to HTTPS, which certificates and new rules need. The default action stays until the rules
    /// are there.
    pub(super) fn secured(&self, member: &ListenerMember, certificate: Option<&String>) -> Option<ListenerAction> {
        let turns = member.listener.settings.protocol == Protocol::Http && self.wanted.protocol == Protocol::Https;
        let settings = turns.then(|| self.with_present_default(member, certificate.cloned()))?;
        Some(ListenerAction::Modify { balancer: self.balancer.to_owned(), arn: member.listener.arn.clone(), settings })
    }

    /// Reports whether a listener of the wanted protocol can have this default action.
    pub(super) fn can_have_by_default(&self, actions: &[RuleAction]) -> bool {
        let impossible = |it: &RuleAction| matches!(it, RuleAction::Redirect(to) if !suits_https(to, self.port));
        match self.wanted.protocol {
            Protocol::Http => !self.needs_https(actions),
            Protocol::Https => !actions.iter().any(impossible),
        }
    }

    /// Where the listener turns to HTTP, closes the rules that HTTP cannot have and that no member wants, or whose
    /// member at home cannot take part now. If the former were deleted before, what they protect might be open until
    /// the listener has its new default action. The latter stay closed: another rule might answer their requests.
    pub(super) fn close_before_http(&self, member: &ListenerMember, steps: &mut Vec<Step>) {
        let turns = member.listener.settings.protocol == Protocol::Https && self.wanted.protocol == Protocol::Http;
        let place = steps.iter().position(|step| *step == Step::SetDefault);
        let Some(place) = place.filter(|_| turns) else { return };
        let deleted = steps[place..].iter().filter_map(|step| match step {
            Step::Delete { arn } => member.rules.get(arn),
            _ => None,
        });
        let owner = &self.scene.observed.owner;
        let stays = |rule: &&RuleMember| owner.owns(&rule.tags) && self.scene.is_frozen_at_home(&rule.tags);
        let all = deleted.chain(member.rules.values().filter(stays)).map(|it| &it.rule);
        let secure = all.filter(|rule| self.needs_https(&rule.settings.actions));
        let close = |rule: &Rule| Step::Modify { arn: rule.arn.clone(), settings: close_rule(&rule.settings) };
        let closing: Vec<Step> = secure.map(close).collect();
        steps.splice(place..place, closing);
    }

    /// Reports whether only an HTTPS listener can have a rule that does this.
    pub(super) fn needs_https(&self, actions: &[RuleAction]) -> bool {
        let groups = &self.scene.observed.assets.groups;
        let newer = |arn: &String| {
            let kind = groups.get(arn).and_then(|member| member.group.kind.as_ref());
            kind.is_some_and(|kind| kind.version != ProtocolVersion::Http1)
        };
        actions.iter().any(|action| match action {
            RuleAction::AuthenticateOidc(_) | RuleAction::AuthenticateCognito(_) | RuleAction::ValidateJwt(_) => true,
            action => action.forwarded_to().any(newer),
        })
    }
}

/// A rule with these conditions that lets no request through.
pub(super) fn close_rule(rule: &RuleSettings) -> RuleSettings {
    RuleSettings { transforms: Vec::new(), actions: nothing_here(), conditions: rule.conditions.clone() }
}

/// Reports whether an HTTPS listener on that port can redirect so. AWS redirects none to HTTP, and none to itself.
fn suits_https(to: &Redirect, port: u16) -> bool {
    let same_port = to.port == "#{port}" || to.port == port.to_string();
    let to_itself = to.host == "#{host}" && same_port && to.path == "/#{path}";
    to.protocol != "HTTP" && !to_itself
}
