//! Listens to every member, and wakes the controller when one falls silent or comes back, knows another leader or none, or
//! complains: an alarm of one member is told by all.
//!
//! A connection a member is held open and asked once a second what the member knows of itself: a local read of a few hundred
//! bytes, and no call of the apiserver. What is heard here only wakes: whoever decides asks anew.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::stream::Stream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::controllers::wake::{Key, Wake};
use crate::external::etcd::{Endpoint, Etcd, EtcdError, Status};

/// How often a member is asked.
const RHYTHM: Duration = Duration::from_secs(1);
/// An answer that takes longer is overdue.
const OVERDUE: Duration = Duration::from_millis(1200);
/// A member that nobody asked about for so long is not listened to any more: its object is gone, or suspended.
const IDLE: Duration = Duration::from_secs(150);

/// Listens to the members of all clusters.
pub struct Monitor {
    etcd: Etcd,
    listeners: Mutex<HashMap<Key, HashMap<String, Listener>>>,
    wake: Wake,
}

struct Listener {
    task: JoinHandle<()>,
    heard: Arc<Mutex<Heard>>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What was heard of a member.
struct Heard {
    /// When it answered last, or when it was asked first.
    last: Instant,
    /// When somebody asked about it last.
    wanted: Instant,
    /// How it is reached now: certificates and passwords change.
    member: Endpoint,
}

impl Monitor {
    /// Listens through `etcd`.
    pub fn new(etcd: Etcd) -> Self {
        Self { etcd, listeners: Mutex::default(), wake: Wake::default() }
    }

    /// The objects that are to be looked at.
    pub fn subscribe(&self) -> impl Stream<Item = Key> + Send + 'static + use<> {
        self.wake.subscribe()
    }

    /// Listens to these members of an object, and to no others of it any more.
    pub fn follow(&self, key: &Key, members: &[Endpoint]) {
        let mut all = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let listeners = all.entry(key.clone()).or_default();
        listeners
            .retain(|url, listener| members.iter().any(|member| member.url == *url) && !listener.task.is_finished());
        for member in members {
            let listener = listeners.entry(member.url.clone()).or_insert_with(|| self.listen(key, member));
            let mut heard = locked(&listener.heard);
            heard.wanted = Instant::now();
            heard.member.clone_from(member);
        }
        if listeners.is_empty() {
            all.remove(key);
        }
    }

    /// How long a member has not answered; nothing where it was never listened to.
    pub fn silence(&self, key: &Key, member: &Endpoint) -> Option<Duration> {
        let all = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let heard = locked(&all.get(key)?.get(&member.url)?.heard).last;
        Some(heard.elapsed())
    }

    /// A member has answered somebody.
    pub fn heard_of(&self, key: &Key, member: &Endpoint) {
        let all = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listener) = all.get(key).and_then(|listeners| listeners.get(&member.url)) {
            locked(&listener.heard).last = Instant::now();
        }
    }

    fn listen(&self, key: &Key, member: &Endpoint) -> Listener {
        let now = Instant::now();
        let heard = Arc::new(Mutex::new(Heard { last: now, wanted: now, member: member.clone() }));
        let (etcd, wake) = (self.etcd.clone(), self.wake.clone());
        let ear = Ear { etcd, heard: heard.clone(), key: key.clone(), wake };
        Listener { task: tokio::spawn(ear.listen()), heard }
    }
}

/// What of a member wakes somebody when it changes.
#[derive(Clone, Debug, PartialEq)]
enum State {
    /// Nobody has asked yet.
    Unknown,
    Silent,
    /// It answers, and tells nothing to whoever has not logged in.
    Reserved,
    Tells {
        member: u64,
        leader: u64,
        is_learner: bool,
        errors: Vec<String>,
    },
}

impl State {
    fn of(answer: Result<Status, EtcdError>) -> Self {
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
struct Ear {
    etcd: Etcd,
    heard: Arc<Mutex<Heard>>,
    key: Key,
    wake: Wake,
}

impl Ear {
    async fn listen(self) {
        let mut state = State::Unknown;
        loop {
            let begun = Instant::now();
            let member = {
                let heard = locked(&self.heard);
                if heard.wanted.elapsed() >= IDLE {
                    return;
                }
                heard.member.clone()
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
            let heard = State::of(answer);
            if heard != State::Silent {
                locked(&self.heard).last = Instant::now();
            }
            self.turn(&mut state, heard);
            sleep(RHYTHM.saturating_sub(begun.elapsed())).await;
        }
    }

    /// Wakes where that is news. Whoever asked first is looking already.
    fn turn(&self, state: &mut State, heard: State) {
        // Where logins are asked for, ours may be in use elsewhere at the moment.
        let says_less = heard == State::Reserved && matches!(state, State::Tells { .. });
        if heard == *state || says_less {
            return;
        }
        let first = *state == State::Unknown && heard != State::Silent;
        *state = heard;
        if !first {
            self.wake.wake(&self.key);
        }
    }
}

fn locked(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures::future::BoxFuture;
    use futures::{FutureExt, StreamExt};
    use tokio::time::timeout;

    use super::*;
    use crate::external::etcd::{Reply, Request, Transport, Trouble};
    use crate::leader::Fence;
    use crate::metrics::Metrics;

    /// What a member answers; without an answer it hangs.
    type Answer = Option<Result<Status, Trouble>>;

    /// A member, and how often it was asked.
    #[derive(Clone)]
    struct Member(Arc<Mutex<(Answer, u32)>>);

    impl Transport for Member {
        fn call<'a>(&'a self, _: &'a Endpoint, request: &'a Request) -> BoxFuture<'a, Result<Reply, EtcdError>> {
            assert_eq!(*request, Request::Pulse);
            let answer = {
                let mut member = self.0.lock().unwrap();
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
            let member = Member(Arc::new(Mutex::new((Some(Ok(well)), 0))));
            let etcd = Etcd::new(Arc::new(member.clone()), Fence::closed(), Metrics::new());
            let monitor = Monitor::new(etcd);
            let woken = monitor.subscribe().boxed();
            let mut scene = Self { member, monitor, woken };
            scene.monitor.follow(&key(), &[endpoint()]);
            scene.rests(Duration::from_secs(100)).await;
            scene
        }

        fn answers(&self, answer: impl Into<Option<Result<Status, Trouble>>>) {
            self.member.0.lock().unwrap().0 = answer.into();
        }

        async fn rests(&mut self, time: Duration) {
            assert!(timeout(time, self.woken.next()).await.is_err(), "nothing happened, and somebody was woken");
        }

        async fn wakes(&mut self) {
            // Whoever is woken asks for it once more.
            self.monitor.follow(&key(), &[endpoint()]);
            let patience = Duration::from_millis(2300);
            assert_eq!(timeout(patience, self.woken.next()).await.expect("nobody was woken in time"), Some(key()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_alarm_a_lost_leader_and_silence_wake_soon_and_each_once() {
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
        assert!(silence(&scene) <= RHYTHM);
        scene.answers(None);
        scene.wakes().await;
        sleep(Duration::from_secs(5)).await;
        assert!(silence(&scene) >= Duration::from_secs(6));
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_is_asked_once_a_second_and_not_any_more_when_nobody_wants_to_know() {
        let scene = Scene::new().await;
        let calls = || scene.member.0.lock().unwrap().1;
        assert!((100..=102).contains(&calls()), "{} calls in 100 s", calls());
        sleep(IDLE).await;
        let before = calls();
        sleep(IDLE).await;
        assert_eq!(calls(), before);
        scene.monitor.follow(&key(), &[endpoint()]);
        sleep(RHYTHM * 2).await;
        assert!(calls() > before);
        scene.monitor.follow(&key(), &[]);
        let before = calls();
        sleep(RHYTHM * 2).await;
        assert_eq!(calls(), before);
    }
}
