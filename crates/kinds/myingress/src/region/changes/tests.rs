use std::sync::Arc;

use axum::Router;
use axum::extract;
use axum::http::StatusCode;
use parking_lot::Mutex;
use tokio::net::TcpListener;

use causeway_aws::elbv2::{Listener, Pairs, Protocol, Rule, RuleAction, RuleSettings, TargetGroup};

use super::*;
use crate::region::assets::{GroupMember, Member, RuleMember};
use crate::region::fixtures::{balancer, listener_on, owner, region_at};

const ID: &str = "sg-1";

/// EC2 with at most one security group, and the operations that it was asked for.
#[derive(Clone, Default)]
struct FakeEc2 {
    group: Option<Pairs>,
    calls: Arc<Mutex<Vec<String>>>,
}

async fn answer(extract::State(fake): extract::State<FakeEc2>, body: String) -> String {
    let action = body.split('&').find_map(|part| part.strip_prefix("Action=")).unwrap_or_default().to_owned();
    fake.calls.lock().push(action.clone());
    if action == "DeleteSecurityGroup" {
        return "<DeleteSecurityGroupResponse><return>true</return></DeleteSecurityGroupResponse>".into();
    }
    let described = |tags: &Pairs| {
        let tag = |(key, value): (&String, &String)| format!("<item><key>{key}</key><value>{value}</value></item>");
        let tags: String = tags.iter().map(tag).collect();
        format!("<item><groupId>{ID}</groupId><groupName>web</groupName><tagSet>{tags}</tagSet></item>")
    };
    let groups = fake.group.as_ref().map(described).unwrap_or_default();
    format!("<DescribeResponse><securityGroupInfo>{groups}</securityGroupInfo></DescribeResponse>")
}

/// A region whose AWS is this.
async fn region_of(app: Router) -> Region {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, app).await });
    region_at(endpoint).await
}

/// A region that knows the security group as the owner's, whatever this EC2 says of it.
async fn region(fake: &FakeEc2) -> Region {
    let region = region_of(Router::new().fallback(answer).with_state(fake.clone())).await;
    let (vpc, tags, none) = ("vpc-1".into(), owner().tags(), BTreeSet::new);
    let group = SecurityGroup { id: ID.into(), name: "web".into(), vpc, tags, ingress: none(), egress: none() };
    region.lock().assets.security_groups.insert(ID.into(), group);
    region
}

/// Deletes the security group while AWS has it with these tags. Returns the outcome, the calls of EC2, and the tags of the
/// group if it is still known.
async fn deleted(tags: Option<Pairs>) -> (Result<(), AwsError>, Vec<String>, Option<Pairs>) {
    let fake = FakeEc2 { group: tags, ..FakeEc2::default() };
    let region = region(&fake).await;
    let action = Action::Security(SecurityAction::Delete { id: ID.into(), name: "web".into() });
    let outcome = region.change(&owner(), &action).await;
    let calls = fake.calls.lock().clone();
    let known = region.lock().assets.security_groups.get(ID).map(|group| group.tags.clone());
    (outcome, calls, known)
}

#[tokio::test]
async fn a_security_group_with_the_owners_tags_is_deleted() {
    let (outcome, calls, known) = deleted(Some(owner().tags())).await;
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!((calls, known), (vec!["DescribeSecurityGroups".to_owned(), "DeleteSecurityGroup".to_owned()], None));
}

#[tokio::test]
async fn a_security_group_that_was_given_away_stays() {
    let theirs = Owner { uid: "2".into(), ..owner() }.tags();
    let (outcome, calls, known) = deleted(Some(theirs.clone())).await;
    let error = outcome.expect_err("it is not ours");
    assert_eq!((error.class, error.message.as_str()), (Class::Conflict, "its tags no longer name this object"));
    assert_eq!((calls, known), (vec!["DescribeSecurityGroups".to_owned()], Some(theirs)));
}

#[tokio::test]
async fn a_security_group_that_is_gone_needs_no_deletion() {
    let (outcome, calls, known) = deleted(None).await;
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!((calls, known), (vec!["DescribeSecurityGroups".to_owned()], None));
}

#[test]
fn the_web_acl_is_blamed_only_once_its_balancer_serves() {
    let unknown = || AwsError {
        operation: "AssociateWebACL",
        service: "wafv2",
        code: Some(NONEXISTENT.into()),
        message: "the resource doesn't exist".into(),
        class: Class::Transient,
        ambiguous: false,
    };
    let class = |state| of_association(unknown(), state).class;
    assert_eq!([Some(State::Active), Some(State::ActiveImpaired)].map(class), [Class::Invalid; 2]);
    assert_eq!([Some(State::Provisioning), Some(State::Failed), None].map(class), [Class::Transient; 3]);
    let failed = AwsError { code: Some("WAFInternalErrorException".into()), ..unknown() };
    assert_eq!(of_association(failed, Some(State::Active)).class, Class::Transient);
}

#[test]
fn the_longest_name_has_a_description_that_aws_takes() {
    assert_eq!(description(&owner()), "Load balancer of shop/web, by Causeway");
    let longest = description(&Owner { name: "x".repeat(253), ..owner() });
    assert_eq!(longest.len(), 255);
    assert!(longest.starts_with("Load balancer of shop/xxx"), "{longest}");
}

/// Elastic Load Balancing that refuses to add or remove the certificate `b`, and the certificates of all calls.
#[derive(Clone, Default)]
struct FakeElb(Arc<Mutex<Vec<String>>>);

async fn change(extract::State(fake): extract::State<FakeElb>, body: String) -> (StatusCode, String) {
    let parameter = |name: &str| body.split('&').find_map(|part| part.strip_prefix(name)).unwrap_or_default();
    let certificate = parameter("Certificates.member.1.CertificateArn=");
    fake.0.lock().push(certificate.to_owned());
    if certificate == "b" {
        let refused = "<ErrorResponse><Error><Type>Sender</Type><Code>OperationNotPermitted</Code>\
                       <Message>not this certificate</Message></Error></ErrorResponse>";
        return (StatusCode::BAD_REQUEST, refused.to_owned());
    }
    let action = parameter("Action=");
    (StatusCode::OK, format!("<{action}Response><{action}Result></{action}Result></{action}Response>"))
}

/// Makes a balancer and an HTTPS listener known, both without anything.
fn know_a_listener(region: &Region) {
    let settings = listener_on(443, Protocol::Https);
    let create = ListenerAction::Create { balancer: "lb".into(), settings: settings.clone(), tags: Pairs::new() };
    let mut known = region.lock();
    known.assets.balancers.insert("lb".into(), Member::new(balancer(), Pairs::new()));
    let listener = Listener { arn: "listener".into(), settings };
    known.assets.enter(&Action::Listener(create), Answer::Listener(listener));
}

/// The certificates that are known after an action that AWS refuses for `b`. It is asked for those up to `b`.
async fn known_after(before: &[&str], action: fn(String, String, BTreeSet<String>) -> ListenerAction) -> Vec<String> {
    let fake = FakeElb::default();
    let region = region_of(Router::new().fallback(change).with_state(fake.clone())).await;
    know_a_listener(&region);
    let there: BTreeSet<String> = before.iter().map(|arn| (*arn).to_owned()).collect();
    let (balancer, arn) = (|| "lb".to_owned(), || "listener".to_owned());
    let present = ListenerAction::AddCertificates { balancer: balancer(), arn: arn(), port: 443, certificates: there };
    region.lock().assets.enter(&Action::Listener(present), Answer::Done);
    let action = action(balancer(), arn(), BTreeSet::from(["a", "b", "c"].map(str::to_owned)));
    let outcome = region.change(&owner(), &Action::Listener(action)).await;
    assert_eq!(outcome.expect_err("AWS refuses `b`").class, Class::Invalid);
    assert_eq!(*fake.0.lock(), ["a", "b"]);
    let known = region.lock();
    let listeners = known.assets.balancers["lb"].listeners.as_ref().expect("they are known");
    listeners["listener"].certificates.iter().cloned().collect()
}

#[tokio::test]
async fn certificates_sent_before_a_refused_one_are_not_repeated() {
    let add = |balancer, arn, certificates| ListenerAction::AddCertificates { balancer, arn, port: 443, certificates };
    assert_eq!(known_after(&[], add).await, ["a"]);
    let remove =
        |balancer, arn, certificates| ListenerAction::RemoveCertificates { balancer, arn, port: 443, certificates };
    assert_eq!(known_after(&["a", "b", "c"], remove).await, ["b", "c"]);
}

/// An AWS that knows no target group.
async fn without_target_groups() -> Region {
    let answer = || async {
        let words = "One or more target groups not found";
        let error =
            format!("<Error><Type>Sender</Type><Code>TargetGroupNotFound</Code><Message>{words}</Message></Error>");
        (StatusCode::BAD_REQUEST, format!("<ErrorResponse>{error}</ErrorResponse>"))
    };
    region_of(Router::new().fallback(answer)).await
}

fn forwarding(arn: &str) -> Action {
    let actions = vec![RuleAction::Forward { groups: [(arn.to_owned(), 1)].into(), stickiness: None }];
    let settings = RuleSettings { conditions: BTreeSet::new(), actions, transforms: Vec::new() };
    let (balancer, listener, tags) = ("lb".into(), "l".into(), owner().tags());
    Action::Listener(ListenerAction::CreateRule { balancer, listener, port: 80, priority: 1, settings, tags })
}

fn target_group(arn: &str, tags: Pairs) -> GroupMember {
    let (arn, name) = (arn.to_owned(), format!("name-of-{arn}"));
    let group = TargetGroup { arn, name, kind: None, health_check: None, balancers: BTreeSet::new() };
    GroupMember { group, tags, attributes: None, fresh: false }
}

#[tokio::test]
async fn a_missing_target_group_is_a_mistake_or_a_race() {
    let region = without_target_groups().await;
    let known = [("ours", owner().tags()), ("theirs", Pairs::new())];
    let members = known.map(|(arn, tags)| (arn.to_owned(), target_group(arn, tags)));
    region.lock().assets.groups.extend(members);
    let theirs = region.change(&owner(), &forwarding("theirs")).await.expect_err("it is not there");
    assert_eq!(theirs.class, Class::Invalid);
    assert!(theirs.message.contains("theirs"), "{theirs}");
    let unknown = region.unknown_target_groups(&owner(), &["theirs".to_owned()].into()).await;
    assert!(unknown.contains_key("theirs"), "the list that showed it is older");
    let ours = region.change(&owner(), &forwarding("ours")).await.expect_err("it is not there");
    assert_eq!(ours.class, Class::NotFound);
    assert!(region.lock().unconfirmed.contains_key("name-of-ours"), "it is looked up before the next decision");
}

#[tokio::test]
async fn a_listed_target_group_is_not_looked_up() {
    let region = without_target_groups().await;
    region.lock().assets.groups.insert("theirs".into(), target_group("theirs", Pairs::new()));
    let unknown = region.unknown_target_groups(&owner(), &["theirs".to_owned(), "other".to_owned()].into()).await;
    assert_eq!(
        unknown.into_iter().collect::<Vec<_>>(),
        [("other".into(), "One or more target groups not found".into())]
    );
}

/// Elastic Load Balancing that takes its time, and counts the rules that it is asked to delete.
async fn slow_answer(extract::State(deleted): extract::State<Arc<Mutex<usize>>>, body: String) -> String {
    assert!(body.contains("Action=DeleteRule"), "{body}");
    *deleted.lock() += 1;
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    "<DeleteRuleResponse><DeleteRuleResult/></DeleteRuleResponse>".into()
}

#[tokio::test]
async fn a_rule_that_two_members_delete_is_deleted_once() {
    let calls = Arc::<Mutex<usize>>::default();
    let region = region_of(Router::new().fallback(slow_answer).with_state(calls.clone())).await;
    let (balancer_arn, listener, arn) = (balancer().arn, "listener".to_owned(), "rule".to_owned());
    let settings = RuleSettings { conditions: BTreeSet::new(), transforms: Vec::new(), actions: Vec::new() };
    let rule = RuleMember { rule: Rule { arn: arn.clone(), priority: 1, settings }, tags: owner().tags() };
    know_a_listener(&region);
    region.lock().assets.balancers.entry(balancer_arn.clone()).and_modify(|member| {
        let there = member.listeners.as_mut().and_then(|it| it.get_mut(&listener)).expect("it is known");
        there.rules.insert(arn.clone(), rule);
    });
    let (port, priority, of_guest) = (443, 1, false);
    let action = ListenerAction::DeleteRule { balancer: balancer_arn, listener, port, arn, priority, of_guest };
    let (owner, action) = (owner(), Action::Listener(action));
    let (first, second) = tokio::join!(region.change(&owner, &action), region.change(&owner, &action));
    assert!(first.is_ok() && second.is_ok(), "{first:?} {second:?}");
    assert_eq!(*calls.lock(), 1);
}
