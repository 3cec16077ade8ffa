//! What AWS tells of one balancer at a time only: listeners, rules, attributes. Read when somebody needs it, then again
//! in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::{Region, SecurityGroups};
use crate::controllers::myingress::assets::{ListenerMember, Member, RuleMember};
use crate::controllers::myingress::ownership::{Owner, cluster_tag};
use crate::external::aws::AwsError;
use crate::external::elbv2::{Listener, Pairs, Protocol};
use crate::runtime::Class;

/// A read is made at most so often in a row.
const ATTEMPTS: usize = 3;

/// How much of a balancer somebody needs to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a call of its own that may be spared")]
pub struct Depth {
    /// Its attributes.
    pub attributes: bool,
    /// Its listeners and their rules.
    pub listeners: bool,
    /// The listeners' attributes.
    pub listener_attributes: bool,
    /// Its web ACL.
    pub web_acl: bool,
    /// Its reserved capacity.
    pub capacity: bool,
    /// The attributes of its target groups.
    pub groups: bool,
}

impl Depth {
    fn and(self, other: Self) -> Self {
        Self {
            attributes: self.attributes || other.attributes,
            listeners: self.listeners || other.listeners,
            listener_attributes: self.listener_attributes || other.listener_attributes,
            web_acl: self.web_acl || other.web_acl,
            capacity: self.capacity || other.capacity,
            groups: self.groups || other.groups,
        }
    }

    /// Whether there is anything to read at all.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

impl Region {
    /// Reads what is not known yet of everything that the owner has; from then on it is read again in turn.
    pub async fn learn(&self, owner: &Owner, depth: Depth) -> Result<(), AwsError> {
        let assets = self.owned_by(owner);
        for (arn, member) in &assets.balancers {
            {
                let mut known = self.known();
                let mark = known.marks.entry(arn.clone()).or_default();
                mark.depth = mark.depth.and(depth);
            }
            let listeners = member.listeners.as_ref();
            let without = |listeners: &BTreeMap<String, ListenerMember>| {
                listeners.values().any(|listener| listener.attributes.is_none())
            };
            let missing = Depth {
                attributes: depth.attributes && member.attributes.is_none(),
                listeners: depth.listeners && listeners.is_none(),
                listener_attributes: depth.listener_attributes && listeners.is_none_or(without),
                web_acl: depth.web_acl && member.web_acl.is_none(),
                capacity: depth.capacity && member.capacity.is_none(),
                groups: false,
            };
            self.read_balancer(arn, missing).await?;
        }
        for (arn, member) in &assets.groups {
            if depth.groups && member.attributes.is_none() {
                self.read_group_attributes(arn).await?;
            }
        }
        Ok(())
    }

    /// Reads the security groups of this cluster where that has not been done, or their state is in doubt.
    pub async fn learn_security_groups(&self) -> Result<(), AwsError> {
        if self.known().security_groups == SecurityGroups::Known {
            return Ok(());
        }
        // One reads for all: whoever waits finds them known.
        let _reading = self.reading.lock().await;
        let known = self.known().security_groups;
        if known != SecurityGroups::Known {
            self.read_security_groups().await?;
        }
        Ok(())
    }

    pub(super) async fn read_security_groups(&self) -> Result<(), AwsError> {
        let begun = Instant::now();
        let (key, value) = cluster_tag(&self.cluster);
        let found = self.ec2.security_groups(&key, &value).await?;
        let mut known = self.known();
        let before = std::mem::take(&mut known.assets.security_groups);
        let mut after = BTreeMap::new();
        for group in found {
            // What was written since the reading began is newer than what was read, be it that it was deleted.
            if known.written_since(&group.id, begun) {
                after.extend(before.get(&group.id).map(|newer| (group.id.clone(), newer.clone())));
            } else {
                after.insert(group.id.clone(), group);
            }
        }
        // Reads lag behind writes: what was just made stays.
        for (id, group) in &before {
            if known.written_lately(id) {
                after.entry(id.clone()).or_insert_with(|| group.clone());
            }
        }
        let changed = before.iter().filter(|(id, group)| after.get(*id) != Some(group)).map(|(_, group)| group);
        let woken: BTreeSet<_> = changed.filter_map(|group| self.concerned(&group.tags)).collect();
        known.assets.security_groups = after;
        known.security_groups = SecurityGroups::Known;
        known.wake(woken);
        Ok(())
    }

    /// Reads so much of a balancer, and returns how many calls that took, or at least as many.
    pub(super) async fn read_balancer(&self, arn: &str, depth: Depth) -> Result<usize, AwsError> {
        if depth.is_empty() {
            return Ok(0);
        }
        let begun = Instant::now();
        let mut calls = 0;
        let mut attributes = None;
        if depth.attributes {
            attributes = Some(persistently(|| self.elb.attributes(arn)).await?);
            calls += 1;
        }
        let mut web_acl = None;
        if depth.web_acl {
            web_acl = Some(persistently(|| self.wafv2.web_acl_of(arn)).await?);
            calls += 1;
        }
        let mut capacity = None;
        if depth.capacity {
            capacity = Some(persistently(|| self.elb.capacity(arn)).await?);
            calls += 1;
        }
        let mut listeners = None;
        if depth.listeners || depth.listener_attributes {
            let (read, took) = self.read_listeners(arn, depth.listener_attributes).await?;
            listeners = Some(read);
            calls += took;
        }
        let mut known = self.known();
        let newer = known.written_since(arn, begun);
        let Some(member) = known.assets.balancers.get_mut(arn) else { return Ok(calls) };
        let before = member.clone();
        let differs = |now: &Member| {
            // What is read for the first time is news to nobody but who asked.
            (before.attributes.is_some() && before.attributes != now.attributes)
                || (before.web_acl.is_some() && before.web_acl != now.web_acl)
                || (before.capacity.is_some() && before.capacity != now.capacity)
                || (before.listeners.is_some() && before.listeners != now.listeners)
        };
        // What was written since the reading began is newer than what was read.
        if !newer {
            member.attributes = attributes.or_else(|| member.attributes.take());
            member.web_acl = web_acl.or_else(|| member.web_acl.take());
            member.capacity = capacity.or_else(|| member.capacity.take());
            member.listeners = listeners.or_else(|| member.listeners.take());
        }
        let changed = differs(member).then(|| self.concerned(&member.tags)).flatten();
        known.wake(changed.into_iter().collect());
        known.marks.entry(arn.to_owned()).or_default().read = Some(Instant::now());
        Ok(calls)
    }

    async fn read_listeners(
        &self,
        balancer: &str,
        attributes: bool,
    ) -> Result<(BTreeMap<String, ListenerMember>, usize), AwsError> {
        let listeners: Vec<Listener> = persistently(|| self.elb.listeners(balancer)).await?;
        let mut calls = 1;
        let mut members = BTreeMap::new();
        for listener in listeners {
            let rules = persistently(|| self.elb.rules(&listener.arn)).await?;
            calls += 1;
            let certificates = if listener.settings.protocol == Protocol::Https {
                calls += 1;
                persistently(|| self.elb.certificates(&listener.arn)).await?
            } else {
                BTreeSet::new()
            };
            let attributes = if attributes {
                calls += 1;
                Some(persistently(|| self.elb.listener_attributes(&listener.arn)).await?)
            } else {
                None
            };
            let rules = rules.into_iter().map(|rule| (rule.arn.clone(), RuleMember { rule, tags: Pairs::new() }));
            let rules = rules.collect();
            let arn = listener.arn.clone();
            members.insert(arn, ListenerMember { listener, tags: Pairs::new(), certificates, attributes, rules });
        }
        let arns: Vec<String> =
            members.iter().flat_map(|(arn, member)| [arn].into_iter().chain(member.rules.keys())).cloned().collect();
        calls += arns.len().div_ceil(20);
        let mut tags = persistently(|| self.elb.tags(&arns)).await?;
        for (arn, member) in &mut members {
            member.tags = tags.remove(arn).unwrap_or_default();
            for (arn, rule) in &mut member.rules {
                rule.tags = tags.remove(arn).unwrap_or_default();
            }
        }
        Ok((members, calls))
    }

    pub(super) async fn read_group_attributes(&self, arn: &str) -> Result<(), AwsError> {
        let begun = Instant::now();
        let attributes = persistently(|| self.elb.group_attributes(arn)).await?;
        let mut known = self.known();
        if known.written_since(arn, begun) {
            return Ok(());
        }
        let Some(member) = known.assets.groups.get_mut(arn) else { return Ok(()) };
        let changed = member.attributes.as_ref().is_some_and(|before| *before != attributes);
        member.attributes = Some(attributes);
        let concerned = changed.then(|| self.concerned(&member.tags)).flatten();
        known.wake(concerned.into_iter().collect());
        Ok(())
    }
}

/// Reads once more at once what could not be read for a passing reason: it takes many reads to know a balancer, and all
/// of them are needed.
async fn persistently<T, F: Future<Output = Result<T, AwsError>>>(read: impl Fn() -> F) -> Result<T, AwsError> {
    for _ in 1..ATTEMPTS {
        match read().await {
            Err(error) if error.class == Class::Transient => {}
            other => return other,
        }
    }
    read().await
}
