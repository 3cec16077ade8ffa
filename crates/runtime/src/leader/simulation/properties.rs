//! Property tests: for any sequence of events, two processes never lead at the same time.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Event {
    Pass(u64),
    Look(usize),
    Wake(usize),
    Send(usize),
    Arrive(usize),
    Receive(usize, bool),
    Turn(usize),
    /// A container is started again, or its pod is created again. Either way the earlier process has ended.
    Crash(usize, bool),
    /// A request from a process that has ended reaches the server.
    Late,
    /// A user edits the lease by hand: clears the holder, or writes another name.
    Meddle(bool),
}

const PROCESSES: usize = 3;

fn event() -> impl Strategy<Value = Event> {
    let who = 0..PROCESSES;
    prop_oneof![
        4 => (0..4_000_u64).prop_map(Event::Pass),
        1 => (4_000..30_000_u64).prop_map(Event::Pass),
        3 => who.clone().prop_map(Event::Look),
        2 => who.clone().prop_map(Event::Wake),
        4 => who.clone().prop_map(Event::Send),
        4 => who.clone().prop_map(Event::Arrive),
        4 => (who.clone(), prop::bool::weighted(0.8)).prop_map(|(who, delivered)| Event::Receive(who, delivered)),
        4 => who.clone().prop_map(Event::Turn),
        1 => (who, any::<bool>()).prop_map(|(who, pod)| Event::Crash(who, pod)),
        1 => Just(Event::Late),
        1 => any::<bool>().prop_map(Event::Meddle),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// No sequence of events opens two fences at the same time.
    #[test]
    fn two_never_lead(
        events in prop::collection::vec(event(), 1..150),
        clock_errors in prop::array::uniform3(-100_000..100_000_i64),
        // Candidates for one lease have different timings while an option is being rolled out.
        timings in prop::array::uniform3(prop_oneof![Just(TIMING), Just(short())]),
    ) {
        let mut now = Instant::now();
        let mut wall = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(500_000);
        let mut cluster = Cluster::default();
        let mut orphans: Vec<Request> = Vec::new();
        let mut born = 0;
        let mut pods = [0, 1, 2];
        let mut identity = |pod: usize| {
            born += 1;
            format!("causeway-{pod}_uid-{pod}_{born}")
        };
        let mut processes: Vec<Process> = (0..PROCESSES)
            .map(|who| Process::new(&identity(who), timings[who], clock_errors[who], now))
            .collect();
        for event in events {
            match event {
                Event::Pass(millis) => {
                    now += Duration::from_millis(millis);
                    wall += SignedDuration::from_millis(i64::try_from(millis).unwrap());
                }
                Event::Look(who) => processes[who].look(&cluster, now, wall),
                Event::Wake(who) => processes[who].step(Observation::Nothing, now, wall),
                Event::Send(who) => processes[who].send(now),
                Event::Arrive(who) => processes[who].arrive(&mut cluster),
                Event::Receive(who, delivered) => processes[who].receive(delivered, now, wall),
                Event::Turn(who) => processes[who].turn(&mut cluster, now, wall),
                Event::Crash(who, pod) => {
                    pods[who] += if pod { PROCESSES } else { 0 };
                    let another = Process::new(&identity(pods[who]), timings[who], clock_errors[who], now);
                    // A request that it had sent may still arrive.
                    let sent = std::mem::replace(&mut processes[who], another).request;
                    orphans.extend(sent.filter(|request| request.accepted.is_none()));
                }
                Event::Late => {
                    if let Some(request) = orphans.pop() {
                        cluster.write(request.record, request.on_top_of);
                    }
                }
                Event::Meddle(clear) => {
                    if let Some(mut record) = cluster.record.clone() {
                        record.holder_identity = if clear { None } else { Some("a-user".to_owned()) };
                        cluster.put(Some(record));
                    }
                }
            }
            let leaders: Vec<_> = processes.iter().filter(|process| process.leads(now)).collect();
            prop_assert!(
                leaders.len() <= 1,
                "{:?} lead",
                leaders.iter().map(|leader| &leader.candidate.identity).collect::<Vec<_>>()
            );
        }
    }
}
