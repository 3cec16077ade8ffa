//! The members as they are, whatever the operator reports: each one is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use causeway_databases::etcd::{Endpoint, Grpc, Reply, Request, Status, Transport, Trouble};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use tokio::time::timeout;

use super::{WAIT_TIMEOUT, access, member, pods};
use crate::support::Scene;
use crate::support::wait::wait_within;

const DEADLINE: Duration = Duration::from_secs(3);

/// Returns the status of every pod's member, by pod; `None` where it does not answer.
pub async fn statuses(scene: &Scene) -> BTreeMap<String, Option<Status>> {
    let asked = pods(scene).await.into_iter().map(|pod| async move {
        let status = match ask(scene, &pod, Request::Status).await {
            Some(Reply::Status(status)) => Some(status),
            _ => None,
        };
        (pod.name_any(), status)
    });
    join_all(asked).await.into_iter().collect()
}

/// Returns the status of a member, as soon as it answers: on a busy machine not every question is answered in time.
pub async fn status_of(scene: &Scene, name: &str) -> Status {
    let look = || async { statuses(scene).await.remove(name).flatten() };
    wait_within(WAIT_TIMEOUT, &format!("an answer of {name}"), look, Option::is_some).await.expect("just seen")
}

/// The names of the members, each with whether it is a learner, as a majority knows them; `None` without one.
pub async fn members(scene: &Scene) -> Option<BTreeMap<String, bool>> {
    for pod in pods(scene).await {
        if ask(scene, &pod, Request::Read).await.is_some()
            && let Some(Reply::Members(members)) = ask(scene, &pod, Request::Members).await
        {
            return Some(members.into_iter().map(|member| (member.name, member.is_learner)).collect());
        }
    }
    None
}

/// Waits until exactly so many members of that version serve: all vote, all follow the same leader.
pub async fn complete(scene: &Scene, replicas: i32, version: &str) {
    let expected: BTreeMap<String, bool> =
        (0..usize::try_from(replicas).expect("a number")).map(|ordinal| (member(ordinal), false)).collect();
    let look = || async { Seen { members: members(scene).await, statuses: statuses(scene).await } };
    let good = |Seen { members, statuses }: &Seen| {
        let known: Vec<&Status> = statuses.values().flatten().collect();
        let leaders: BTreeSet<(u64, u64)> = known.iter().map(|status| (status.cluster_id, status.leader)).collect();
        members.as_ref() == Some(&expected)
            && statuses.keys().eq(expected.keys())
            && known.len() == expected.len()
            && known.iter().all(|status| status.version == version && status.leader != 0)
            && leaders.len() == 1
    };
    wait_within(WAIT_TIMEOUT, &format!("{replicas} members of {version} that say so themselves"), look, good).await;
}

#[derive(Debug)]
struct Seen {
    members: Option<BTreeMap<String, bool>>,
    statuses: BTreeMap<String, Option<Status>>,
}

/// The pod whose member leads.
pub async fn leader(scene: &Scene) -> String {
    let look = || async {
        let statuses = statuses(scene).await;
        statuses.into_iter().find_map(|(pod, status)| status.filter(|it| it.leader == it.member_id).map(|_| pod))
    };
    wait_within(WAIT_TIMEOUT, "a leader", look, Option::is_some).await.expect("just seen")
}

/// Waits until another one leads.
pub async fn another_leader(scene: &Scene, than: &str) -> String {
    wait_within(WAIT_TIMEOUT, &format!("another leader than {than}"), || leader(scene), |leader| leader != than).await
}

async fn ask(scene: &Scene, pod: &Pod, request: Request) -> Option<Reply> {
    let address = pod.status.as_ref()?.pod_ip.as_ref()?;
    let endpoint = access::endpoint(&scene.api(), address, access::speaks_tls(pod)).await;
    let grpc = Grpc::default();
    let call =
        async |endpoint: &Endpoint, request: &Request| timeout(DEADLINE, grpc.call(endpoint, request)).await.ok();
    match call(&endpoint, &request).await? {
        Err(error) if error.trouble == Trouble::AuthOff => {
            call(&Endpoint { login: None, ..endpoint }, &request).await?.ok()
        }
        // A member reports its status only to clients that have logged in.
        Err(error) if error.trouble == Trouble::NotLoggedIn => {
            call(&endpoint, &Request::Login).await?.ok()?;
            call(&endpoint, &request).await?.ok()
        }
        answer => answer.ok(),
    }
}

/// Makes a member lead.
pub async fn lead(scene: &Scene, name: &str) {
    let wanted = status_of(scene, name).await.member_id;
    let look = || async {
        let leader = leader(scene).await;
        if leader != name {
            let leading = pods(scene).await.into_iter().find(|pod| pod.name_any() == leader).expect("the leader's pod");
            ask(scene, &leading, Request::MoveLeader { to: wanted }).await;
        }
        leader
    };
    wait_within(WAIT_TIMEOUT, &format!("{name} to lead"), look, |leader| leader == name).await;
}
