//! Any object becomes any other one, whatever of its Services is there: the plan ends, and no request that was answered
//! before goes to a target group that cannot take it while another could.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use proptest::collection::btree_map;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use causeway_api::MyIngress;
use causeway_api::myingress::BackendTargetType;
use causeway_aws::elbv2::{Condition, Match, Protocol, ProtocolVersion, RuleAction, RuleSettings};
use causeway_runtime::Health;

use super::aws::OTHERS_GROUP;
use super::groups::{complains, members, shared};
use super::shape::{Shape, assert_same};
use super::specs::BACKENDS;
use super::{Simulation, Supply, specs};
use crate::members::key;
use crate::model::fixtures::born;
use crate::model::{covers, nothing_here};
use crate::observe::facts::key_of;
use crate::ownership::{ObjectKey, Owner, member_of};

/// A request: port, host and path.
type Request = (u16, String, String);

/// The answer to each request before an edit, and the requests that were lost since.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    before: BTreeMap<Request, Answer>,
    /// Groups that got requests, by port and the conditions of the rule; `None` for the default action.
    busy: BTreeMap<(u16, Option<BTreeSet<Condition>>), BTreeSet<String>>,
    lost: Vec<String>,
    /// Ports with something that an HTTP listener cannot have.
    secure: BTreeSet<u16>,
}

#[derive(Clone, Debug)]
struct Answer {
    actions: Vec<RuleAction>,
    /// How well it answers: 2 with a healthy target or by itself, 1 with a target, 0 with none.
    quality: u8,
    /// The same of each group that gets requests.
    groups: BTreeMap<String, u8>,
    /// The member whose rule it is, and the conditions of that rule.
    rule: Option<(ObjectKey, BTreeSet<Condition>)>,
    /// The member that wants this rule no longer. What others do with its requests then is not asked: it need not wait for
    /// them.
    given_up_by: Option<ObjectKey>,
}

/// Actions, the member whose rule has them, and its conditions.
type Answered = (Vec<RuleAction>, Option<ObjectKey>, Option<BTreeSet<Condition>>);

fn requests() -> impl Iterator<Item = Request> {
    let hosts = ["h0", "h1", "h2", "h3", "h4", "other"].map(|host| format!("{host}.example.com"));
    let places = hosts.into_iter().flat_map(|host| ["/", "/shop", "/shop/cart"].map(|path| (host.clone(), path)));
    places.flat_map(|(host, path)| [80, 443, 8080, 8081, 8082].map(|port| (port, host.clone(), path.to_owned())))
}

fn matches(settings: &RuleSettings, (_, host, path): &Request) -> bool {
    settings.conditions.iter().all(|condition| match condition {
        Condition::Host(Match::Wildcards(hosts)) => hosts.iter().any(|it| covers(Some(it), Some(host))),
        Condition::Path(Match::Wildcards(paths)) => paths.iter().any(|it| covers(Some(it), Some(path))),
        Condition::Method(methods) => methods.contains("GET"),
        _ => false,
    })
}

/// The groups that get requests.
fn receivers(actions: &[RuleAction]) -> BTreeSet<String> {
    let groups = actions.iter().filter_map(|action| match action {
        RuleAction::Forward { groups, .. } => Some(groups),
        _ => None,
    });
    groups.flatten().filter(|(_, weight)| **weight > 0).map(|(arn, _)| arn.clone()).collect()
}

impl Simulation {
    /// Remembers what answers requests now. Those that members answer that leave are not asked about.
    fn watch_requests(&mut self, owner: &Owner, leaving: &BTreeSet<ObjectKey>) {
        let mut watch = Watch::default();
        let listeners = self.aws.assets.balancers.values().filter_map(|it| it.listeners.as_ref());
        for listener in listeners.flat_map(BTreeMap::values) {
            let rules = listener.rules.values().map(|it| &it.rule.settings.actions);
            if rules.chain([&listener.listener.settings.default_actions]).any(|actions| self.needs_https(actions)) {
                watch.secure.insert(listener.listener.settings.port);
            }
            for rule in listener.rules.values().map(|it| &it.rule.settings) {
                let place = (listener.listener.settings.port, Some(rule.conditions.clone()));
                watch.busy.entry(place).or_default().extend(self.and_backends(receivers(&rule.actions)));
            }
        }
        for request in requests() {
            let Some((actions, member, conditions)) = self.answer(owner, &request) else { continue };
            let groups = receivers(&actions);
            watch.busy.entry((request.0, conditions.clone())).or_default().extend(self.and_backends(groups.clone()));
            let tags = groups.iter().filter_map(|arn| member_of(&self.aws.assets.groups.get(arn)?.tags));
            let rule = member.clone().zip(conditions);
            if !member.into_iter().chain(tags).any(|member| leaving.contains(&member)) {
                let quality = self.quality(owner, &actions);
                let groups = groups.into_iter().flat_map(|arn| {
                    let fitness = self.fitness(owner, &arn);
                    self.and_backends([arn].into()).into_iter().map(move |name| (name, fitness))
                });
                let groups = groups.collect();
                watch.before.insert(request, Answer { actions, quality, groups, rule, given_up_by: None });
            }
        }
        self.watch = Some(watch);
    }

    /// Reports whether AWS allows these actions on an HTTPS listener only.
    pub(super) fn needs_https(&self, actions: &[RuleAction]) -> bool {
        let newer = |arn: &String| {
            let kind = self.aws.assets.groups.get(arn).and_then(|it| it.group.kind.as_ref());
            kind.is_some_and(|kind| kind.version != ProtocolVersion::Http1)
        };
        actions.iter().any(|action| match action {
            RuleAction::Forward { groups, .. } => groups.keys().any(newer),
            RuleAction::Redirect(_) | RuleAction::FixedResponse(_) => false,
            _ => true,
        })
    }

    /// Notes which rules their members want no longer, and forgets the requests of listeners that turn to HTTP and have
    /// something that HTTP cannot have. These wait for nothing: AWS would not turn them before the new targets are healthy.
    fn note_left(&mut self) {
        let object = self.objects[0].clone();
        let Some(model) = self.observe(&object).built.model else { return };
        let is_http = |port: &u16| model.listeners.get(port).is_some_and(|it| it.protocol == Protocol::Http);
        if let Some(watch) = &mut self.watch {
            let Watch { before, secure, .. } = watch;
            before.retain(|(port, ..), _| !secure.contains(port) || !is_http(port));
        }
        for (request, answer) in self.watch.iter_mut().flat_map(|watch| &mut watch.before) {
            let Some((member, conditions)) = &answer.rule else { continue };
            let mut rules = model.listeners.get(&request.0).into_iter().flat_map(|it| &it.rules);
            let stays = rules.any(|rule| rule.member == *member && rule.settings.conditions == *conditions);
            answer.given_up_by = (!stays).then(|| member.clone());
        }
    }

    /// Reports whether another member answers now what this one answered before and gave up. The default action of a
    /// suspended member stays, though no spec sets it: there the target groups say whose it is.
    fn is_given_up(&self, before: &Answer, port: u16, (actions, now): (&[RuleAction], Option<&ObjectKey>)) -> bool {
        let Some(former) = &before.given_up_by else { return false };
        let mut groups = receivers(actions).into_iter().filter_map(|arn| self.aws.assets.groups.get(&arn));
        if groups.any(|group| member_of(&group.tags).is_some_and(|it| it != *former)) {
            return true;
        }
        let sets_default =
            |object: &&MyIngress| object.spec.listeners.iter().any(|it| it.port == port && it.default_action.is_some());
        let setters: BTreeSet<ObjectKey> = self.objects.iter().filter(sets_default).map(key).collect();
        now.map_or_else(|| setters != BTreeSet::from([former.clone()]), |now| now != former)
    }

    /// Notes the requests that this step took from what could answer them.
    pub fn look(&mut self, owner: &Owner, step: &dyn Debug) {
        let Some(mut watch) = self.watch.take() else { return };
        let mut anew = BTreeSet::new();
        for (request, before) in &watch.before {
            let Some((now, member, conditions)) = self.answer(owner, request) else { continue };
            if self.is_given_up(before, request.0, (&now, member.as_ref())) {
                continue;
            }
            // A rule that goes before another one keeps its backends.
            let place = (request.0, conditions);
            let overtakes = place.1.is_some() || owner.is_group();
            let busy = watch.busy.get(&place).filter(|_| overtakes).cloned().unwrap_or_default();
            // Groups that AWS cannot check before, because nothing forwards, need targets at least.
            let checkable = matches!(before.actions[..], [RuleAction::Forward { .. }]);
            let need = before.quality.min(if checkable { 2 } else { 1 });
            for arn in receivers(&now) {
                let backend = self.backend_of(&arn);
                let same = backend.as_ref().and_then(|backend| before.groups.get(backend));
                let have = self.fitness(owner, &arn);
                let need = match before.groups.get(&arn) {
                    // It may follow another Service. Targets of a group that no owner binds stay as they are.
                    Some(fitness) => self.summary(owner, &arn).map_or(0, |_| *fitness),
                    None if busy.contains(&arn) || backend.is_some_and(|backend| busy.contains(&backend)) => {
                        // From here on what this rule becomes is compared with this backend.
                        anew.extend((have < need).then(|| request.clone()));
                        0
                    }
                    None => same.map_or(need, |fitness| need.min(*fitness)),
                };
                if have < need {
                    let before = &before.actions;
                    watch.lost.push(format!("{request:?} {have} of {need}: {before:?} → {now:?} by {step:?}"));
                }
            }
        }
        watch.before.retain(|request, _| !anew.contains(request));
        self.watch = Some(watch);
    }

    /// The Service and port that a group follows, and its member, by which a group of another balancer is the same.
    fn backend_of(&self, arn: &str) -> Option<String> {
        let tags = &self.aws.assets.groups.get(arn)?.tags;
        Some(format!("{} of {:?}", tags.get("causeway.example.com/backend")?, member_of(tags)))
    }

    fn and_backends(&self, groups: BTreeSet<String>) -> BTreeSet<String> {
        let backends: Vec<String> = groups.iter().filter_map(|arn| self.backend_of(arn)).collect();
        groups.into_iter().chain(backends).collect()
    }

    fn fitness(&self, owner: &Owner, arn: &String) -> u8 {
        // A process that has just started does not know what AWS goes on serving, and nothing is known of others' targets.
        if *arn == OTHERS_GROUP || !self.bound.knows(&key_of(owner)) {
            return 2;
        }
        // Where nothing is followed any more, targets stay as they are.
        if self.bound.get(&key_of(owner)).is_empty() {
            return 2;
        }
        let summary = self.summary(owner, arn).unwrap_or_default();
        if summary.healthy > 0 { 2 } else { u8::from(summary.registered > 0) }
    }

    fn quality(&self, owner: &Owner, actions: &[RuleAction]) -> u8 {
        match actions.last() {
            Some(RuleAction::Forward { .. }) => {
                receivers(actions).iter().map(|arn| self.fitness(owner, arn)).max().unwrap_or_default()
            }
            _ if actions == nothing_here() => 0,
            _ => 2,
        }
    }

    /// Returns the rule that answers a request that goes to the balancer in the status, with the member and the
    /// conditions of the rule.
    fn answer(&self, owner: &Owner, request: &Request) -> Option<Answered> {
        let shown = self.objects.iter().filter_map(|object| object.status.as_ref()?.alb.as_ref());
        let member = shown.into_iter().find_map(|alb| self.aws.assets.balancers.get(&alb.arn))?;
        let listeners = member.listeners.iter().flat_map(BTreeMap::values);
        let listener = listeners.into_iter().find(|it| it.listener.settings.port == request.0)?;
        let mut rules: Vec<_> = listener.rules.values().filter(|rule| owner.owns(&rule.tags)).collect();
        rules.sort_by_key(|rule| rule.rule.priority);
        let rule = rules.into_iter().find(|rule| matches(&rule.rule.settings, request));
        Some(rule.map_or_else(
            || (listener.listener.settings.default_actions.clone(), None, None),
            |rule| {
                let settings = &rule.rule.settings;
                (settings.actions.clone(), member_of(&rule.tags), Some(settings.conditions.clone()))
            },
        ))
    }

    fn lost_requests(&self) -> &[String] {
        self.watch.as_ref().map(|watch| watch.lost.as_slice()).unwrap_or_default()
    }

    fn is_ready(&self) -> bool {
        self.health.values().all(|health| matches!(health, Health::Ready(_)))
    }
}

fn shape(simulation: &mut Simulation) -> Shape {
    let object = simulation.objects[0].clone();
    let observed = simulation.observe(&object);
    Shape::new(&observed.owner, &simulation.aws.assets, observed.built.model.as_ref())
}

fn lacking() -> impl Strategy<Value = BTreeMap<String, Supply>> {
    btree_map(select(BACKENDS.map(str::to_owned).to_vec()), select(Supply::LACKING.to_vec()), 0..3)
}

/// Where a new account gets to with these objects.
fn reference(objects: Vec<MyIngress>) -> Simulation {
    let mut simulation = Simulation::with(objects);
    simulation.settle(None);
    simulation
}

fn forward(backend: &str) -> Value {
    json!({ "forward": { "backends": [{ "name": backend }] } })
}

fn spec(listeners: &Value, group: bool) -> Value {
    let backends: Vec<Value> = BACKENDS.iter().map(|name| json!({ "name": name, "port": 80 })).collect();
    let mut spec = json!({ "subnets": ["subnet-0", "subnet-1"], "listeners": listeners, "backends": backends });
    if group {
        spec["group"] = json!({ "name": "all" });
    }
    spec
}

#[test]
fn an_edit_that_removes_the_last_backend_in_use_ends() {
    let gone = json!({ "fixedResponse": { "statusCode": 503 } });
    for (after, group, crash) in [
        (json!([{ "port": 80, "defaultAction": gone }]), false, None),
        (json!([{ "port": 80, "defaultAction": gone }]), false, Some(1)),
        (json!([]), false, None),
        (json!([]), true, None),
        (json!([{ "port": 80, "defaultAction": gone }]), true, Some(2)),
    ] {
        let before = spec(&json!([{ "port": 80, "defaultAction": forward("app") }]), group);
        let mut all = vec![before];
        all.extend(group.then(|| spec(&json!([{ "port": 81, "defaultAction": gone }]), group)));
        let mut simulation = reference(members(&all));
        assert_eq!(simulation.aws.assets.groups.len(), 1);
        simulation.object("a").spec = born("a", 0, spec(&after, group)).spec;
        simulation.settle(crash);
        assert!(simulation.aws.assets.groups.is_empty() && simulation.is_ready(), "{:?}", simulation.health);
    }
}

#[test]
fn requests_stay_while_the_new_backend_is_unhealthy() {
    let old = json!([{ "port": 80, "defaultAction": forward("app") }]);
    let page = json!({ "fixedResponse": { "statusCode": 200 } });
    let rule = |action: Value| json!([{ "hosts": ["h1.example.com"], "action": action }]);
    let wide = json!([{ "hosts": ["h1.example.com", "h2.example.com"], "action": forward("api") }]);
    for (before, after) in [
        (old.clone(), json!([{ "port": 80, "defaultAction": forward("api") }])),
        (old.clone(), json!([{ "port": 80, "defaultAction": forward("app"), "rules": rule(forward("api")) }])),
        (
            json!([{ "port": 80, "rules": rule(forward("app")) }]),
            json!([{ "port": 80, "defaultAction": forward("api") }]),
        ),
        (json!([{ "port": 80, "rules": rule(forward("app")) }]), json!([{ "port": 80, "rules": wide }])),
    ] {
        for supply in Supply::LACKING {
            let mut simulation = reference(vec![born("web", 0, spec(&before, false))]);
            let owner = Simulation::owner(&simulation.objects[0]);
            simulation.supplies.insert("api".into(), supply);
            simulation.watch_requests(&owner, &BTreeSet::new());
            simulation.object("web").spec = born("web", 0, spec(&after, false)).spec;
            if supply == Supply::NoNodes {
                let backends = simulation.object("web").spec.backends.iter_mut();
                backends.for_each(|it| it.target_type = BackendTargetType::Instance);
            }
            simulation.settle(None);
            assert_eq!(simulation.lost_requests(), [] as [&str; 0], "{supply:?} {after}");
            assert!(!simulation.is_ready(), "{supply:?} {after}: {:?}", simulation.health);
            let (_, health) = simulation.health.first_key_value().unwrap();
            let (Health::Progressing(cause) | Health::Stalled(cause)) = health else { panic!("{health:?}") };
            assert!(["backend api", "backends[1]"].iter().any(|it| cause.message.contains(it)), "{cause:?}");
            simulation.supplies.clear();
            simulation.settle(None);
            assert!(simulation.is_ready(), "{:?}", simulation.health);
            let mut fresh = simulation.objects.clone();
            fresh[0].status = None;
            assert_same(&shape(&mut simulation), &shape(&mut reference(fresh)));
        }
    }
    // The same backend with another Service keeps the targets of the former one.
    for supply in Supply::LACKING.into_iter().filter(|supply| *supply != Supply::NoNodes) {
        let mut simulation = reference(vec![born("web", 0, spec(&old, false))]);
        let owner = Simulation::owner(&simulation.objects[0]);
        simulation.supplies.insert("api".into(), supply);
        simulation.watch_requests(&owner, &BTreeSet::new());
        simulation.object("web").spec.backends[0].service = Some("api".into());
        for crash in [None, Some(0)] {
            simulation.settle(crash);
            assert_eq!((simulation.lost_requests(), simulation.is_ready()), (&[][..], false), "{supply:?}");
            let (_, health) = simulation.health.first_key_value().unwrap();
            let (Health::Progressing(cause) | Health::Stalled(cause)) = health else { panic!("{health:?}") };
            assert!(["Service api", "backends[0]"].iter().any(|it| cause.message.contains(it)), "{cause:?}");
            simulation.die();
        }
        simulation.supplies.clear();
        simulation.settle(None);
        assert!(simulation.is_ready() && simulation.lost_requests().is_empty(), "{:?}", simulation.health);
        let tags = simulation.aws.assets.groups.values().map(|it| it.tags["causeway.example.com/backend"].as_str());
        assert_eq!(tags.collect::<Vec<_>>(), ["api:80"]);
    }
    // A page that answered stays while there is nothing to answer instead.
    let mut simulation = reference(vec![born("web", 0, spec(&json!([{ "port": 80, "defaultAction": page }]), false))]);
    let owner = Simulation::owner(&simulation.objects[0]);
    simulation.supplies.insert("api".into(), Supply::NoPods);
    simulation.watch_requests(&owner, &BTreeSet::new());
    let after = json!([{ "port": 80, "defaultAction": forward("api") }]);
    simulation.object("web").spec = born("web", 0, spec(&after, false)).spec;
    simulation.settle(None);
    assert_eq!((simulation.lost_requests().len(), simulation.is_ready()), (0, false));
    simulation.supplies.clear();
    simulation.settle(None);
    assert!(simulation.is_ready(), "{:?}", simulation.health);
}

#[test]
fn a_new_balancer_takes_no_requests_that_it_cannot_answer() {
    let page = json!({ "fixedResponse": { "statusCode": 200 } });
    let redirect = json!({ "redirect": { "host": "example.org" } });
    let foreign = json!({ "forward": { "targetGroups": [{ "arn": OTHERS_GROUP }] } });
    let rule = |action: &Value| json!([{ "hosts": ["h1.example.com"], "action": action }]);
    for before in [
        json!([{ "port": 80, "defaultAction": page }]),
        json!([{ "port": 80, "defaultAction": redirect }]),
        json!([{ "port": 80, "defaultAction": foreign }]),
        json!([{ "port": 80, "rules": rule(&page) }]),
    ] {
        for supply in Supply::LACKING {
            let of_scheme = |scheme: &str, listeners: &Value| {
                let mut spec = spec(listeners, false);
                spec["scheme"] = json!(scheme);
                born("web", 0, spec)
            };
            let mut simulation = reference(vec![of_scheme("internet-facing", &before)]);
            let owner = Simulation::owner(&simulation.objects[0]);
            simulation.supplies.insert("api".into(), supply);
            simulation.watch_requests(&owner, &BTreeSet::new());
            let after = json!([{ "port": 80, "defaultAction": forward("api") }]);
            simulation.object("web").spec = of_scheme("internal", &after).spec;
            if supply == Supply::NoNodes {
                let backends = simulation.object("web").spec.backends.iter_mut();
                backends.for_each(|it| it.target_type = BackendTargetType::Instance);
            }
            simulation.settle(None);
            assert_eq!(simulation.lost_requests(), [] as [&str; 0], "{supply:?} {before}");
            assert!(!simulation.is_ready(), "{supply:?} {before}: {:?}", simulation.health);
            simulation.supplies.clear();
            simulation.settle(None);
            assert!(simulation.is_ready() && simulation.lost_requests().is_empty(), "{:?}", simulation.health);
        }
    }
}

#[test]
fn what_http_cannot_have_lets_nothing_wait_where_https_ends() {
    // AWS would turn the listener only once the new groups have healthy targets. A group for gRPC is enough for that, even
    // one that gets no request.
    let certificate = "arn:aws:acm:eu-west-1:000000000000:certificate/a";
    let rule = |host: &str, app: Option<u8>| {
        let app = app.map(|weight| json!({ "name": "app", "weight": weight }));
        let backends: Vec<Value> = [json!({ "name": "api", "weight": 1 })].into_iter().chain(app).collect();
        json!({ "hosts": [host], "action": { "forward": { "backends": backends } } })
    };
    let rules = [rule("h3.example.com", Some(0))];
    let https = json!([{ "port": 80, "protocol": "HTTPS", "certificateArns": [certificate], "rules": rules }]);
    let http = json!([{ "port": 80, "rules": [rule("*.example.com", Some(1)), rule("h3.example.com", None)] }]);
    for crash in [None, Some(3)] {
        let mut before = spec(&https, false);
        before["backends"][0]["protocolVersion"] = json!("GRPC");
        let mut simulation = reference(vec![born("web", 0, before)]);
        let owner = Simulation::owner(&simulation.objects[0]);
        simulation.supplies.insert("app".into(), Supply::NoSlices);
        simulation.watch_requests(&owner, &BTreeSet::new());
        simulation.object("web").spec = born("web", 0, spec(&http, false)).spec;
        simulation.note_left();
        simulation.settle(crash);
        let mut listeners = simulation.aws.assets.balancers.values().flat_map(|it| it.listeners.iter().flatten());
        assert_eq!(listeners.next().unwrap().1.listener.settings.protocol, Protocol::Http);
        assert_eq!(simulation.lost_requests(), [] as [&str; 0]);
    }
}

#[test]
fn a_former_service_that_goes_answers_no_new_rule() {
    let page = json!({ "fixedResponse": { "statusCode": 200 } });
    let rule = |host: &str, backend: &str| json!({ "hosts": [host], "action": forward(backend) });
    let before = json!([{ "port": 80, "defaultAction": page }, { "port": 81, "defaultAction": forward("app") }]);
    // The rules wait for the target group of `api`. Meanwhile port 81 goes, the last that needs the former Service.
    let rules = [rule("h1.example.com", "app"), rule("h2.example.com", "api")];
    let after = json!([{ "port": 80, "defaultAction": page, "rules": rules }]);
    for supply in [Supply::NoPods, Supply::NoSlices, Supply::NoService] {
        let mut old = spec(&before, false);
        old["backends"][0]["service"] = json!("old");
        let mut simulation = reference(vec![born("web", 0, old)]);
        let owner = Simulation::owner(&simulation.objects[0]);
        simulation.supplies.insert("app".into(), supply);
        simulation.watch_requests(&owner, &BTreeSet::new());
        simulation.object("web").spec = born("web", 0, spec(&after, false)).spec;
        simulation.settle(None);
        assert_eq!(simulation.lost_requests(), [] as [&str; 0], "{supply:?}");
        assert!(!simulation.is_ready(), "{supply:?}: {:?}", simulation.health);
        simulation.supplies.clear();
        simulation.settle(None);
        assert!(simulation.is_ready() && simulation.lost_requests().is_empty(), "{:?}", simulation.health);
    }
}

#[test]
fn an_idle_default_action_takes_over_no_rule() {
    let rule = json!({ "hosts": ["h1.example.com"], "action": forward("app") });
    let of_scheme = |scheme: &str, rules: &[Value]| {
        let mut spec = spec(&json!([{ "port": 80, "defaultAction": forward("api"), "rules": rules }]), false);
        spec["scheme"] = json!(scheme);
        born("web", 0, spec)
    };
    let mut simulation = Simulation::with(vec![of_scheme("internet-facing", &[rule])]);
    simulation.supplies.insert("api".into(), Supply::NoPods);
    simulation.settle(None);
    let owner = Simulation::owner(&simulation.objects[0]);
    simulation.watch_requests(&owner, &BTreeSet::new());
    simulation.object("web").spec = of_scheme("internal", &[]).spec;
    simulation.settle(None);
    assert_eq!((simulation.lost_requests(), simulation.is_ready()), (&[][..], false));
    simulation.supplies.clear();
    simulation.settle(None);
    assert!(simulation.is_ready() && simulation.lost_requests().is_empty(), "{:?}", simulation.health);
}

#[test]
fn a_member_that_waits_holds_up_no_other_one() {
    let rules = |host: &str, backend: &str| {
        let rule = json!({ "hosts": [format!("{host}.example.com")], "action": forward(backend) });
        spec(&json!([{ "port": 80, "rules": [rule] }]), true)
    };
    let mut simulation = reference(members(&[rules("h0", "app"), rules("h1", "app")]));
    simulation.supplies.insert("api".into(), Supply::NoPods);
    simulation.object("a").spec = born("a", 0, rules("h0", "api")).spec;
    simulation.object("b").spec = born("b", 0, rules("h2", "app")).spec;
    simulation.settle(None);
    let ready = |name: &str| matches!(simulation.health[&("shop".to_owned(), name.to_owned())], Health::Ready(_));
    assert_eq!((ready("a"), ready("b")), (false, true), "{:?}", simulation.health);
    let owner = Simulation::owner(&simulation.objects[0]);
    let (actions, member, _) = simulation.answer(&owner, &(80, "h2.example.com".into(), "/".into())).unwrap();
    assert_eq!((actions.len(), member), (1, Some(("shop".to_owned(), "b".to_owned()))));
}

proptest! {
    // An eighth of the usual number of cases, for each case takes long.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]

    #[test]
    fn an_edit_loses_no_request(
        before in specs::whole(), after in specs::whole(), first in lacking(), then in lacking(), crash in 0..40_usize,
    ) {
        let web = |spec: &Value| born("web", 0, spec.clone());
        let mut simulation = Simulation::with(vec![web(&before)]);
        simulation.supplies = first;
        simulation.settle(None);
        let owner = Simulation::owner(&simulation.objects[0]);
        simulation.supplies = then;
        simulation.watch_requests(&owner, &BTreeSet::new());
        simulation.object("web").spec = web(&after).spec;
        simulation.note_left();
        simulation.settle(Some(crash));
        prop_assert_eq!(simulation.lost_requests(), [] as [&str; 0]);
        let expected = shape(&mut reference(vec![web(&after)]));
        if simulation.is_ready() {
            // The number of a named port of checks may not be known yet.
            prop_assert_eq!(shape(&mut simulation).balancers, expected.balancers.clone());
        }
        simulation.supplies.clear();
        simulation.settle(None);
        prop_assert_eq!(simulation.lost_requests(), [] as [&str; 0]);
        prop_assert!(simulation.is_ready(), "{:?}", simulation.health);
        assert_same(&shape(&mut simulation), &expected);
    }

    #[test]
    fn edits_of_members_lose_no_request(
        before in shared(), after in shared(), gone in 0..4_usize, then in lacking(), crash in 0..40_usize,
    ) {
        let mut simulation = reference(members(&before));
        let owner = Simulation::owner(&simulation.objects[0]);
        let (mut edited, able) = (members(&after), !complains(&mut simulation));
        if gone < edited.len() && gone > 0 {
            edited.remove(gone);
        }
        let leaving = simulation.objects.iter().map(key).filter(|it| !edited.iter().any(|other| key(other) == *it));
        let leaving: BTreeSet<ObjectKey> = leaving.collect();
        simulation.supplies = then;
        if able {
            simulation.watch_requests(&owner, &leaving);
        }
        for object in &edited {
            match simulation.objects.iter_mut().find(|it| key(it) == key(object)) {
                Some(present) => present.spec = object.spec.clone(),
                None => simulation.objects.push(object.clone()),
            }
        }
        for (_, name) in &leaving {
            simulation.delete(name);
        }
        simulation.note_left();
        simulation.settle(Some(crash));
        prop_assert_eq!(simulation.lost_requests(), [] as [&str; 0]);
        simulation.supplies.clear();
        simulation.settle(None);
        prop_assert_eq!(simulation.lost_requests(), [] as [&str; 0]);
        let suspended = simulation.objects.iter().any(|object| object.spec.suspend);
        if able && !suspended && !complains(&mut simulation) {
            let mut reference = reference(edited);
            assert_same(&shape(&mut simulation), &shape(&mut reference));
        }
    }
}
