//! Authentication: members that ask for root's password, the Secrets that hold it, and people who change either.

use causeway_api::etcdcluster::Auth as Asked;
use causeway_databases::etcd::{Endpoint, Password};
use causeway_databases::password::Emptied;
use causeway_runtime::{Class, Health};

use super::Simulation;
use super::faults::{Edit, Fault, Mishap};
use crate::action::Action;
use crate::auth::secrets::{Note, goes};
use crate::auth::{Access, Auth, StoredPasswords, concerns};
use crate::fixtures::cluster;
use crate::tls::facts::Version;

/// Authentication as etcd has it, and the Secrets with passwords.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    /// All clients must log in.
    pub on: bool,
    /// The password of root, once there is one.
    pub root: Option<Password>,
    /// Root may do everything.
    has_role: bool,
    /// The Secret with the password that root is to have.
    pub user_provided: Option<Password>,
    /// The Secret with the one that it has.
    pub kept: Option<StoredPasswords>,
    /// These Secrets, if a user emptied them.
    pub emptied: Option<Emptied>,
    pub kept_emptied: Option<Version>,
    written: u64,
}

impl Gate {
    /// Returns the facts that a look finds; `asked` if a member could be asked.
    pub fn facts(&self, concerned: bool, asked: bool) -> Auth {
        let (user_provided, kept) =
            if concerned { (self.user_provided.clone(), self.kept.clone()) } else { (None, None) };
        let right = || {
            kept.iter().flat_map(StoredPasswords::passwords).find(|known| Some(*known) == self.root.as_ref()).cloned()
        };
        let access = match (asked, self.on, &kept) {
            (false, ..) => Access::Unknown,
            (true, false, _) => Access::Free,
            (true, true, None) => Access::Locked,
            (true, true, Some(_)) => right().map_or(Access::Refused, Access::With),
        };
        let (emptied, kept_emptied) = (self.emptied.clone(), self.kept_emptied.clone());
        Auth { user_provided, emptied, kept, kept_emptied, access, ..Auth::default() }
    }

    /// Reports whether a call with that login is answered.
    pub fn admits(&self, via: &Endpoint) -> bool {
        !self.on || via.login.as_ref() == self.root.as_ref()
    }

    fn is_known(&self) -> bool {
        let kept = || self.kept.iter().flat_map(StoredPasswords::passwords);
        self.root.as_ref().is_some_and(|root| kept().any(|known| known == root))
    }

    fn make(&mut self, known: Option<&Password>, before: Option<&Version>) -> Result<(), Class> {
        let there = self.emptied.as_ref().map(Emptied::version);
        if self.user_provided.is_some() || there.is_some_and(|version| version.is_none() || version != before) {
            return Err(Class::Conflict);
        }
        self.emptied = None;
        self.written += 1;
        self.user_provided = Some(known.cloned().unwrap_or_else(|| Password(format!("made-{}", self.written))));
        Ok(())
    }

    fn note(&mut self, note: &Note) -> Result<(), Class> {
        let there = self.kept.as_ref().map(|kept| &kept.version).or(self.kept_emptied.as_ref());
        if there != note.version.as_ref() {
            return Err(Class::Conflict);
        }
        self.kept_emptied = None;
        let knew = self.is_known();
        self.written += 1;
        let version = Version { uid: "uid".into(), version: self.written.to_string() };
        let Note { current, next, goes, .. } = note.clone();
        self.kept = Some(StoredPasswords { version, goes, current, next });
        assert!(!self.on || !knew || self.is_known(), "the only password that opens etcd is forgotten: {self:?}");
        Ok(())
    }
}

impl Simulation {
    /// Makes passwords, records them, and changes them in etcd.
    pub fn act_on_auth(&mut self, action: &Action) -> Result<(), Class> {
        match action {
            Action::MakePassword { known, before, .. } => self.gate.make(known.as_ref(), before.as_ref()),
            Action::NotePassword(note) => self.gate.note(note),
            Action::PrepareRoot { password, via } => {
                self.ask(via, |_, _| Ok(()))?;
                self.gate.root = Some(password.clone());
                self.gate.has_role = true;
                Ok(())
            }
            Action::ChangePassword { password, via } => {
                self.ask(via, |_, _| Ok(()))?;
                self.gate.root = Some(password.clone());
                Ok(())
            }
            Action::EnableAuth { via } => {
                self.ask(via, |_, _| Ok(()))?;
                assert!(self.gate.has_role, "no user could do anything any more");
                assert!(self.disturbed || self.gate.is_known(), "the password is lost: {:?}", self.gate);
                self.gate.on = true;
                Ok(())
            }
            Action::DisableAuth { via } => {
                self.ask(via, |_, _| Ok(()))?;
                self.gate.on = false;
                Ok(())
            }
            other => panic!("{other:?}"),
        }
    }

    /// If no login works, the user does what the condition says.
    pub fn hand_in_password(&mut self) {
        if self.gate.on && !self.gate.is_known() {
            self.gate.user_provided.clone_from(&self.gate.root);
        }
    }

    /// Asserts that authentication is as the object says.
    pub fn assert_gate(&self) {
        let gate = &self.gate;
        assert_eq!(gate.on, self.object.spec.auth.enabled, "{gate:?}");
        let recorded = self.object.status.as_ref().is_some_and(|status| status.auth.is_some());
        assert_eq!(gate.on, recorded, "{gate:?}");
        if gate.on {
            let kept = gate.kept.as_ref().unwrap();
            assert_eq!((&gate.root, &kept.next), (&gate.user_provided, &None));
            assert_eq!((Some(&kept.current), kept.goes), (gate.root.as_ref(), goes(&self.object)));
        }
        assert!(concerns(&self.object) == gate.on);
    }
}

/// A cluster that asks for logins, at rest.
fn guarded() -> Simulation {
    let mut object = cluster(3);
    object.spec.auth = Asked { enabled: true, secret_name: None };
    let mut simulation = Simulation::settled(object);
    simulation.assert_settled();
    simulation.journal.clear();
    simulation
}

fn events(simulation: &Simulation) -> Vec<&'static str> {
    let description = simulation.journal.iter().filter_map(Action::event);
    description.map(|event| event.reason).collect()
}

fn password(text: &str) -> Password {
    Password(text.into())
}

/// Asserts that the cluster is stalled because no login works, and that nothing is done about it.
fn assert_shut(simulation: &mut Simulation) {
    simulation.settle();
    let Some(Health::Stalled(cause)) = &simulation.health else { panic!("{:?}", simulation.health) };
    assert_eq!(cause.reason, "AuthBroken");
    assert!(cause.message.contains("Secret prod-etcd-auth"), "{}", cause.message);
    simulation.journal.clear();
    for _ in 0..5 {
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
    assert_eq!(simulation.journal, []);
}

#[test]
fn authentication_is_turned_on_and_off_and_no_pod_notices() {
    let mut simulation = Simulation::settled(cluster(3));
    simulation.journal.clear();
    for enabled in [true, false, true] {
        Edit::Auth(enabled).happens(&mut simulation);
        simulation.settle();
        simulation.assert_settled();
    }
    assert_eq!(events(&simulation), ["PasswordMade", "AuthEnabled", "AuthDisabled", "AuthEnabled"]);
}

#[test]
fn a_changed_password_reaches_etcd_despite_crashes() {
    for mishap in (0..5).flat_map(|at| {
        let dies = Mishap { dies_after: Some(at), ..Mishap::default() };
        [dies, Mishap { reply_lost: Some(at), ..Mishap::default() }]
    }) {
        let mut simulation = guarded();
        Edit::Password("another").happens(&mut simulation);
        simulation.reconcile(&mishap);
        // The user changes it once more before that is done.
        Edit::Password("a third").happens(&mut simulation);
        simulation.reconcile(&mishap);
        simulation.settle();
        simulation.assert_settled();
        assert_eq!(simulation.gate.root, Some(password("a third")), "{mishap:?}");
    }
}

#[test]
fn a_new_cluster_requires_logins_despite_crashes() {
    for at in 0..12 {
        let mut object = cluster(1);
        object.spec.auth = Asked { enabled: true, secret_name: None };
        let mut simulation = Simulation::new(object);
        for _ in 0..4 {
            simulation.reconcile(&Mishap { dies_after: Some(at), ..Mishap::default() });
            simulation.time_passes();
            simulation.reconcile(&Mishap { reply_lost: Some(at), ..Mishap::default() });
        }
        simulation.settle();
        simulation.assert_settled();
    }
}

#[test]
fn a_password_changed_by_hand_is_reported() {
    let mut simulation = guarded();
    Fault::ChangeRoot("by hand").happens(&mut simulation);
    assert_shut(&mut simulation);
    Edit::Password("by hand").happens(&mut simulation);
    simulation.settle();
    simulation.assert_settled();
    assert_eq!(simulation.gate.root, Some(password("by hand")));
}

#[test]
fn authentication_turned_off_by_hand_is_on_again() {
    let mut simulation = guarded();
    Fault::OpenGate.happens(&mut simulation);
    simulation.settle();
    simulation.assert_settled();
    assert_eq!(events(&simulation), ["AuthEnabled"]);
}

#[test]
fn authentication_turned_on_by_hand_is_reported() {
    let mut simulation = Simulation::settled(cluster(3));
    simulation.gate = Gate { on: true, root: Some(password("theirs")), has_role: true, ..Gate::default() };
    simulation.settle();
    let Some(Health::Stalled(cause)) = &simulation.health else { panic!("{:?}", simulation.health) };
    assert!(cause.message.contains("spec.auth.secretName"), "{}", cause.message);
    // A user who knows the password takes it over.
    Edit::Auth(true).happens(&mut simulation);
    Edit::Password("theirs").happens(&mut simulation);
    simulation.settle();
    simulation.assert_settled();
    assert_eq!(simulation.gate.root, Some(password("theirs")));
}

/// Members on retained volumes still require the earlier password.
#[test]
fn a_recreated_object_logs_in_with_the_kept_secret() {
    let mut simulation = guarded();
    simulation.object.status =
        Some(causeway_api::EtcdClusterStatus { auth: None, ..simulation.object.status.clone().unwrap() });
    simulation.gate.user_provided = None;
    let root = simulation.gate.root.clone();
    simulation.settle();
    simulation.assert_settled();
    assert_eq!(simulation.gate.root, root);
}

fn version(number: u32) -> Version {
    Version { uid: "uid".into(), version: number.to_string() }
}

/// The password that the Secret had is recorded in the other one.
#[test]
fn an_emptied_secret_gets_its_password_again() {
    let mut simulation = guarded();
    let root = simulation.gate.root.clone();
    (simulation.gate.user_provided, simulation.gate.emptied) = (None, Some(Emptied::Ours(version(70))));
    simulation.settle();
    simulation.assert_settled();
    assert_eq!((&simulation.gate.root, events(&simulation)), (&root, vec!["PasswordMade"]));
    (simulation.gate.kept, simulation.gate.kept_emptied) = (None, Some(version(71)));
    simulation.settle();
    simulation.assert_settled();
    assert_eq!(simulation.gate.root, root);
}

#[test]
fn a_foreign_secret_without_password_blocks_no_repair() {
    let mut simulation = guarded();
    (simulation.gate.user_provided, simulation.gate.emptied) = (None, Some(Emptied::Theirs));
    let lost = simulation.kubernetes.set.claims[&1].facts.uid.clone();
    let Simulation { kubernetes, raft, .. } = &mut simulation;
    kubernetes.delete_pod(1, raft);
    kubernetes.drop_claim(1, raft);
    simulation.works(80);
    let Some(Health::Stalled(cause)) = &simulation.health else { panic!("{:?}", simulation.health) };
    assert_eq!(cause.reason, "PasswordMissing");
    assert!(cause.message.contains("Secret prod-etcd-auth"), "{}", cause.message);
    let claim = &simulation.kubernetes.set.claims[&1].facts;
    assert!(claim.uid != lost && claim.member.is_some(), "a new member has taken its place: {claim:?}");
}
