//! Monitors every member, and wakes the controller when one stops answering or answers again, reports another leader or
//! none, or reports errors: an alarm of one member is reported by all.
//!
//! One connection per member is kept open, over which it is asked for its status once a second: a local read of a few
//! hundred bytes, without a call of the apiserver. The answers only wake the controller, which asks again itself.

use std::time::Duration;

use futures::stream::Stream;
use kube::runtime::reflector::ObjectRef;
use tokio::time::{Instant, sleep, timeout};

use causeway_api::EtcdCluster;
use causeway_databases::etcd::{Endpoint, Etcd, EtcdError, Status};
use causeway_databases::listeners::{Listened, Listeners, ProbeState, Shared, locked};
use causeway_databases::wake::{Key, Wake};

/// How often a member is asked.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// After so many polls, a member is asked whether it lets clients in as before: authentication may have been turned on,
/// or root's password changed.
const DOOR_POLLS: u32 = 2;
/// An answer that takes longer is overdue.
const OVERDUE: Duration = Duration::from_millis(1200);

/// Listens to the members of all clusters.
pub struct Monitor {
    etcd: Etcd,
    listeners: Listeners<Followed>,
    wake: Wake,
}

/// A member that is listened to. It keeps its URL; its certificates and passwords change.
struct Followed(Endpoint);

impl Listened for Followed {
    type Id = String;

    fn id(&self) -> String {
        self.0.url.clone()
    }

    fn refresh(&mut self, now: Self) {
        *self = now;
    }
}

impl Monitor {
    /// Creates a monitor that listens to no member yet.
    pub fn new(etcd: Etcd) -> Self {
        Self { etcd, listeners: Listeners::default(), wake: Wake::default() }
    }

    /// The objects that are to be looked at.
    pub fn requests(
        &self,
        namespace: Option<&str>,
    ) -> impl Stream<Item = ObjectRef<EtcdCluster>> + Send + 'static + use<> {
        self.wake.requests(namespace)
    }

    /// Listens to these members of an object, and to no others of it any more.
    pub fn follow(&self, key: &Key, uid: &str, members: Vec<Endpoint>) {
        let members = members.into_iter().map(Followed).collect();
        self.listeners.follow(key, uid, members, |latest| {
            let (etcd, wake) = (self.etcd.clone(), self.wake.clone());
            let probe = Probe { etcd, latest: latest.clone(), key: key.clone(), wake };
            vec![tokio::spawn(probe.listen())]
        });
    }

    /// Listens to no member of an object that is gone.
    pub fn forget(&self, uid: &str) {
        self.listeners.forget(uid);
    }

    /// How long a member has not answered; `None` if no task listens to it.
    pub fn silence(&self, key: &Key, member: &Endpoint) -> Option<Duration> {
        self.listeners.ask(key, &member.url, |latest| latest.silence())
    }

    /// Notes that a member has answered a call from elsewhere.
    pub fn note_answer(&self, key: &Key, member: &Endpoint) {
        self.listeners.ask(key, &member.url, ProbeState::answered);
    }
}

/// The state of a member; a change of it wakes the controller.
#[derive(Clone, Debug, PartialEq)]
enum State {
    /// It was not asked yet.
    Unknown,
    Silent,
    /// It answers, but reports nothing without a login.
    Reserved,
    Tells {
        member: u64,
        leader: u64,
        is_learner: bool,
        errors: Vec<String>,
    },
}

impl State {
    fn from_answer(answer: Result<Status, EtcdError>) -> Self {
        match answer {
            Ok(Status { member_id, leader, is_learner, mut errors, .. }) => {
                errors.sort_unstable();
                Self::Tells { member: member_id, leader, is_learner, errors }
            }
            Err(error) if error.is_about_login() => Self::Reserved,
            Err(_) => Self::Silent,
        }
    }
}

/// Listens to one member.
struct Probe {
    etcd: Etcd,
    latest: Shared<Followed>,
    key: Key,
    wake: Wake,
}

impl Probe {
    async fn listen(self) {
        let mut state = State::Unknown;
        let (mut polls, mut asks_for_login) = (0_u32, false);
        loop {
            let begun = Instant::now();
            let member = {
                let latest = locked(&self.latest);
                if !latest.is_wanted() {
                    return;
                }
                latest.node.0.clone()
            };
            let answer = self.etcd.pulse(&member);
            let mut answer = std::pin::pin!(answer);
            let answer = tokio::select! {
                answer = &mut answer => answer,
                () = sleep(OVERDUE) => {
                    self.turn(&mut state, State::Silent);
                    answer.await
                }
            };
            let latest = State::from_answer(answer);
            if latest != State::Silent {
                locked(&self.latest).answered();
            }
            self.turn(&mut state, latest);
            polls = polls.wrapping_add(1);
            if matches!(state, State::Tells { .. }) && polls.is_multiple_of(DOOR_POLLS) {
                // A status says nothing about that, and the operator's own connections need not show it.
                let asks = timeout(OVERDUE, self.etcd.asks_for_login(&member)).await.ok().flatten();
                if asks.is_some_and(|asks| asks != asks_for_login) {
                    asks_for_login = !asks_for_login;
                    self.wake.wake(&self.key);
                }
            }
            sleep(POLL_INTERVAL.saturating_sub(begun.elapsed())).await;
        }
    }

    /// Wakes the controller if the state has changed. The first answer does not wake it: it is looking already.
    fn turn(&self, state: &mut State, latest: State) {
        // If members require a login, ours may be in use by another call at the moment.
        let says_less = latest == State::Reserved && matches!(state, State::Tells { .. });
        if latest == *state || says_less {
            return;
        }
        let first = *state == State::Unknown && latest != State::Silent;
        *state = latest;
        if !first {
            self.wake.wake(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::future::BoxFuture;
    use futures::{FutureExt, StreamExt};
    use parking_lot::Mutex;

    use super::*;
    use causeway_databases::etcd::{Reply, Request, Transport, Trouble};
    use causeway_databases::listeners::IDLE;
    use causeway_runtime::leader::Fence;
    use causeway_runtime::metrics::Metrics;

    /// A member's answer; without an answer it hangs.
    type Answer = Option<Result<Status, Trouble>>;

    /// A member: what it answers, how often it was asked, and whether it asks new clients for a login.
    #[derive(Clone)]
    struct Member(Arc<Mutex<(Answer, u32, bool)>>);

    impl Transport for Member {
        fn call<'a>(&'a self, _: &'a Endpoint, request: &'a Request) -> BoxFuture<'a, Result<Reply, EtcdError>> {
            if matches!(request, Request::LocalRead | Request::CheckLogin) {
                let asks = self.0.lock().2;
                let refusal = || EtcdError::new("Range", Trouble::NotLoggedIn, String::new());
                return std::future::ready(if asks { Err(refusal()) } else { Ok(Reply::Done) }).boxed();
            }
            assert_eq!(*request, Request::Pulse);
            let answer = {
                let mut member = self.0.lock();
                member.1 += 1;
                if let Some(Ok(status)) = &mut member.0 {
                    status.revision += 1;
                    status.raft_index += 7;
                }
                member.0.clone()
            };
            async move {
                match answer {
                    Some(Ok(status)) => Ok(Reply::Status(status)),
                    Some(Err(trouble)) => Err(EtcdError::new("Status", trouble, String::new())),
                    None => std::future::pending().await,
                }
            }
            .boxed()
        }
    }

    struct Scene {
        member: Member,
        monitor: Monitor,
        woken: std::pin::Pin<Box<dyn Stream<Item = Key> + Send>>,
    }

    fn key() -> Key {
        ("shop".into(), "db".into())
    }

    fn endpoint() -> Endpoint {
        Endpoint { url: "http://10.0.0.7:2379".into(), ..Endpoint::default() }
    }

    impl Scene {
        /// A member that is well and was listened to for a while.
        async fn new() -> Self {
            let well = Status { member_id: 7, leader: 7, ..Status::default() };
            let member = Member(Arc::new(Mutex::new((Some(Ok(well)), 0, false))));
            let etcd = Etcd::new(Arc::new(member.clone()), Fence::closed_until_lease(), Metrics::new());
            let monitor = Monitor::new(etcd);
            let woken = monitor.wake.subscribe().boxed();
            let mut scene = Self { member, monitor, woken };
            scene.monitor.follow(&key(), "uid", vec![endpoint()]);
            scene.rests(Duration::from_secs(100)).await;
            scene
        }

        fn answers(&self, answer: impl Into<Option<Result<Status, Trouble>>>) {
            self.member.0.lock().0 = answer.into();
        }

        async fn rests(&mut self, time: Duration) {
            assert!(timeout(time, self.woken.next()).await.is_err(), "nothing happened, and the controller was woken");
        }

        async fn wakes(&mut self) {
            // A controller that is woken follows the member again.
            self.monitor.follow(&key(), "uid", vec![endpoint()]);
            let limit = Duration::from_millis(2300);
            assert_eq!(
                timeout(limit, self.woken.next()).await.expect("the controller was not woken in time"),
                Some(key())
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_change_of_a_member_wakes_once() {
        let mut scene = Scene::new().await;
        let well = Status { member_id: 7, leader: 7, ..Status::default() };
        let full = Status { errors: vec!["memberID:7 alarm:NOSPACE".into()], ..well.clone() };
        for answer in [
            Some(Ok(full)),
            Some(Ok(Status { leader: 0, ..well.clone() })),
            Some(Ok(Status { leader: 9, ..well.clone() })),
            Some(Err(Trouble::Unanswered)),
            Some(Err(Trouble::NotLoggedIn)),
            Some(Ok(well)),
            None,
        ] {
            scene.answers(answer);
            scene.wakes().await;
            scene.rests(Duration::from_secs(20)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn authentication_that_is_turned_on_by_hand_wakes_soon() {
        let mut scene = Scene::new().await;
        for asks in [true, false] {
            scene.member.0.lock().2 = asks;
            scene.wakes().await;
            scene.rests(Duration::from_secs(20)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_login_that_is_in_use_elsewhere_is_no_news() {
        let mut scene = Scene::new().await;
        scene.answers(Some(Err(Trouble::NotLoggedIn)));
        scene.rests(Duration::from_secs(10)).await;
        scene.answers(Some(Ok(Status { member_id: 7, leader: 7, ..Status::default() })));
        scene.rests(Duration::from_secs(10)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_that_is_silent_is_known_to_be() {
        let mut scene = Scene::new().await;
        let silence = |scene: &Scene| scene.monitor.silence(&key(), &endpoint()).expect("it is listened to");
        assert!(silence(&scene) <= POLL_INTERVAL);
        scene.answers(None);
        scene.wakes().await;
        sleep(Duration::from_secs(5)).await;
        assert!(silence(&scene) >= Duration::from_secs(6));
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_is_polled_each_second_until_forgotten() {
        let scene = Scene::new().await;
        let calls = || scene.member.0.lock().1;
        assert!((100..=102).contains(&calls()), "{} calls in 100 s", calls());
        sleep(IDLE).await;
        let before = calls();
        sleep(IDLE).await;
        assert_eq!(calls(), before);
        scene.monitor.follow(&key(), "uid", vec![endpoint()]);
        sleep(POLL_INTERVAL * 2).await;
        assert!(calls() > before);
        scene.monitor.follow(&key(), "uid", Vec::new());
        let before = calls();
        sleep(POLL_INTERVAL * 2).await;
        assert_eq!(calls(), before);
    }
}
