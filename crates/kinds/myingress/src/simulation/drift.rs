//! Changes that others make to our resources.

use proptest::prelude::*;
use proptest::sample::Index;

use causeway_aws::ec2::{Permission, Source};
use causeway_aws::elbv2::{FixedResponse, Pairs, Rule, RuleAction, RuleSettings};

use super::aws::Aws;
use crate::model::default_balancer_attribute;
use crate::ownership::Owner;
use crate::region::assets::{ListenerMember, Member, RuleMember};

/// A change that an administrator makes in AWS's console.
#[derive(Clone, Debug)]
pub enum Drift {
    DeleteBalancer,
    DeleteListener(Index),
    DeleteRule(Index),
    AnswerOtherwise(Index),
    MoveRule(Index, u16),
    AddRule(Index, u16),
    AnswerOtherwiseByDefault(Index),
    ResetTags,
    ResetAttributes,
    ResetGroup(Index),
    OpenSecurityGroup,
    CloseSecurityGroup,
    KeepIn,
    LetOut,
    ShutOut,
    TakeAcl,
    TagEverything,
}

/// A tag key that others set.
pub const FOREIGN_TAG: &str = "billing";

pub fn any() -> impl Strategy<Value = Drift> {
    let place = proptest::arbitrary::any::<Index>;
    prop_oneof![
        Just(Drift::DeleteBalancer),
        place().prop_map(Drift::DeleteListener),
        place().prop_map(Drift::DeleteRule),
        place().prop_map(Drift::AnswerOtherwise),
        (place(), 1..200_u16).prop_map(|(place, priority)| Drift::MoveRule(place, priority)),
        (place(), 1000..1010_u16).prop_map(|(place, priority)| Drift::AddRule(place, priority)),
        place().prop_map(Drift::AnswerOtherwiseByDefault),
        Just(Drift::ResetTags),
        Just(Drift::ResetAttributes),
        place().prop_map(Drift::ResetGroup),
        Just(Drift::OpenSecurityGroup),
        Just(Drift::CloseSecurityGroup),
        Just(Drift::KeepIn),
        Just(Drift::LetOut),
        Just(Drift::ShutOut),
        Just(Drift::TakeAcl),
        Just(Drift::TagEverything),
    ]
}

impl Drift {
    /// Makes the change to the owner's resources, if there are such.
    pub fn happens(&self, aws: &mut Aws, owner: &Owner) {
        let teapot = || vec![RuleAction::FixedResponse(FixedResponse { status: 418, content_type: None, body: None })];
        match self {
            Self::DeleteBalancer => {
                aws.assets.balancers.retain(|_, member| !owner.owns(&member.tags));
                let left = &aws.assets.balancers;
                aws.assets.groups.values_mut().for_each(|it| it.group.balancers.retain(|arn| left.contains_key(arn)));
            }
            Self::DeleteListener(which) => {
                let gone = pick(listeners(aws, owner), *which).map(|member| member.listener.arn.clone());
                for member in balancers(aws, owner) {
                    member.listeners.iter_mut().for_each(|it| it.retain(|arn, _| gone.as_ref() != Some(arn)));
                }
            }
            Self::DeleteRule(which) => {
                let gone = pick(rules(aws, owner), *which).map(|member| member.rule.arn.clone());
                listeners(aws, owner).for_each(|member| member.rules.retain(|arn, _| gone.as_ref() != Some(arn)));
            }
            Self::AnswerOtherwise(which) => {
                if let Some(member) = pick(rules(aws, owner), *which) {
                    member.rule.settings.actions = teapot();
                }
            }
            Self::MoveRule(which, to) => {
                let moved = pick(rules(aws, owner), *which).map(|member| member.rule.arn.clone());
                let Some(arn) = moved else { return };
                let holding = |it: &&mut ListenerMember| it.rules.contains_key(&arn);
                let Some(listener) = listeners(aws, owner).find(holding) else { return };
                if listener.rules.values().all(|rule| rule.rule.priority != *to) {
                    listener.rules.get_mut(&arn).into_iter().for_each(|rule| rule.rule.priority = *to);
                }
            }
            Self::AddRule(which, priority) => {
                let Some(listener) = pick(listeners(aws, owner), *which) else { return };
                if listener.rules.values().all(|rule| rule.rule.priority != *priority) {
                    let arn = format!("{}/foreign-{priority}", listener.listener.arn);
                    let settings = RuleSettings { conditions: [].into(), transforms: Vec::new(), actions: teapot() };
                    let rule = Rule { arn: arn.clone(), priority: *priority, settings };
                    listener.rules.insert(arn, RuleMember { rule, tags: [("of".into(), "others".into())].into() });
                }
            }
            Self::AnswerOtherwiseByDefault(which) => {
                if let Some(member) = pick(listeners(aws, owner), *which) {
                    member.listener.settings.default_actions = teapot();
                }
            }
            Self::ResetTags => {
                let keep = |key: &String| key.ends_with("/cluster") || key.ends_with("/uid");
                for member in balancers(aws, owner) {
                    member.tags.retain(|key, _| keep(key));
                    for listener in member.listeners.iter_mut().flat_map(|it| it.values_mut()) {
                        if owner.owns(&listener.tags) {
                            listener.tags.retain(|key, _| keep(key));
                        }
                    }
                }
            }
            Self::ResetAttributes => balancers(aws, owner).for_each(|member| reset_attributes(member, owner)),
            Self::ResetGroup(which) => {
                let groups = aws.assets.groups.values_mut().filter(|member| owner.owns(&member.tags));
                if let Some(member) = pick(groups, *which) {
                    member.attributes.iter_mut().flat_map(|it| it.values_mut()).for_each(|it| "odd".clone_into(it));
                    member.group.health_check.iter_mut().for_each(|check| check.path = "/odd".into());
                }
            }
            Self::OpenSecurityGroup => {
                let anywhere = Permission::tcp(22, Source::Network("0.0.0.0/0".into()));
                let groups = aws.assets.security_groups.values_mut().filter(|group| owner.owns(&group.tags));
                groups.for_each(|group| group.ingress.extend([anywhere.clone()]));
            }
            Self::CloseSecurityGroup => {
                let groups = aws.assets.security_groups.values_mut().filter(|group| owner.owns(&group.tags));
                groups.for_each(|group| group.ingress.clear());
            }
            Self::KeepIn => {
                let groups = aws.assets.security_groups.values_mut().filter(|group| owner.owns(&group.tags));
                groups.for_each(|group| group.egress.clear());
            }
            Self::LetOut => {
                let elsewhere = Permission::tcp(443, Source::Network("192.0.2.0/24".into()));
                let groups = aws.assets.security_groups.values_mut().filter(|group| owner.owns(&group.tags));
                groups.for_each(|group| group.egress = [elsewhere.clone()].into());
            }
            Self::ShutOut => {
                let own = aws.assets.owned_by(owner).entries;
                aws.assets.entries.retain(|entry| !own.contains(entry));
            }
            Self::TakeAcl => balancers(aws, owner).for_each(|member| member.web_acl = Some(None)),
            Self::TagEverything => every_part(aws, owner, |tags| {
                tags.insert(FOREIGN_TAG.into(), "of others".into());
            }),
        }
        aws.disturbed();
    }
}

/// Changes the attributes of a balancer and of the owner's listeners.
fn reset_attributes(member: &mut Member, owner: &Owner) {
    // Only a value that is not AWS's default was surely set by us.
    let scheme = member.balancer.scheme.unwrap_or_default();
    let set = |(key, value): &(&String, &mut String)| default_balancer_attribute(key, scheme) != Some(value.as_str());
    for (_, value) in member.attributes.iter_mut().flatten().filter(set) {
        "odd".clone_into(value);
    }
    let listeners = member.listeners.iter_mut().flat_map(|it| it.values_mut());
    for listener in listeners.filter(|listener| owner.owns(&listener.tags)) {
        for value in listener.attributes.iter_mut().flat_map(|it| it.values_mut()) {
            "odd".clone_into(value);
        }
    }
}

/// Changes the tags of all resources of the owner.
pub fn every_part(aws: &mut Aws, owner: &Owner, change: impl Fn(&mut Pairs)) {
    rules(aws, owner).for_each(|rule| change(&mut rule.tags));
    listeners(aws, owner).for_each(|listener| change(&mut listener.tags));
    balancers(aws, owner).for_each(|member| change(&mut member.tags));
    aws.assets.groups.values_mut().filter(|it| owner.owns(&it.tags)).for_each(|it| change(&mut it.tags));
    aws.assets.security_groups.values_mut().filter(|it| owner.owns(&it.tags)).for_each(|it| change(&mut it.tags));
}

fn balancers<'a>(aws: &'a mut Aws, owner: &'a Owner) -> impl Iterator<Item = &'a mut Member> {
    aws.assets.balancers.values_mut().filter(|member| owner.owns(&member.tags))
}

fn listeners<'a>(aws: &'a mut Aws, owner: &'a Owner) -> impl Iterator<Item = &'a mut ListenerMember> {
    let all = balancers(aws, owner).flat_map(|member| member.listeners.iter_mut().flat_map(|it| it.values_mut()));
    all.filter(|member| owner.owns(&member.tags))
}

fn rules<'a>(aws: &'a mut Aws, owner: &'a Owner) -> impl Iterator<Item = &'a mut RuleMember> {
    listeners(aws, owner).flat_map(|member| member.rules.values_mut()).filter(|rule| owner.owns(&rule.tags))
}

fn pick<'a, T>(from: impl Iterator<Item = &'a mut T>, which: Index) -> Option<&'a mut T> {
    let mut all: Vec<&'a mut T> = from.collect();
    (!all.is_empty()).then(|| all.swap_remove(which.index(all.len())))
}
