//! A model of AWS, with the changes that it allows and refuses.

use std::collections::BTreeSet;

use causeway_aws::acm::Certificate;
use causeway_aws::ec2::{SecurityGroup, Subnet};
use causeway_aws::elbv2::{IpAddressType, Protocol, ProtocolVersion, RuleAction, State};

use crate::action::predicted::{self, PredictedAws, forwards_to};
use crate::action::{Action, BalancerAction, GroupAction, ListenerAction, SecurityAction};
use crate::model::Limits;
use crate::ownership::{Owner, entry_mark};
use crate::region::assets::{Assets, ListenerMember, Member};

/// The account.
#[derive(Clone, Debug, Default)]
pub struct Aws {
    pub assets: Assets,
    /// Groups whose targets fail their health checks.
    pub sick: BTreeSet<String>,
    /// For this many times, resources that a deleted balancer used still count as in use.
    pub lingering: usize,
    predicted: PredictedAws,
}

/// A resource that is in use does not allow the call now.
#[derive(Debug)]
pub struct InUse;

/// Two zones with several subnets each. One subnet is full and has no IPv6, and those with a letter have other tags. The
/// first one and the last one are in another VPC.
pub fn subnets() -> Vec<Subnet> {
    let subnet = |(number, name): (usize, char)| Subnet {
        id: format!("subnet-{name}"),
        vpc: if matches!(name, 'x' | 'y') { "vpc-2" } else { "vpc-1" }.into(),
        zone: format!("zone-{}", number % 2),
        free_addresses: if name == '4' { 1 } else { 100 },
        ipv6: name != '4',
        tags: [(if name.is_ascii_digit() { "tier" } else { "of" }.to_owned(), "public".to_owned())].into(),
    };
    "x01234aby".chars().enumerate().map(subnet).collect()
}

/// Security groups of others: two for the edge, and three for targets, of which one does not agree to anything.
pub fn others() -> Vec<SecurityGroup> {
    let group = |(id, name, vpc, agrees): (&str, &str, &str, bool)| {
        let consent = agrees.then(|| ("causeway.example.com/let-in".to_owned(), "prod".to_owned()));
        let tags = [("Name".to_owned(), name.to_owned())].into_iter().chain(consent).collect();
        let (name, vpc, none) = (id.into(), vpc.into(), BTreeSet::new);
        SecurityGroup { id: id.into(), name, vpc, tags, ingress: none(), egress: none() }
    };
    let all = [
        ("sg-2", "edge", "vpc-1", false),
        ("sg-9", "edge", "vpc-2", false),
        ("sg-nodes", "nodes", "vpc-1", true),
        ("sg-pods", "pods", "vpc-1", true),
        ("sg-vault", "vault", "vpc-1", false),
    ];
    all.into_iter().map(group).collect()
}

/// One certificate for all hosts of the tests.
pub fn certificates() -> Vec<Certificate> {
    let names = ["*.example.com".to_owned()].into();
    vec![Certificate { arn: "arn:aws:acm:eu-west-1:000000000000:certificate/wild".into(), names, expires: None }]
}

impl Aws {
    /// Checks what AWS checks, and carries out the action. A violation that no rival could cause is a mistake in a
    /// decision, and fails the test.
    pub fn act(&mut self, owner: &Owner, action: &Action) -> Result<(), InUse> {
        match action {
            Action::Security(action) => self.check_security(owner, action)?,
            Action::Balancer(action) => self.check_balancer(owner, action),
            Action::Group(action) => self.check_group(owner, action)?,
            Action::Listener(action) => self.check_listener(owner, action),
            Action::Bind(_) => {}
        }
        let deletes = matches!(action, Action::Balancer(BalancerAction::Delete { .. }));
        self.predicted.enter(&mut self.assets, &subnets(), action);
        self.check_references();
        self.linger(deletes);
        Ok(())
    }

    /// Lets balancers become active. Returns whether something changed.
    pub fn time_passes(&mut self) -> bool {
        let mut changed = std::mem::take(&mut self.lingering) > 0;
        for member in self.assets.balancers.values_mut().filter(|it| it.balancer.state == State::Provisioning) {
            member.balancer.state = State::Active;
            changed = true;
        }
        changed
    }

    /// Notes that another client changed something.
    pub fn disturbed(&mut self) {
        let balancers: Vec<String> = self.assets.balancers.keys().cloned().collect();
        for arn in &balancers {
            predicted::hang(&mut self.assets, arn);
        }
    }

    fn linger(&mut self, deletes: bool) {
        self.lingering += usize::from(deletes);
    }

    fn lingers(&mut self) -> Result<(), InUse> {
        if self.lingering == 0 {
            return Ok(());
        }
        self.lingering -= 1;
        Err(InUse)
    }

    fn check_security(&mut self, owner: &Owner, action: &SecurityAction) -> Result<(), InUse> {
        let groups = &self.assets.security_groups;
        match action {
            SecurityAction::Create { name, vpc, .. } => {
                assert!(subnets().iter().any(|subnet| subnet.vpc == *vpc), "InvalidVpcID.NotFound: {vpc}");
                let twice = groups.values().any(|group| group.name == *name && group.vpc == *vpc);
                assert!(!twice, "InvalidGroup.Duplicate: {name}");
            }
            SecurityAction::Authorize { id, permissions } => {
                assert!(groups[id].ingress.is_disjoint(permissions), "InvalidPermission.Duplicate");
            }
            SecurityAction::Revoke { id, permissions } => {
                assert!(groups[id].ingress.is_superset(permissions), "InvalidPermission.NotFound");
            }
            SecurityAction::LetOut { id, permissions } => {
                assert!(groups[id].egress.is_disjoint(permissions), "InvalidPermission.Duplicate");
            }
            SecurityAction::KeepIn { id, permissions } => {
                assert!(groups[id].egress.is_superset(permissions), "InvalidPermission.NotFound");
            }
            SecurityAction::AddTags { .. } | SecurityAction::RemoveTags { .. } => {}
            SecurityAction::LetIn(entry) => {
                let lets_in = |group: &SecurityGroup| group.id == entry.group && group.tags.len() > 1;
                assert!(others().iter().any(lets_in), "UnauthorizedOperation: {entry:?}");
                let twice = self.assets.entries.iter().any(|it| it.is_same_rule(entry));
                assert!(!twice, "InvalidPermission.Duplicate: {entry:?}");
            }
            SecurityAction::ShutOut(entry) => {
                assert!(self.assets.entries.contains(entry), "InvalidPermission.NotFound: {entry:?}");
                assert_eq!(entry.description, entry_mark(owner), "a foreign rule is touched");
            }
            SecurityAction::Delete { id, .. } => {
                let mut balancers = self.assets.balancers.values();
                let mut entries = self.assets.entries.iter();
                if balancers.any(|member| member.balancer.security_groups.contains(id))
                    || entries.any(|entry| entry.from == *id)
                {
                    return Err(InUse);
                }
            }
        }
        let theirs = action.id().is_some_and(|id| !owner.owns(&self.assets.security_groups[id].tags));
        assert!(!theirs, "a foreign security group is touched: {action:?}");
        if matches!(action, SecurityAction::Delete { .. }) { self.lingers() } else { Ok(()) }
    }

    fn check_balancer(&self, owner: &Owner, action: &BalancerAction) {
        if let BalancerAction::Create(new) = action {
            let mut others = self.assets.balancers.values();
            assert!(others.all(|it| it.balancer.name != new.name), "DuplicateLoadBalancerName: {}", new.name);
            assert!(new.subnets.len() >= 2, "InvalidSubnet: {new:?}");
            suit(&new.subnets, Some(new.ip_address_type));
        }
        if let BalancerAction::Create(_) | BalancerAction::Adopt { .. } = action {
            return;
        }
        let balancer = &self.ours(owner, action.arn().unwrap()).balancer;
        match action {
            BalancerAction::SetSubnets { subnets, .. } => suit(subnets, balancer.ip_address_type),
            BalancerAction::SetIpAddressType { to, .. } => suit(&balancer.subnets, Some(*to)),
            _ => {}
        }
    }

    fn ours(&self, owner: &Owner, arn: &str) -> &Member {
        let member = &self.assets.balancers[arn];
        assert!(owner.owns(&member.tags), "a foreign balancer is touched: {}", member.balancer.name);
        member
    }

    fn check_group(&mut self, owner: &Owner, action: &GroupAction) -> Result<(), InUse> {
        match action {
            GroupAction::Create(new) => {
                let mut others = self.assets.groups.values();
                assert!(others.all(|it| it.group.name != new.name), "DuplicateTargetGroupName: {}", new.name);
                let mut own = self.assets.balancers.values().filter(|it| owner.owns(&it.tags));
                assert!(own.any(|it| it.balancer.vpc == new.kind.vpc), "a group stands where its balancer does");
                return Ok(());
            }
            GroupAction::SetHealthCheck { arn, .. }
            | GroupAction::SetAttributes { arn, .. }
            | GroupAction::AddTags { arn, .. }
            | GroupAction::RemoveTags { arn, .. }
            | GroupAction::Delete { arn, .. } => {
                assert!(owner.owns(&self.assets.groups[arn].tags), "a foreign target group is touched: {action:?}");
            }
        }
        if let GroupAction::SetAttributes { arn, attributes, .. } = action
            && attributes.get("stickiness.enabled").is_some_and(|it| it == "true")
        {
            assert!(!self.shares_without_stickiness(arn), "You must enable group stickiness first: {action:?}");
        }
        if let GroupAction::Delete { arn, .. } = action {
            if !self.assets.groups[arn].group.balancers.is_empty() {
                return Err(InUse);
            }
            return self.lingers();
        }
        Ok(())
    }

    /// Reports whether an action forwards to this group and to others, and lets clients wander among them. Whether AWS
    /// counts groups of weight 0 is not known.
    fn shares_without_stickiness(&self, group: &str) -> bool {
        let listeners = self.assets.balancers.values().flat_map(|it| &it.listeners).flat_map(|it| it.values());
        let mut actions = listeners.flat_map(|it| {
            let rules = it.rules.values().flat_map(|rule| &rule.rule.settings.actions);
            it.listener.settings.default_actions.iter().chain(rules)
        });
        actions.any(|action| match action {
            RuleAction::Forward { groups, stickiness: None } => groups.len() > 1 && groups.contains_key(group),
            _ => false,
        })
    }

    fn check_listener(&self, owner: &Owner, action: &ListenerAction) {
        let listeners = self.ours(owner, action.balancer()).listeners.as_ref().unwrap();
        match action {
            ListenerAction::Create { settings, .. } => {
                let mut present = listeners.values();
                assert!(
                    present.all(|it| it.listener.settings.port != settings.port),
                    "DuplicateListener: {settings:?}"
                );
                let certified = settings.certificate.is_some();
                assert_eq!(certified, settings.protocol == Protocol::Https, "CertificateNotFound: {settings:?}");
                self.fit(settings.protocol, &settings.default_actions);
            }
            ListenerAction::Modify { arn, settings, .. } => {
                let rules = own(owner, &listeners[arn]).rules.values();
                rules.for_each(|rule| self.fit(settings.protocol, &rule.rule.settings.actions));
                self.fit(settings.protocol, &settings.default_actions);
                let certified = settings.certificate.is_some();
                assert_eq!(certified, settings.protocol == Protocol::Https, "CertificateNotFound: {settings:?}");
            }
            ListenerAction::AddCertificates { arn, .. } | ListenerAction::RemoveCertificates { arn, .. } => {
                let listener = own(owner, &listeners[arn]);
                let https = listener.listener.settings.protocol == Protocol::Https;
                assert!(https, "a listener that speaks HTTP has no certificates");
                if let ListenerAction::AddCertificates { certificates, .. } = action {
                    let present: usize = listeners.values().map(|it| it.certificates.len()).sum();
                    let more = certificates.difference(&listener.certificates).count();
                    assert!(present + more <= Limits::default().certificates, "TooManyCertificates");
                }
                if let (ListenerAction::RemoveCertificates { certificates, .. }, Some(default)) =
                    (action, &listener.listener.settings.certificate)
                {
                    let listed = listener.certificates.contains(default);
                    assert!(
                        listed || !certificates.contains(default),
                        "OperationNotPermitted: {default} is the default one"
                    );
                }
            }
            ListenerAction::SetAttributes { arn, .. } | ListenerAction::Delete { arn, .. } => {
                own(owner, &listeners[arn]);
            }
            ListenerAction::AddTags { arn, .. } => {
                let rule = listeners.values().find_map(|it| it.rules.get(arn)).map(|rule| &rule.tags);
                let tags = rule.unwrap_or_else(|| &listeners[arn].tags);
                assert!(owner.owns(tags), "foreign tags are touched: {action:?}");
            }
            ListenerAction::RemoveTags { arns, .. } => {
                assert!(arns.len() <= 20, "too many at once: {action:?}");
                let rules = listeners.values().flat_map(|it| it.rules.iter()).map(|(arn, rule)| (arn, &rule.tags));
                let all = rules.chain(listeners.iter().map(|(arn, it)| (arn, &it.tags)));
                let known = all.filter(|(arn, tags)| arns.contains(*arn) && owner.owns(tags)).count();
                assert_eq!(known, arns.len(), "foreign tags are touched, or none: {action:?}");
            }
            ListenerAction::CreateRule { listener, priority, settings, .. } => {
                self.fit(listeners[listener].listener.settings.protocol, &settings.actions);
                let count: usize = listeners.values().map(|it| it.rules.len()).sum();
                assert!(count < Limits::default().rules, "TooManyRules");
                let mut rules = own(owner, &listeners[listener]).rules.values();
                assert!(rules.all(|rule| rule.rule.priority != *priority), "PriorityInUse: {settings:?}");
            }
            ListenerAction::ModifyRule { listener, arn, .. } | ListenerAction::DeleteRule { listener, arn, .. } => {
                let on = &listeners[listener];
                assert!(owner.owns(&on.rules[arn].tags), "a foreign rule is touched: {action:?}");
                if let ListenerAction::ModifyRule { settings, .. } = action {
                    self.fit(on.listener.settings.protocol, &settings.actions);
                }
            }
            ListenerAction::SetPriorities { listener, priorities, .. } => {
                let rules = &listeners[listener].rules;
                let ours = priorities.keys().all(|arn| owner.owns(&rules[arn].tags));
                assert!(ours, "a foreign rule is moved: {action:?}");
                let after = |(arn, rule): (&String, &_)| *priorities.get(arn).unwrap_or(priority_of(rule));
                let numbers: BTreeSet<u16> = rules.iter().map(after).collect();
                assert_eq!(numbers.len(), rules.len(), "PriorityInUse: {action:?}");
            }
        }
    }

    /// Log-ins, and target groups for other versions of HTTP, need HTTPS.
    fn fit(&self, protocol: Protocol, actions: &[RuleAction]) {
        let newer = |arn: &String| {
            let kind = self.assets.groups.get(arn).and_then(|it| it.group.kind.as_ref());
            kind.is_some_and(|kind| kind.version != ProtocolVersion::Http1)
        };
        let secure = |action: &RuleAction| match action {
            RuleAction::AuthenticateOidc(_) | RuleAction::AuthenticateCognito(_) | RuleAction::ValidateJwt(_) => true,
            RuleAction::Forward { groups, .. } => groups.keys().any(newer),
            _ => false,
        };
        let fits = protocol == Protocol::Https || !actions.iter().any(secure);
        assert!(fits, "InvalidLoadBalancerAction: only an HTTPS listener takes {actions:?}");
    }

    /// Every group that is forwarded to exists, and belongs to one balancer only.
    fn check_references(&self) {
        for member in self.assets.balancers.values() {
            for arn in member.listeners.iter().flat_map(|it| it.values()).flat_map(forwards_to) {
                let group = self.assets.groups.get(arn).map(|member| &member.group);
                assert!(group.is_some() || arn == OTHERS_GROUP, "TargetGroupNotFound: {arn}");
                let kind = group.and_then(|group| group.kind.as_ref());
                assert!(kind.is_none_or(|kind| kind.vpc == member.balancer.vpc), "it is in another VPC: {arn}");
            }
            let made_up = |id: &&String| id.contains(predicted::MADE_UP);
            for id in member.balancer.security_groups.iter().filter(made_up) {
                let here = self.assets.security_groups.get(id).is_some_and(|it| it.vpc == member.balancer.vpc);
                assert!(here, "InvalidSecurityGroup: {id}");
            }
        }
        for member in self.assets.groups.values() {
            assert!(member.group.balancers.len() <= 1, "TargetGroupAssociationLimit: {member:?}");
        }
    }
}

/// A target group that specs may name and that is none of Causeway's.
pub const OTHERS_GROUP: &str =
    "arn:aws:elasticloadbalancing:eu-west-1:000000000000:targetgroup/others/0123456789abcdef";

/// A balancer with IPv6 addresses stands in subnets that have some.
fn suit(ids: &BTreeSet<String>, kind: Option<IpAddressType>) {
    let mut all = subnets().into_iter().filter(|subnet| ids.contains(&subnet.id));
    let ipv4 = kind.is_none_or(|kind| kind == IpAddressType::Ipv4);
    assert!(ipv4 || all.all(|subnet| subnet.ipv6), "ValidationError: {ids:?} {kind:?}");
}

fn priority_of(rule: &crate::region::assets::RuleMember) -> &u16 {
    &rule.rule.priority
}

fn own<'a>(owner: &Owner, member: &'a ListenerMember) -> &'a ListenerMember {
    assert!(owner.owns(&member.tags), "a foreign listener is touched: {:?}", member.listener);
    member
}
