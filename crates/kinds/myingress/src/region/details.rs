//! Details that AWS shows of only one balancer per call: listeners, rules, attributes. They are read when an object
//! needs them, and from then on again in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use causeway_aws::aws::AwsError;
use causeway_aws::elbv2::{Elbv2, Listener, Pairs, Protocol};
use causeway_aws::wafv2::Wafv2;
use causeway_runtime::Class;

use super::Region;
use crate::ownership::Owner;
use crate::region::assets::{ListenerMember, Member, RuleMember};

/// A read is tried at most this many times in a row.
const ATTEMPTS: usize = 3;

/// The details of a balancer that an object needs to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a call of its own that may be spared")]
pub struct Depth {
    pub attributes: bool,
    /// Its listeners and their rules.
    pub listeners: bool,
    pub listener_attributes: bool,
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

    /// Reports whether there is anything to read at all.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Reports whether there is nothing to read but what belongs to target groups.
    pub fn is_of_groups_alone(self) -> bool {
        self == Self { groups: true, ..Self::default() }
    }
}

/// The clients by which details are read.
#[derive(Clone, Debug)]
pub struct Reader {
    /// Load balancing.
    pub elb: Elbv2,
    /// Web ACLs.
    pub wafv2: Wafv2,
}

impl Region {
    /// Reads those details of the owner's resources that are not known yet. From then on they are read again in turn.
    pub async fn learn(&self, owner: &Owner, depth: Depth) -> Result<(), AwsError> {
        let (balancers, groups) = self.unread(owner, depth);
        for (arn, missing) in balancers {
            self.read_balancer(&self.reader(), &arn, missing, &[]).await?;
        }
        for arn in groups {
            self.read_group_attributes(&self.reader(), &arn).await?;
        }
        Ok(())
    }

    /// Returns the details of the owner's balancers that were not read yet, and the owner's target groups whose
    /// attributes were not read.
    fn unread(&self, owner: &Owner, depth: Depth) -> (Vec<(String, Depth)>, Vec<String>) {
        let mut known = self.lock();
        let own: Vec<String> = known.assets.balancers_of(owner).into_iter().cloned().collect();
        for arn in &own {
            let mark = known.mark(arn);
            mark.depth = mark.depth.and(depth);
        }
        let member = |arn: &String| known.assets.balancers.get(arn).map(|member| missing_of(member, depth));
        let missing = own.iter().filter_map(|arn| Some((arn.clone(), member(arn)?)));
        let missing = missing.filter(|(_, missing)| !missing.is_empty()).collect();
        let groups = if depth.groups { known.assets.groups_of(owner) } else { Vec::new() };
        let is_unread = |arn: &&String| known.assets.groups.get(*arn).is_some_and(|it| it.attributes.is_none());
        (missing, groups.into_iter().filter(is_unread).cloned().collect())
    }

    fn reader(&self) -> Reader {
        Reader { elb: self.elb.clone(), wafv2: self.wafv2.clone() }
    }

    /// Reads these details of a balancer, and returns the tags of these target groups.
    pub(super) async fn read_balancer(
        &self,
        reader: &Reader,
        arn: &str,
        depth: Depth,
        groups: &[String],
    ) -> Result<BTreeMap<String, Pairs>, AwsError> {
        let begun = Instant::now();
        let mut attributes = None;
        if depth.attributes {
            attributes = Some(persistently(|| reader.elb.attributes(arn)).await?);
        }
        let mut web_acl = None;
        if depth.web_acl {
            web_acl = Some(persistently(|| reader.wafv2.web_acl_of(arn)).await?);
        }
        let mut capacity = None;
        if depth.capacity {
            capacity = Some(persistently(|| reader.elb.capacity(arn)).await?);
        }
        let mut listeners = None;
        if depth.listeners || depth.listener_attributes {
            listeners = Some(read_listeners(reader, arn, depth.listener_attributes).await?);
        }
        // One call reads the tags of up to 20 resources of any kind.
        let parts = listeners.iter().flatten().flat_map(|(arn, member)| [arn].into_iter().chain(member.rules.keys()));
        let arns: Vec<String> = parts.chain(groups).cloned().collect();
        let mut tags = persistently(|| reader.elb.tags(&arns)).await?;
        for (arn, member) in listeners.iter_mut().flatten() {
            member.tags = tags.remove(arn).unwrap_or_default();
            for (arn, rule) in &mut member.rules {
                rule.tags = tags.remove(arn).unwrap_or_default();
            }
        }
        if !depth.is_empty() {
            self.enter_details(arn, begun, Details { attributes, web_acl, capacity, listeners });
        }
        Ok(tags)
    }

    fn enter_details(&self, arn: &str, begun: Instant, details: Details) {
        let mut known = self.lock();
        let newer = known.written_since(arn, begun);
        let Some(before) = known.assets.balancers.get(arn).cloned() else { return };
        let mut member = before.clone();
        let differs = |now: &Member| {
            // The first read of a detail is no change: only the caller waits for it.
            (before.attributes.is_some() && before.attributes != now.attributes)
                || (before.web_acl.is_some() && before.web_acl != now.web_acl)
                || (before.capacity.is_some() && before.capacity != now.capacity)
                || (before.listeners.is_some() && before.listeners != now.listeners)
        };
        // A change that was made since the read began is newer than what was read.
        if !newer {
            let attributes = details.attributes.map(|read| with_absent(read, before.attributes.as_ref()));
            member.attributes = attributes.or_else(|| member.attributes.take());
            member.web_acl = details.web_acl.or_else(|| member.web_acl.take());
            member.capacity = details.capacity.or_else(|| member.capacity.take());
            let mut listeners = details.listeners;
            for (arn, listener) in listeners.iter_mut().flatten() {
                let former = before.listeners.as_ref().and_then(|former| former.get(arn)?.attributes.as_ref());
                listener.attributes = listener.attributes.take().map(|read| with_absent(read, former));
            }
            member.listeners = listeners.or_else(|| member.listeners.take());
        }
        let changed = differs(&member).then(|| self.concerned(&member.tags)).flatten();
        // An index of the assets stays valid until they change.
        if member != before {
            known.assets.balancers.insert(arn.to_owned(), member);
        }
        known.wake(changed.into_iter().collect());
        known.mark(arn).read = Some(Instant::now());
    }

    pub(super) async fn read_group_attributes(&self, reader: &Reader, arn: &str) -> Result<(), AwsError> {
        let begun = Instant::now();
        let attributes = persistently(|| reader.elb.group_attributes(arn)).await?;
        let mut known = self.lock();
        if known.written_since(arn, begun) {
            return Ok(());
        }
        let Some(member) = known.assets.groups.get(arn) else { return Ok(()) };
        let attributes = with_absent(attributes, member.attributes.as_ref());
        if member.attributes.as_ref() == Some(&attributes) {
            return Ok(());
        }
        // The first read is no change: only the caller waits for it.
        let concerned = member.attributes.as_ref().and_then(|_| self.concerned(&member.tags));
        if let Some(member) = known.assets.groups.get_mut(arn) {
            member.attributes = Some(attributes);
        }
        known.wake(concerned.into_iter().collect());
        Ok(())
    }
}

/// Returns those of these details of a balancer that were not read yet.
fn missing_of(member: &Member, depth: Depth) -> Depth {
    let listeners = member.listeners.as_ref();
    let without =
        |listeners: &BTreeMap<String, ListenerMember>| listeners.values().any(|listener| listener.attributes.is_none());
    Depth {
        attributes: depth.attributes && member.attributes.is_none(),
        listeners: depth.listeners && listeners.is_none(),
        listener_attributes: depth.listener_attributes && listeners.is_none_or(without),
        web_acl: depth.web_acl && member.web_acl.is_none(),
        capacity: depth.capacity && member.capacity.is_none(),
        groups: false,
    }
}

/// Completes an answer: keys that it lacks keep their known values, because an absent key has not changed.
fn with_absent(mut read: Pairs, known: Option<&Pairs>) -> Pairs {
    for (key, value) in known.into_iter().flatten() {
        read.entry(key.clone()).or_insert_with(|| value.clone());
    }
    read
}

/// The details of a balancer; `None` for those that were not read.
#[expect(clippy::option_option, reason = "not read, none, and some are three different things")]
struct Details {
    attributes: Option<Pairs>,
    web_acl: Option<Option<String>>,
    capacity: Option<Option<u32>>,
    listeners: Option<BTreeMap<String, ListenerMember>>,
}

/// Reads listeners and rules, without their tags.
async fn read_listeners(
    reader: &Reader,
    balancer: &str,
    attributes: bool,
) -> Result<BTreeMap<String, ListenerMember>, AwsError> {
    let listeners: Vec<Listener> = persistently(|| reader.elb.listeners(balancer)).await?;
    let mut members = BTreeMap::new();
    for listener in listeners {
        let rules = persistently(|| reader.elb.rules(&listener.arn)).await?;
        let certificates = if listener.settings.protocol == Protocol::Https {
            persistently(|| reader.elb.certificates(&listener.arn)).await?
        } else {
            BTreeSet::new()
        };
        let attributes =
            if attributes { Some(persistently(|| reader.elb.listener_attributes(&listener.arn)).await?) } else { None };
        let rules = rules.into_iter().map(|rule| (rule.arn.clone(), RuleMember { rule, tags: Pairs::new() }));
        let rules = rules.collect();
        let arn = listener.arn.clone();
        members.insert(arn, ListenerMember { listener, tags: Pairs::new(), certificates, attributes, rules });
    }
    Ok(members)
}

/// Repeats a read at once if it failed for a transient reason. A balancer takes many reads, and all of them are needed.
async fn persistently<T, F: Future<Output = Result<T, AwsError>>>(read: impl Fn() -> F) -> Result<T, AwsError> {
    for _ in 1..ATTEMPTS {
        match read().await {
            Err(error) if error.class == Class::Transient => {}
            other => return other,
        }
    }
    read().await
}
