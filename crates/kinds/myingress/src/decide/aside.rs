//! Leaves out of a plan what AWS refused, and what depends on it. The rest of the plan goes on.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use causeway_api::MyIngress;
use causeway_api::myingress::ListenerSpec;
use causeway_aws::elbv2::{Pairs, Protocol, RuleSettings};
use causeway_runtime::Health;

use crate::action::dependencies::depends;
use crate::action::{Action, BalancerAction, GroupAction, ListenerAction, SecurityAction};
use crate::error::{PERMISSION_MISSING, QUOTA_REACHED, WEB_ACL_PENDING};
use crate::members::key;
use crate::model::certificates::is_covered;
use crate::observe::facts::Observed;
use crate::ownership::{ObjectKey, member_of};
use crate::refusals::Refusal;
use crate::region::assets::ListenerMember;

/// The refused actions, and which of them the plan would contain.
pub struct Aside<'a> {
    refusals: &'a [Refusal],
    met: RefCell<BTreeSet<usize>>,
    /// Deletions of rules that were left out because they depend on something refused.
    held: RefCell<Vec<Action>>,
    /// Additions of certificates that were left out because AWS refused others.
    waiting: RefCell<Vec<Action>>,
    /// The number of changes that were left out because they depend on something refused.
    dependent: Cell<usize>,
}

impl<'a> Aside<'a> {
    /// Knows these refusals; the plan has met none of them yet.
    pub fn new(refusals: &'a [Refusal]) -> Self {
        Self {
            refusals,
            met: RefCell::default(),
            held: RefCell::default(),
            waiting: RefCell::default(),
            dependent: Cell::default(),
        }
    }

    /// Reports whether the action was refused and is not to be tried now.
    pub fn holds(&self, action: &Action) -> bool {
        self.meets(|refusal| refusal.action == *action)
    }

    /// Reports whether a rule that does this was refused on the listener. A rule that only the quota of rules keeps out
    /// is still wanted: old ones make room for it.
    pub fn holds_rule(&self, on: &str, wanted: &RuleSettings) -> bool {
        self.meets(|refusal| match &refusal.action {
            Action::Listener(ListenerAction::CreateRule { listener, settings, .. }) => {
                refusal.reason != QUOTA_REACHED && listener == on && settings == wanted
            }
            Action::Listener(ListenerAction::ModifyRule { listener, settings, .. }) => {
                listener == on && settings == wanted
            }
            _ => false,
        })
    }

    /// Reports whether AWS refused a rule of the balancer because of a quota.
    pub fn is_full_of_rules(&self, of: &str) -> bool {
        let needs_room = |action: &Action| match action {
            Action::Listener(ListenerAction::CreateRule { balancer, .. }) => balancer == of,
            _ => false,
        };
        self.refusals.iter().any(|refusal| refusal.reason == QUOTA_REACHED && needs_room(&refusal.action))
    }

    /// Reports whether AWS refused a certificate beside the default ones of the balancer because of a quota.
    pub fn is_full_of_certificates(&self, of: &str) -> bool {
        self.refusals.iter().any(|refusal| lacks_room(refusal, of))
    }

    /// The same, of which the plan takes note: it leaves out the certificates that have no room.
    pub fn holds_for_room(&self, of: &str) -> bool {
        // Each listener may have been refused one, and each member reports its own.
        let all = self.refusals.iter().enumerate().filter(|(_, refusal)| lacks_room(refusal, of));
        self.met.borrow_mut().extend(all.map(|(index, _)| index));
        self.is_full_of_certificates(of)
    }

    /// Notes certificates that the plan does not add now because AWS refused others.
    pub fn leaves_waiting(&self, adds: ListenerAction) {
        self.waiting.borrow_mut().push(Action::Listener(adds));
    }

    /// Those of these certificates that AWS refused for another reason than a quota. The plan leaves them out.
    pub fn refused_certificates(&self, on: &str, these: &BTreeSet<String>) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for (index, refusal) in self.refusals.iter().enumerate() {
            let Action::Listener(ListenerAction::AddCertificates { arn, certificates, .. }) = &refusal.action else {
                continue;
            };
            if refusal.reason == QUOTA_REACHED || arn != on || certificates.is_disjoint(these) {
                continue;
            }
            self.met.borrow_mut().insert(index);
            all.extend(certificates.intersection(these).cloned());
        }
        all
    }

    /// Reports whether the plan adds no certificate to the listener now: AWS has just refused one of several, or the
    /// permission is missing.
    pub fn holds_further_certificates(&self, on: &str) -> bool {
        self.meets(|refusal| match &refusal.action {
            Action::Listener(ListenerAction::AddCertificates { arn, certificates, .. }) => {
                arn == on && (certificates.is_empty() || refusal.reason == PERMISSION_MISSING)
            }
            _ => false,
        })
    }

    /// Reports whether AWS refused to create a target group of that name.
    pub fn holds_group(&self, name: &str) -> bool {
        self.meets(|refusal| matches!(&refusal.action, Action::Group(GroupAction::Create(new)) if new.name == name))
    }

    /// Reports whether the plan would contain nothing that was refused.
    pub fn is_empty(&self) -> bool {
        self.met.borrow().is_empty()
    }

    /// Reports whether the plan would contain something refused that concerns such a member, or no member in
    /// particular.
    pub fn holds_for(&self, concerns: impl Fn(&ObjectKey) -> bool) -> bool {
        self.met().into_iter().any(|refusal| refusal.blamed.as_ref().is_none_or(&concerns))
    }

    fn meets(&self, is_it: impl Fn(&Refusal) -> bool) -> bool {
        let index = self.refusals.iter().position(is_it);
        self.met.borrow_mut().extend(index);
        index.is_some()
    }

    fn met(&self) -> Vec<&'a Refusal> {
        self.met.borrow().iter().filter_map(|index| self.refusals.get(*index)).collect()
    }

    /// Leaves only the actions that may be tried, without those that depend on refused ones. A refused action that sets
    /// several things at once is split and its parts are tried separately, so one bad value does not keep out the good
    /// ones.
    pub fn leave_out(&self, actions: &mut Vec<Action>) {
        // Actions that are not done now, or only in part.
        let mut missing: Vec<Action> = Vec::new();
        for action in std::mem::take(actions) {
            if missing.iter().any(|refused| depends(refused, &action)) {
                self.dependent.set(self.dependent.get() + 1);
                if matches!(action, Action::Listener(ListenerAction::DeleteRule { .. })) {
                    self.held.borrow_mut().push(action.clone());
                }
                missing.push(action);
                continue;
            }
            let fits = self.fits_after(&action, actions);
            let tried = if fits { vec![action.clone()] } else { self.parts(action.clone()) };
            if tried.first() != Some(&action) {
                missing.push(action);
            }
            actions.extend(tried);
        }
    }

    /// Reports whether the action adds certificates that the quota alone kept out, and an earlier action removes some
    /// of that balancer.
    fn fits_after(&self, action: &Action, before: &[Action]) -> bool {
        let Action::Listener(ListenerAction::AddCertificates { balancer, .. }) = action else { return false };
        let makes_room = |it: &Action| match it {
            Action::Listener(ListenerAction::RemoveCertificates { balancer: of, .. }) => of == balancer,
            _ => false,
        };
        let mut same = self.refusals.iter().filter(|refusal| refusal.action == *action);
        before.iter().any(makes_room) && same.all(|refusal| refusal.reason == QUOTA_REACHED)
    }

    fn parts(&self, action: Action) -> Vec<Action> {
        let Some(refusal) = self.refusals.iter().find(|refusal| refusal.action == action) else { return vec![action] };
        let parts = halves(&refusal.action);
        if parts.is_empty() {
            self.holds(&action);
            return Vec::new();
        }
        parts.into_iter().flat_map(|part| self.parts(part)).collect()
    }

    /// Describes the outcome of the other changes, of which AWS refused so many.
    fn rest(&self, refused: usize) -> String {
        let exceptions = [(self.dependent.get(), "must wait for this one"), (refused, "AWS refuses as well")];
        let exceptions = exceptions.into_iter().filter(|(number, _)| *number > 0);
        let exceptions: Vec<String> = exceptions.map(|(number, what)| counted(number, what)).collect();
        let all_but = if exceptions.is_empty() { "" } else { ", except for " };
        format!(". Everything else is in AWS as the spec says{all_but}{}", exceptions.join(" and "))
    }

    /// How long until the next refused action is tried again.
    pub fn next(&self) -> Option<Duration> {
        self.met().into_iter().map(|refusal| refusal.retry_in).min()
    }

    /// The health of the object if something of its own, or something it needs, was refused. `leads` says whether it
    /// reports what belongs to no member in particular.
    pub fn health(&self, object: &MyIngress, observed: &Observed, leads: bool) -> Option<Health> {
        let met = self.met();
        let own = |refusal: &&&Refusal| refusal.blamed.as_ref().map_or(leads, |blamed| *blamed == key(object));
        if let Some(refusal) = met.iter().find(own) {
            // Before there is a balancer, nothing is there of which something could be lacking.
            let rest = if observed.assets.balancers.is_empty() { String::new() } else { self.rest(met.len() - 1) };
            return Some(reported(refusal, refusal.reason, refusal.message.clone() + &rest));
        }
        let held = self.held.borrow();
        let keeps = |refused: &Action| {
            held.iter().any(|later| depends(refused, later) && deletes_rule_of(object, observed, later))
        };
        let waiting = self.waiting.borrow();
        let waits = |refused: &Action| {
            let balancer = adds_certificates_to(refused);
            let same = |adds: &&Action| balancer.is_some() && adds_certificates_to(adds) == balancer;
            waiting.iter().filter(same).any(|adds| needs(object, observed, adds))
        };
        let is_needed = |refused: &Action| needs(object, observed, refused) || keeps(refused) || waits(refused);
        let needed = met.into_iter().find(|it| is_needed(&it.action))?;
        let by = needed.blamed.as_ref().map(|(namespace, name)| format!(" of {namespace}/{name}")).unwrap_or_default();
        let message = format!("waits for a part{by} that AWS refuses: {}", needed.message);
        Some(reported(needed, "GroupHeldUp", message))
    }
}

/// So many changes, in words.
fn counted(number: usize, what: &str) -> String {
    let changes = if number == 1 { "change" } else { "changes" };
    format!("{number} {changes} that {what}")
}

/// How an object reports a refusal. While AWS WAF does not know a new balancer yet, the user has to do nothing.
fn reported(refusal: &Refusal, reason: &'static str, message: String) -> Health {
    if refusal.reason == WEB_ACL_PENDING { Health::retrying(reason, message) } else { Health::stalled(reason, message) }
}

/// The balancer to which the action adds certificates beside the default ones.
fn adds_certificates_to(action: &Action) -> Option<&str> {
    match action {
        Action::Listener(ListenerAction::AddCertificates { balancer, .. }) => Some(balancer),
        _ => None,
    }
}

/// Reports whether AWS refused to add a certificate to the balancer because of a quota.
fn lacks_room(refusal: &Refusal, of: &str) -> bool {
    refusal.reason == QUOTA_REACHED && adds_certificates_to(&refusal.action) == Some(of)
}

/// Reports whether the object cannot do without what this action makes.
fn needs(object: &MyIngress, observed: &Observed, action: &Action) -> bool {
    let listens = |on: u16| object.spec.listeners.iter().any(|listener| listener.port == on);
    let listener = |balancer: &str, arn: &str| {
        let listeners = observed.assets.balancers.get(balancer).and_then(|member| member.listeners.as_ref());
        listeners.and_then(|listeners| listeners.get(arn))
    };
    match action {
        Action::Balancer(BalancerAction::Create(_)) | Action::Security(SecurityAction::Create { .. }) => true,
        // Its listeners that are not there yet wait for the web ACL.
        Action::Balancer(BalancerAction::SetWebAcl { acl: Some(_), .. }) => {
            let made = object.status.iter().flat_map(|status| &status.listeners);
            let made: BTreeSet<u16> = made.map(|listener| listener.port).collect();
            object.spec.listeners.iter().any(|listener| !made.contains(&listener.port))
        }
        Action::Listener(ListenerAction::Create { settings, .. }) => listens(settings.port),
        // Rules wait until the listener has turned to HTTPS. None waits for HTTP, which only members at home ask for.
        Action::Listener(ListenerAction::Modify { balancer, arn, settings }) => {
            let present = listener(balancer, arn).map(|it| it.listener.settings.protocol);
            let turns = present.is_some_and(|present| present != settings.protocol);
            let waits = || settings.protocol == Protocol::Https || !observed.members.is_guest(&key(object));
            listens(settings.port) && turns && waits()
        }
        Action::Listener(ListenerAction::AddCertificates { balancer, arn, port, certificates }) => {
            let Some(present) = listener(balancer, arn) else { return false };
            let mut specs = object.spec.listeners.iter();
            specs.any(|spec| spec.port == *port && lacks(spec, present, certificates, observed))
        }
        Action::Listener(ListenerAction::SetPriorities { port, .. }) => listens(*port),
        _ => false,
    }
}

/// Reports whether the action deletes a rule that the object had.
fn deletes_rule_of(object: &MyIngress, observed: &Observed, action: &Action) -> bool {
    let Action::Listener(ListenerAction::DeleteRule { balancer, listener, arn, .. }) = action else { return false };
    let listeners = observed.assets.balancers.get(balancer).and_then(|member| member.listeners.as_ref());
    let rule = listeners.and_then(|listeners| listeners.get(listener)).and_then(|member| member.rules.get(arn));
    rule.and_then(|rule| member_of(&rule.tags)).is_some_and(|member| member == key(object))
}

/// Reports whether the listener lacks a certificate that the spec names, or one of the `refused` ones for a host of the
/// spec.
fn lacks(spec: &ListenerSpec, present: &ListenerMember, refused: &BTreeSet<String>, observed: &Observed) -> bool {
    let default = present.listener.settings.certificate.iter();
    let there: Vec<String> = present.certificates.iter().chain(default).cloned().collect();
    let missing: Vec<String> = refused.iter().filter(|arn| !there.contains(*arn)).cloned().collect();
    let covered = |host: &str, by: &[String]| is_covered(host, by, &observed.certificates);
    let mut hosts = spec.rules.iter().flat_map(|rule| &rule.hosts);
    spec.certificate_arns.iter().any(|arn| !there.contains(arn))
        || hosts.any(|host| covered(host, &missing) && !covered(host, &there))
}

/// The part of an attribute's key that it shares with attributes that only make sense together, such as whether there
/// are access logs and their bucket. The attributes of `routing` are independent of one another.
fn family(key: &str) -> &str {
    let parts = if key.starts_with("routing.") { key.rsplit_once('.') } else { key.split_once('.') };
    parts.map_or(key, |(family, _)| family)
}

/// Two actions that do the same together; none if the action cannot be split.
fn halves(action: &Action) -> Vec<Action> {
    let action = action.clone();
    match action {
        Action::Balancer(BalancerAction::SetAttributes { arn, attributes }) => {
            let set = |attributes| BalancerAction::SetAttributes { arn: arn.clone(), attributes };
            parted(attributes).into_iter().map(|part| Action::Balancer(set(part))).collect()
        }
        Action::Balancer(BalancerAction::AddTags { arn, tags }) => {
            let add = |tags| BalancerAction::AddTags { arn: arn.clone(), tags };
            parted(tags).into_iter().map(|part| Action::Balancer(add(part))).collect()
        }
        Action::Group(GroupAction::SetAttributes { arn, name, attributes }) => {
            let set = |attributes| GroupAction::SetAttributes { arn: arn.clone(), name: name.clone(), attributes };
            parted(attributes).into_iter().map(|part| Action::Group(set(part))).collect()
        }
        Action::Listener(ListenerAction::SetAttributes { balancer, arn, port, attributes }) => {
            let set = |attributes| {
                let (balancer, arn) = (balancer.clone(), arn.clone());
                ListenerAction::SetAttributes { balancer, arn, port, attributes }
            };
            parted(attributes).into_iter().map(|part| Action::Listener(set(part))).collect()
        }
        Action::Security(SecurityAction::Authorize { id, permissions }) => {
            let authorize = |permissions| SecurityAction::Authorize { id: id.clone(), permissions };
            halved(permissions).into_iter().map(|part| Action::Security(authorize(part))).collect()
        }
        _ => Vec::new(),
    }
}

/// Two halves; none for a single value.
fn halved<T: Ord>(all: BTreeSet<T>) -> Vec<BTreeSet<T>> {
    let middle = all.len() / 2;
    let mut first: Vec<T> = all.into_iter().collect();
    let second = first.split_off(middle);
    if first.is_empty() { Vec::new() } else { vec![first.into_iter().collect(), second.into_iter().collect()] }
}

/// Two halves that keep families together; none for a single family.
fn parted(all: Pairs) -> Vec<Pairs> {
    let families: BTreeSet<String> = all.keys().map(|key| family(key).to_owned()).collect();
    let first: BTreeSet<&String> = families.iter().take(families.len() / 2).collect();
    if first.is_empty() {
        return Vec::new();
    }
    let (one, other) = all.into_iter().partition(|(key, _)| first.contains(&family(key).to_owned()));
    vec![one, other]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusals::pause;

    fn set(keys: &[&str]) -> Action {
        let attributes = keys.iter().map(|key| ((*key).to_owned(), "1".to_owned())).collect();
        Action::Balancer(BalancerAction::SetAttributes { arn: "b".into(), attributes })
    }

    fn refusal(action: Action) -> Refusal {
        Refusal { action, reason: "No", message: "no".into(), blamed: None, retry_in: Duration::from_secs(30) }
    }

    fn actions_left(aside: &Aside, action: Action) -> Vec<Action> {
        let mut actions = vec![action];
        aside.leave_out(&mut actions);
        actions
    }

    #[test]
    fn only_the_bad_value_is_left_out_in_the_end() {
        let mut refusals = Vec::new();
        // AWS refuses whatever has `bad` in it.
        let tries = |refusals: &[Refusal]| actions_left(&Aside::new(refusals), set(&["a", "b", "bad", "c", "d"]));
        let mut done: BTreeSet<String> = BTreeSet::new();
        for _ in 0..5 {
            for action in tries(&refusals) {
                let Action::Balancer(BalancerAction::SetAttributes { attributes, .. }) = &action else { panic!() };
                if attributes.contains_key("bad") {
                    refusals.push(refusal(action));
                } else {
                    done.extend(attributes.keys().cloned());
                }
            }
        }
        assert_eq!(done.into_iter().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
        let aside = Aside::new(&refusals);
        assert!(actions_left(&aside, set(&["bad"])).is_empty());
        assert!(!aside.is_empty());
        assert_eq!(aside.next(), Some(Duration::from_secs(30)));
    }

    #[test]
    fn what_the_plan_does_not_have_is_not_met() {
        let refusals = [refusal(set(&["bad"]))];
        let aside = Aside::new(&refusals);
        assert_eq!(actions_left(&aside, set(&["good"])), [set(&["good"])]);
        assert!(aside.is_empty());
    }

    #[test]
    fn what_became_of_the_other_changes_is_told() {
        let refusals = [refusal(set(&["bad"]))];
        let aside = Aside::new(&refusals);
        assert_eq!(aside.rest(0), ". Everything else is in AWS as the spec says");
        assert_eq!(
            aside.rest(2),
            ". Everything else is in AWS as the spec says, except for 2 changes that AWS refuses as well"
        );
        let security = |id: &str, add: bool| {
            let (id, permissions) = (id.to_owned(), BTreeSet::new());
            Action::Security(if add {
                SecurityAction::Authorize { id, permissions }
            } else {
                SecurityAction::Revoke { id, permissions }
            })
        };
        let refusals = [refusal(security("sg-1", true))];
        let aside = Aside::new(&refusals);
        aside.leave_out(&mut vec![security("sg-1", true), security("sg-1", false), security("sg-2", false)]);
        let rest = ". Everything else is in AWS as the spec says, except for 1 change that must wait for this one";
        assert_eq!(aside.rest(0), rest);
    }

    fn add(certificates: &[&str]) -> Action {
        let certificates = certificates.iter().map(|arn| (*arn).to_owned()).collect();
        let (balancer, arn) = ("b".into(), "l".into());
        Action::Listener(ListenerAction::AddCertificates { balancer, arn, port: 443, certificates })
    }

    #[test]
    fn one_refused_certificate_keeps_out_no_other() {
        let missing: BTreeSet<String> = ["bad", "good"].map(str::to_owned).into();
        let refusals = [refusal(add(&["bad"]))];
        let aside = Aside::new(&refusals);
        assert_eq!(aside.refused_certificates("another listener", &missing), BTreeSet::new());
        assert!(aside.is_empty(), "the plan does not have it");
        assert_eq!(aside.refused_certificates("l", &missing), ["bad".to_owned()].into());
        assert!(!aside.is_empty() && !aside.holds_further_certificates("l"));
        assert!(!depends(&add(&["bad"]), &add(&["good"])));
        let refusals = [refusal(add(&["bad"])), refusal(pause(&add(&["bad"])).unwrap())];
        let aside = Aside::new(&refusals);
        assert!(aside.holds_further_certificates("l") && !aside.holds_further_certificates("another listener"));
    }

    #[test]
    fn a_certificate_over_a_quota_has_no_other_refusal() {
        let refusals = [Refusal { reason: QUOTA_REACHED, ..refusal(add(&["c"])) }];
        let aside = Aside::new(&refusals);
        assert!(aside.refused_certificates("l", &["c".to_owned()].into()).is_empty() && aside.is_empty());
        assert!(aside.holds_for_room("b") && !aside.holds_for_room("another balancer") && !aside.is_empty());
    }
}
