//! Certificates are exchanged within AWS's quota. The simulated AWS refuses more than 25 beside the default ones.

use std::ops::Range;
use std::time::Duration;

use serde_json::{Value, json};

use causeway_runtime::Health;

use super::Simulation;
use super::guests::rule;
use super::refused::{allow, edit_refused, listener, plan, reason, settled};
use crate::action::{Action, ListenerAction};
use crate::error::{PERMISSION_MISSING, QUOTA_REACHED};
use crate::model::fixtures::{joining, standing};
use crate::ownership::ObjectKey;
use crate::refusals::{Refusal, pause};

fn arns(of: &str, numbers: Range<usize>) -> Vec<String> {
    numbers.map(|number| format!("arn:aws:acm:eu-west-1:000000000000:certificate/{of}-{number:02}")).collect()
}

/// A listener with these certificates, the default one first.
fn with(certificates: &[Vec<String>]) -> Value {
    json!({ "listeners": [{ "port": 443, "certificateArns": certificates.concat() }] })
}

fn edit(simulation: &mut Simulation, more: Value) {
    simulation.objects[0].spec = standing("web", more).spec;
    simulation.settle(None);
}

/// The certificates beside the default one.
fn further(simulation: &Simulation) -> Vec<String> {
    listener(simulation).certificates.into_iter().collect()
}

fn adds(action: &Action) -> bool {
    matches!(action, Action::Listener(ListenerAction::AddCertificates { .. }))
}

fn adds_several(action: &Action) -> bool {
    matches!(action, Action::Listener(ListenerAction::AddCertificates { certificates, .. }) if certificates.len() > 1)
}

#[test]
fn fourteen_renewed_certificates_replace_as_few_as_the_quota_demands() {
    let mut simulation = settled(with(&[arns("default", 0..1), arns("old", 0..14)]));
    edit(&mut simulation, with(&[arns("default", 0..1), arns("new", 0..14)]));
    assert_eq!(further(&simulation), arns("new", 0..14));
    let last = simulation.journal.iter().rposition(adds).unwrap();
    let gone = |action: &Action| match action {
        Action::Listener(ListenerAction::RemoveCertificates { certificates, .. }) => certificates.len(),
        _ => 0,
    };
    let gave_way: usize = simulation.journal[..last].iter().map(gone).sum();
    assert_eq!(gave_way, 3, "{:#?}", simulation.journal);
}

#[test]
fn one_of_twenty_five_is_exchanged() {
    let mut simulation = settled(with(&[arns("default", 0..1), arns("a", 0..25)]));
    edit(&mut simulation, with(&[arns("default", 0..1), arns("a", 1..25), arns("b", 0..1)]));
    assert_eq!(further(&simulation), [arns("a", 1..25), arns("b", 0..1)].concat());
}

#[test]
fn one_of_twenty_five_changes_places_with_the_default_one() {
    let mut simulation = settled(with(&[arns("a", 0..26)]));
    edit(&mut simulation, with(&[arns("a", 1..2), arns("a", 0..1), arns("a", 2..26)]));
    assert_eq!(listener(&simulation).listener.settings.certificate, arns("a", 1..2).pop());
    assert_eq!(further(&simulation), [arns("a", 0..1), arns("a", 2..26)].concat());
}

#[test]
fn certificates_are_exchanged_one_by_one_at_a_lower_quota() {
    let mut simulation = settled(with(&[arns("default", 0..1), arns("old", 0..3)]));
    let new = with(&[arns("default", 0..1), arns("new", 0..3)]);
    edit_refused(&mut simulation, new, adds_several, QUOTA_REACHED);
    assert_eq!((further(&simulation), reason(&simulation)), (arns("new", 0..3), "Active"));
}

#[test]
fn a_certificate_comes_as_soon_as_the_quota_has_room() {
    let mut simulation = settled(with(&[arns("default", 0..1), arns("old", 0..1)]));
    simulation.objects[0].spec = standing("web", with(&[arns("default", 0..1), arns("new", 0..1)])).spec;
    let action = plan(&mut simulation).actions.into_iter().find(adds).unwrap();
    let (message, retry_in) = ("there are too many".into(), Duration::from_secs(30));
    simulation.refusals = vec![Refusal { action, reason: QUOTA_REACHED, message, blamed: None, retry_in }];
    let which = super::key(&simulation.objects[0]);
    simulation.reconcile(&which);
    assert_eq!((further(&simulation), reason(&simulation)), (arns("new", 0..1), "Active"));
}

#[test]
fn a_certificate_over_the_quota_is_reported_and_others_stay() {
    let mut simulation = settled(with(&[arns("default", 0..1), arns("a", 0..3)]));
    edit_refused(&mut simulation, with(&[arns("default", 0..1), arns("a", 0..4)]), adds, QUOTA_REACHED);
    assert_eq!((further(&simulation), reason(&simulation)), (arns("a", 0..3), QUOTA_REACHED));
}

#[test]
fn at_most_one_certificate_gives_way_to_unfit_ones() {
    let mut simulation = settled(with(&[arns("default", 0..1), arns("old", 0..25)]));
    let new = with(&[arns("default", 0..1), arns("new", 0..25)]);
    edit_refused(&mut simulation, new, adds, "CertificateInvalid");
    assert_eq!((further(&simulation), reason(&simulation)), (arns("old", 1..25), "CertificateInvalid"));
    allow(&mut simulation);
    assert_eq!(further(&simulation), arns("new", 0..25));
}

#[test]
fn a_refused_certificate_holds_no_room_that_others_need() {
    let mut simulation = settled(with(&[arns("default", 0..1), arns("old", 0..25)]));
    simulation.objects[0].spec = standing("web", with(&[arns("default", 0..1), arns("new", 0..25)])).spec;
    let bad = |action: &Action| {
        let Action::Listener(ListenerAction::AddCertificates { certificates, .. }) = action else { return false };
        certificates.iter().any(|arn| arn.ends_with("new-00"))
    };
    simulation.refuses = Some((bad, "CertificateInvalid"));
    let which = super::key(&simulation.objects[0]);
    simulation.reconcile(&which);
    assert_eq!(further(&simulation), [arns("new", 1..25), arns("old", 24..25)].concat());
    for _ in 0..3 {
        // The pause is over.
        simulation.refusals.clear();
        simulation.reconcile(&which);
        assert_eq!(further(&simulation), arns("new", 1..25));
    }
}

#[test]
fn a_refused_certificate_keeps_out_no_later_one() {
    let mut simulation = settled(with(&[arns("default", 0..1)]));
    let bad = |action: &Action| {
        let Action::Listener(ListenerAction::AddCertificates { certificates, .. }) = action else { return false };
        certificates.iter().any(|arn| arn.ends_with("new-00"))
    };
    edit_refused(&mut simulation, with(&[arns("default", 0..1), arns("new", 0..5)]), bad, "CertificateInvalid");
    assert_eq!((further(&simulation), reason(&simulation)), (arns("new", 1..5), "CertificateInvalid"));
    allow(&mut simulation);
    assert_eq!(further(&simulation), arns("new", 0..5));
}

fn is_pause(refusal: &Refusal) -> bool {
    pause(&refusal.action).as_ref() == Some(&refusal.action)
}

/// How many certificates AWS refused.
fn refused(simulation: &Simulation) -> usize {
    simulation.refusals.iter().filter(|refusal| !is_pause(refusal)).count()
}

#[test]
fn refused_certificates_are_tried_one_after_each_pause() {
    let mut simulation = settled(with(&[arns("default", 0..1)]));
    edit_refused(&mut simulation, with(&[arns("default", 0..1), arns("bad", 0..25)]), adds, "CertificateInvalid");
    assert_eq!((refused(&simulation), reason(&simulation)), (2, "CertificateInvalid"));
    let which = super::key(&simulation.objects[0]);
    for count in 3..=25 {
        simulation.refusals.retain(|refusal| !is_pause(refusal));
        simulation.reconcile(&which);
        assert_eq!(refused(&simulation), count);
    }
    allow(&mut simulation);
    assert_eq!(further(&simulation), arns("bad", 0..25));
}

#[test]
fn without_the_permission_one_certificate_is_tried_at_a_time() {
    let mut simulation = settled(with(&[arns("default", 0..1)]));
    let new = with(&[arns("default", 0..1), arns("new", 0..25)]);
    edit_refused(&mut simulation, new, adds, PERMISSION_MISSING);
    assert_eq!((refused(&simulation), reason(&simulation)), (1, PERMISSION_MISSING));
    allow(&mut simulation);
    assert_eq!(further(&simulation), arns("new", 0..25));
}

fn arn(name: &&str) -> String {
    format!("arn:aws:acm:eu-west-1:000000000000:certificate/{name}")
}

/// The spec of a member of a group that has a rule for the host, and names these certificates.
fn of_group(names: &[&str], host: &str) -> Value {
    let certificates: Vec<String> = names.iter().map(arn).collect();
    let listener = json!({ "port": 443, "certificateArns": certificates, "rules": [rule(host, None)] });
    json!({ "group": { "name": "all" }, "listeners": [listener] })
}

fn reason_of(simulation: &Simulation, key: &ObjectKey) -> &'static str {
    match &simulation.health[key] {
        Health::Stalled(cause) | Health::Ready(cause) => cause.reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn members_are_held_up_by_refused_certificates_they_need() {
    let members = [
        standing("web", of_group(&["default"], "web.example.org")),
        joining("zap", of_group(&[], "zap.example.org")),
        joining("zip", of_group(&["default"], "zip.example.com")),
        joining("zoo", of_group(&["default"], "zoo.example.org")),
    ];
    let keys = members.each_ref().map(super::key);
    let mut simulation = Simulation::with(members.into());
    simulation.settle(None);
    // The certificate `wild` is for *.example.com.
    let more = ["default", "wild", "zzz"];
    simulation.object("zoo").spec = joining("zoo", of_group(&more, "zoo.example.org")).spec;
    let bad = |action: &Action| {
        let Action::Listener(ListenerAction::AddCertificates { certificates, .. }) = action else { return false };
        certificates.iter().any(|arn| arn.ends_with("wild"))
    };
    edit_refused(&mut simulation, of_group(&more, "web.example.org"), bad, "CertificateInvalid");
    assert_eq!(further(&simulation), [arn(&"zzz")]);
    for key in &keys {
        simulation.reconcile(key);
    }
    let reasons = keys.each_ref().map(|key| reason_of(&simulation, key));
    assert_eq!(reasons, ["CertificateInvalid", "Active", "GroupHeldUp", "GroupHeldUp"]);
    allow(&mut simulation);
    assert_eq!(further(&simulation), [arn(&"wild"), arn(&"zzz")]);
}

#[test]
fn members_are_held_up_by_waiting_certificates() {
    for (refused, expected) in [(QUOTA_REACHED, 1), ("CertificateInvalid", 2)] {
        let members = [
            standing("web", of_group(&["default"], "web.example.org")),
            joining("zap", of_group(&[], "zap.example.org")),
            joining("zip", of_group(&["default"], "zip.example.com")),
        ];
        let keys = members.each_ref().map(super::key);
        let mut simulation = Simulation::with(members.into());
        simulation.settle(None);
        // The certificate `wild` is for *.example.com. It comes last, and is not tried.
        let more = of_group(&["default", "bad", "evil", "wild"], "web.example.org");
        edit_refused(&mut simulation, more, adds, refused);
        assert_eq!(self::refused(&simulation), expected);
        for key in &keys {
            simulation.reconcile(key);
        }
        let reasons = keys.each_ref().map(|key| reason_of(&simulation, key));
        assert_eq!(reasons, [refused, "Active", "GroupHeldUp"]);
    }
}

#[test]
fn a_member_that_names_certificates_takes_none_from_others() {
    let members =
        [standing("web", of_group(&[], "web.example.com")), joining("zoo", of_group(&["default"], "zoo.example.org"))];
    let mut simulation = Simulation::with(members[..1].to_vec());
    simulation.settle(None);
    simulation.objects.push(members[1].clone());
    simulation.settle(None);
    // The certificate `wild` is for *.example.com.
    assert_eq!(further(&simulation), [arn(&"wild")]);
    assert_eq!(reason_of(&simulation, &super::key(&members[0])), "Active");
}
