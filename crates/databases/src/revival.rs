//! Pods whose container is in a long restart back-off, although the cause of its death is gone.
//!
//! The kubelet restarts a container that ended after 10 s, then after 20 s, and in the end after 5 minutes, whatever it died
//! of. A container that was killed would run at once, and so would one that had no space and has some now. A pod that is
//! made again starts without that back-off. Each pod is helped ever more seldom: in the end, whatever kills it again and
//! again does so no faster than with the kubelet's back-off.
//! <https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#container-restarts>

use std::collections::HashMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use parking_lot::Mutex;

use causeway_runtime::quantity::amount;

use super::{Claim, facts};

/// How long to wait after the first help; twice as long after each further one.
const FIRST: Duration = Duration::from_secs(30);
/// The longest wait, which is the kubelet's longest back-off, too.
const LONGEST: Duration = Duration::from_mins(5);
/// A pod that needed no help for this long starts again with the first wait, as with the kubelet.
const FORGOTTEN: Duration = Duration::from_mins(10);
/// A container that waits no longer than this is left to the kubelet.
const SHORT_SECONDS: u64 = 10;
/// Exit codes of a process that was killed or asked to stop: 128 and the number of SIGKILL and of SIGTERM.
const KILLED: [i32; 2] = [128 + 9, 128 + 15];

/// How a container in a long restart back-off died, if the cause came from outside and is over. A container that took more
/// memory than it may would do so again.
pub fn cause(pod: &Pod, container: &str) -> Option<String> {
    let all = pod.status.as_ref()?.container_statuses.as_ref()?;
    let container = all.iter().find(|it| it.name == container).filter(|container| waits_long(container))?;
    let ended = container.last_state.as_ref()?.terminated.as_ref()?;
    let killed = KILLED.contains(&ended.exit_code) && ended.reason.as_deref() != Some("OOMKilled");
    killed
        .then(|| format!("its process was killed (exit code {}), and would wait in CrashLoopBackOff", ended.exit_code))
}

/// Reports whether a container is in a long restart back-off.
pub fn waits_long(container: &ContainerStatus) -> bool {
    let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
    let looping = waiting.filter(|waiting| waiting.reason.as_deref() == Some("CrashLoopBackOff"));
    looping.and_then(|waiting| waiting.message.as_deref()).is_some_and(is_long)
}

/// Reports whether the kubelet's message is about a long wait, such as `back-off 1m20s restarting failed container=…`.
fn is_long(words: &str) -> bool {
    let Some(time) = words.strip_prefix("back-off ").and_then(|rest| rest.split(' ').next()) else { return false };
    let seconds = time.strip_suffix('s').and_then(|number| number.parse::<u64>().ok());
    time.contains('m') || seconds.is_some_and(|seconds| seconds > SHORT_SECONDS)
}

/// Which pods were helped, and when; and how large the volumes of pods without space were. A restart of the operator
/// forgets this: then the next help comes a little early, and pods that had no space are left to the kubelet.
#[derive(Default)]
pub struct Revivals {
    helped: Mutex<HashMap<Key, Revival>>,
    full: Mutex<HashMap<Key, String>>,
}

/// Uid of the object and name of the pod.
type Key = (String, String);

struct Revival {
    last: Instant,
    pause: Duration,
}

impl Revivals {
    /// Reports whether that pod of the object with that uid may be helped now.
    pub fn may(&self, object: &str, pod: &str) -> bool {
        let all = self.helped.lock();
        let revival = all.get(&(object.to_owned(), pod.to_owned()));
        revival.is_none_or(|revival| revival.last.elapsed() >= revival.pause)
    }

    /// Notes that the pod was helped.
    pub fn note(&self, object: &str, pod: &str) {
        let mut all = self.helped.lock();
        all.retain(|_, revival| revival.last.elapsed() < FORGOTTEN);
        let key = (object.to_owned(), pod.to_owned());
        let pause = all.get(&key).map_or(FIRST, |revival| (revival.pause * 2).min(LONGEST));
        all.insert(key, Revival { last: Instant::now(), pause });
    }

    /// Returns the reason to help a pod that had no space, if its volume has grown since.
    pub fn room<N>(&self, object: &str, pod: &facts::Pod<N>, claim: Option<&Claim>) -> Option<String> {
        let mut full = self.full.lock();
        let key = (object.to_owned(), pod.name.clone());
        let Some(claim) = claim.filter(|_| pod.has_no_space()) else {
            full.remove(&key);
            return None;
        };
        let before = full.entry(key).or_insert_with(|| claim.capacity.clone());
        let has_grown = amount(&claim.capacity) > amount(before);
        (has_grown && pod.waits_long).then(|| {
            format!("its volume was full and has {} now, and it would wait in CrashLoopBackOff", claim.capacity)
        })
    }

    /// Forgets the object with that uid, which is gone.
    pub fn forget(&self, object: &str) {
        self.helped.lock().retain(|(uid, _), _| uid != object);
        self.full.lock().retain(|(uid, _), _| uid != object);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn help_for(exit_code: i32, reason: &str, back_off: &str) -> Option<String> {
        let pod = json!({ "metadata": {}, "status": { "containerStatuses": [{
            "name": "etcd", "image": "", "imageID": "", "ready": false, "restartCount": 3,
            "state": { "waiting": {
                "reason": "CrashLoopBackOff",
                "message": format!("back-off {back_off} restarting failed container=etcd pod=db-0_shop(1)"),
            } },
            "lastState": { "terminated": { "exitCode": exit_code, "reason": reason } },
        }] } });
        cause(&serde_json::from_value(pod).unwrap(), "etcd")
    }

    #[test]
    fn only_a_killed_container_in_back_off_is_helped() {
        assert!(help_for(137, "Error", "20s").is_some_and(|why| why.contains("exit code 137")));
        assert!(help_for(143, "Error", "1m20s").is_some());
        assert!(help_for(137, "Error", "5m0s").is_some());
        assert_eq!(help_for(137, "Error", "10s"), None, "the kubelet is as fast");
        assert_eq!(help_for(137, "OOMKilled", "40s"), None, "it would be killed again");
        assert_eq!(help_for(1, "Error", "40s"), None, "it would end again");
        assert_eq!(help_for(0, "Completed", "40s"), None, "it is not known why it ended");
    }

    #[test]
    fn help_comes_ever_more_seldom() {
        let revivals = Revivals::default();
        assert!(revivals.may("uid", "db-0"));
        let mut pauses = Vec::new();
        for _ in 0..6 {
            revivals.note("uid", "db-0");
            pauses.push(revivals.helped.lock().values().next().unwrap().pause.as_secs());
            assert!(!revivals.may("uid", "db-0"));
            assert!(revivals.may("uid", "db-1") && revivals.may("other", "db-0"));
        }
        assert_eq!(pauses, [30, 60, 120, 240, 300, 300]);
        revivals.forget("uid");
        assert!(revivals.may("uid", "db-0"));
    }

    #[test]
    fn a_full_pod_is_helped_once_its_volume_grew() {
        let revivals = Revivals::default();
        let pod = |words: &str, waits_long: bool| facts::Pod::<()> {
            name: "db-0".into(),
            last_words: Some(words.into()),
            waits_long,
            ..facts::Pod::default()
        };
        let claim = |capacity: &str| Claim { capacity: capacity.into(), ..Claim::default() };
        let found = |pod: &facts::Pod<()>, capacity: &str| revivals.room("uid", pod, Some(&claim(capacity)));
        let full = "write /data/member/wal/0.tmp: no space left on device";
        assert_eq!(found(&pod(full, false), "1Gi"), None);
        assert_eq!(found(&pod(full, true), "1Gi"), None, "it is full as before");
        assert_eq!(found(&pod(full, true), "1024Mi"), None, "that is as much");
        assert_eq!(found(&pod(full, false), "2Gi"), None, "the kubelet is as fast");
        assert!(found(&pod(full, true), "2Gi").is_some_and(|why| why.contains("2Gi")));
        assert_eq!(found(&pod("panic: else", true), "2Gi"), None);
        assert_eq!(found(&pod(full, true), "2Gi"), None, "full again, with as much");
        assert!(found(&pod(full, true), "3Gi").is_some());
        revivals.forget("uid");
        assert_eq!(found(&pod(full, true), "3Gi"), None);
    }
}
