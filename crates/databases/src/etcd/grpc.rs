//! Calls members by gRPC.

use etcd_client::{
    AlarmAction, AlarmOptions, AlarmType, Client, CompactionOptions, ConnectOptions, DowngradeInfo, DowngradeOptions,
    Error, GetOptions, MemberAddOptions, StatusResponse,
};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::bounded::{Route, channel, refusal};
use super::error::{EtcdError, Trouble};
use super::sessions::Sessions;
use super::{Alarm, AlarmKind, Endpoint, Member, Password, ROOT, Reply, Request, Status, Transport};

/// Reads of this key, which no client writes, show whether a majority answers.
const NO_KEY: &str = "causeway.example.com/health";

/// More members than any cluster has: etcd advises seven at most. <https://etcd.io/docs/v3.5/faq/>
const MOST_MEMBERS: usize = 64;

/// The number of complaints of a member, and of alarms, that are kept. A member has at most one alarm of a kind.
const MOST_ERRORS: usize = 16;
const MOST_ALARMS: usize = 2 * MOST_MEMBERS;

/// Opens one connection for each call: calls are rare, members come and go, and no connection stays open to a member
/// that is not called any more. Two kinds of connections are kept: those with a login, because a login is a write of
/// the whole cluster; and those for [`Request::Pulse`].
#[derive(Debug, Default)]
pub struct Grpc {
    sessions: Sessions,
    /// Connections without a login, for [`Request::Pulse`].
    standing: Sessions,
}

impl Transport for Grpc {
    fn call<'a>(&'a self, to: &'a Endpoint, request: &'a Request) -> BoxFuture<'a, Result<Reply, EtcdError>> {
        async move { self.make(to, request).await.map_err(|error| error_of(request.name(), &error)) }.boxed()
    }
}

impl Grpc {
    async fn make(&self, to: &Endpoint, request: &Request) -> Result<Reply, Error> {
        if *request == Request::Pulse {
            return Box::pin(self.pulse(to)).await;
        }
        if *request == Request::CheckLogin {
            let Some(mut client) = self.sessions.share(to) else { return Ok(Reply::Done) };
            return ask(&mut client, request).await;
        }
        let Some(password) = &to.login else { return ask(&mut connect(to, request, None).await?, request).await };
        if *request == Request::Status {
            return self.status(to).await;
        }
        if let Some(mut client) = self.sessions.take(to).filter(|_| *request != Request::Login) {
            match ask(&mut client, request).await {
                Err(error) if error_of(request.name(), &error).trouble == Trouble::NotLoggedIn => {}
                outcome => {
                    self.keep_after(to, client, request, &outcome);
                    return outcome;
                }
            }
        }
        if *request == Request::Login {
            let client = match connect(to, request, Some(password)).await {
                Err(error) if is_of_learner(&error) => self.lead_in(to, request, password).await?.ok_or(error)?,
                client => client?,
            };
            self.sessions.keep(to, client);
            return Ok(Reply::Done);
        }
        let mut client = connect(to, request, Some(password)).await?;
        let outcome = ask(&mut client, request).await;
        self.keep_after(to, client, request, &outcome);
        outcome
    }

    /// Earlier releases report their status to any client; later ones, such as 3.5.35, only after a login. Without a
    /// majority, no client can log in, but each member still accepts earlier logins.
    async fn status(&self, to: &Endpoint) -> Result<Reply, Error> {
        if let Some(mut client) = self.sessions.take(to)
            && let Ok(reply) = ask(&mut client, &Request::Status).await
        {
            self.sessions.keep(to, client);
            return Ok(reply);
        }
        ask(&mut connect(to, &Request::Status, None).await?, &Request::Status).await
    }

    /// Runs beside other calls. It uses their login if there is one, but never logs in itself.
    async fn pulse(&self, to: &Endpoint) -> Result<Reply, Error> {
        if let Some(mut client) = self.sessions.share(to)
            && let Ok(reply) = ask(&mut client, &Request::Pulse).await
        {
            return Ok(reply);
        }
        let anonymous = Endpoint { login: None, ..to.clone() };
        let mut client = match self.standing.take(&anonymous) {
            Some(client) => client,
            None => connect(&anonymous, &Request::Pulse, None).await?,
        };
        let outcome = ask(&mut client, &Request::Pulse).await;
        self.keep_standing(&anonymous, client, &outcome);
        outcome
    }

    /// Keeps a connection, unless no answer came over it.
    fn keep_standing(&self, to: &Endpoint, client: Client, outcome: &Result<Reply, Error>) {
        let trouble = outcome.as_ref().err().map(|error| error_of(Request::Pulse.name(), error).trouble);
        if trouble != Some(Trouble::Unanswered) {
            self.standing.keep(to, client);
        }
    }

    /// Opens a connection to a learner. A learner takes no logins, but accepts those that other members took: this logs
    /// in at another member, and then moves the connection to the learner. `None` if no other member is known.
    async fn lead_in(&self, to: &Endpoint, request: &Request, password: &Password) -> Result<Option<Client>, Error> {
        let Some(other) = self.sessions.other_member(to) else { return Ok(None) };
        let (client, route) = open(&other, request, Some(password)).await?;
        route.add(to, request.deadline()).await?;
        route.remove(&other).await?;
        Ok(Some(client))
    }

    /// Keeps a connection, unless no answer came over it.
    fn keep_after(&self, to: &Endpoint, client: Client, request: &Request, outcome: &Result<Reply, Error>) {
        let trouble = outcome.as_ref().err().map(|error| error_of(request.name(), error).trouble);
        if !matches!(trouble, Some(Trouble::Unanswered | Trouble::NotLoggedIn | Trouble::LoginRefused)) {
            self.sessions.keep(to, client);
        }
    }
}

fn is_of_learner(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status) if status.message().contains("not supported for learner"))
}

async fn connect(to: &Endpoint, request: &Request, password: Option<&Password>) -> Result<Client, Error> {
    open(to, request, password).await.map(|(client, _)| client)
}

/// A connection, and its route, by which another member can be called over it.
async fn open(to: &Endpoint, request: &Request, password: Option<&Password>) -> Result<(Client, Route), Error> {
    let (channel, route) = channel();
    route.add(to, request.deadline()).await?;
    let mut options = ConnectOptions::new();
    if let Some(Password(password)) = password {
        options = options.with_user(ROOT, password);
    }
    Ok((Client::from_channel(channel, Some(options)).await?, route))
}

async fn ask(client: &mut Client, request: &Request) -> Result<Reply, Error> {
    match request {
        Request::Status | Request::Pulse => {
            return client.status().await.map(|status| Reply::Status(status_of(&status)));
        }
        Request::Read => client.get(NO_KEY, Some(GetOptions::new().with_count_only())).await.map(drop)?,
        Request::LocalRead | Request::CheckLogin => {
            let options = GetOptions::new().with_count_only().with_serializable();
            client.get(NO_KEY, Some(options)).await.map(drop)?;
        }
        Request::Members => {
            let list = client.member_list().await?;
            return members_of(list.members()).map(Reply::Members);
        }
        Request::AddLearner { peer_url } => {
            let added = client.member_add([peer_url], Some(MemberAddOptions::new().with_is_learner())).await?;
            return members_of(added.member_list()).map(Reply::Members);
        }
        Request::Promote { id } => client.member_promote(*id).await.map(drop)?,
        Request::UpdatePeer { id, peer_url } => client.member_update(*id, [peer_url.clone()]).await.map(drop)?,
        Request::Remove { id } => client.member_remove(*id).await.map(drop)?,
        Request::MoveLeader { to } => client.move_leader(*to).await.map(drop)?,
        Request::Alarms => {
            let answer = client.alarm(AlarmAction::Get, AlarmType::None, None).await?;
            let alarms = answer
                .alarms()
                .iter()
                .filter_map(|alarm| kind_of(alarm.alarm()).map(|kind| Alarm { member: alarm.member_id(), kind }));
            return Ok(Reply::Alarms(alarms.take(MOST_ALARMS).collect()));
        }
        Request::Disarm(Alarm { member, kind }) => {
            let kind = match kind {
                AlarmKind::NoSpace => AlarmType::Nospace,
                AlarmKind::Corrupt => AlarmType::Corrupt,
            };
            let mut options = AlarmOptions::new();
            options.with_member(*member);
            client.alarm(AlarmAction::Deactivate, kind, Some(options)).await.map(drop)?;
        }
        Request::Compact { revision } => {
            let options = CompactionOptions::new().with_physical();
            client.compact(*revision, Some(options)).await.map(drop)?;
        }
        Request::Defragment => client.defragment().await.map(drop)?,
        Request::EnableDowngrade { target } => {
            client.maintenance_client().downgrade(DowngradeOptions::Enable(target.clone())).await.map(drop)?;
        }
        Request::CancelDowngrade => client.maintenance_client().downgrade(DowngradeOptions::Cancel).await.map(drop)?,
        // Done by connecting.
        Request::Login => {}
        Request::AddRoot { password: Password(password) } => client.user_add(ROOT, password, None).await.map(drop)?,
        Request::ChangePassword { password: Password(password) } => {
            client.user_change_password(ROOT, password).await.map(drop)?;
        }
        Request::AddRole => client.role_add(ROOT).await.map(drop)?,
        Request::GrantRole => client.user_grant_role(ROOT, ROOT).await.map(drop)?,
        Request::EnableAuth => client.auth_enable().await.map(drop)?,
        Request::DisableAuth => client.auth_disable().await.map(drop)?,
    }
    Ok(Reply::Done)
}

fn status_of(status: &StatusResponse) -> Status {
    let header = status.header();
    Status {
        cluster_id: header.map_or(0, etcd_client::ResponseHeader::cluster_id),
        member_id: header.map_or(0, etcd_client::ResponseHeader::member_id),
        version: status.version().to_owned(),
        leader: status.leader(),
        is_learner: status.is_learner(),
        raft_index: status.raft_index(),
        applied_index: status.raft_applied_index(),
        revision: header.map_or(0, etcd_client::ResponseHeader::revision),
        db_size: status.db_size(),
        db_in_use: status.raft_used_db_size(),
        errors: status.errors().iter().take(MOST_ERRORS).cloned().collect(),
        storage_minor: status.storage_version().split('.').nth(1).and_then(|minor| minor.parse().ok()),
        downgrades: status.downgrade_info().is_some_and(DowngradeInfo::enabled),
    }
}

/// Fails rather than leaves members out: a member that is missing would count as removed.
fn members_of(members: &[etcd_client::Member]) -> Result<Vec<Member>, Error> {
    if members.len() > MOST_MEMBERS {
        return Err(refusal(&format!("it names {} members", members.len())));
    }
    Ok(members.iter().map(member_of).collect())
}

fn member_of(member: &etcd_client::Member) -> Member {
    Member {
        id: member.id(),
        name: member.name().to_owned(),
        peer_urls: member.peer_urls().to_vec(),
        client_urls: member.client_urls().to_vec(),
        is_learner: member.is_learner(),
    }
}

fn kind_of(alarm: AlarmType) -> Option<AlarmKind> {
    match alarm {
        AlarmType::Nospace => Some(AlarmKind::NoSpace),
        AlarmType::Corrupt => Some(AlarmKind::Corrupt),
        AlarmType::None => None,
    }
}

fn error_of(operation: &'static str, error: &Error) -> EtcdError {
    let Error::GRpcStatus(status) = error else {
        return EtcdError::new(operation, Trouble::Unanswered, error.to_string());
    };
    let message = status.message();
    let trouble = [
        ("no leader", Trouble::NoLeader),
        ("leader changed", Trouble::NoLeader),
        ("request timed out", Trouble::NoLeader),
        ("learner which is in sync with leader", Trouble::LearnerNotReady),
        ("unhealthy cluster", Trouble::Unhealthy),
        ("unstarted", Trouble::Unhealthy),
        ("re-configuration failed due to not enough started members", Trouble::Unhealthy),
        ("too many learner", Trouble::Unhealthy),
        ("Peer URLs already exists", Trouble::PeerExists),
        ("member ID already exist", Trouble::PeerExists),
        ("member not found", Trouble::MemberNotFound),
        ("can only promote a learner member", Trouble::MemberNotFound),
        ("revision has been compacted", Trouble::Compacted),
        ("not leader", Trouble::NotLeader),
        ("bad leader transferee", Trouble::NotLeader),
        ("invalid downgrade target version", Trouble::VersionBehind),
        ("downgrade job in progress", Trouble::AlreadyThere),
        ("no inflight downgrade job", Trouble::AlreadyThere),
        ("user name already exists", Trouble::AlreadyThere),
        ("role name already exists", Trouble::AlreadyThere),
        ("authentication is not enabled", Trouble::AuthOff),
        ("authentication failed", Trouble::LoginRefused),
        ("invalid auth token", Trouble::NotLoggedIn),
        ("not supported for learner", Trouble::NotLoggedIn),
        ("revision of auth store is old", Trouble::NotLoggedIn),
        ("user name is empty", Trouble::NotLoggedIn),
        ("user name not found", Trouble::NotLoggedIn),
        ("permission denied", Trouble::NotLoggedIn),
    ]
    .into_iter()
    .find(|(text, _)| message.contains(text))
    .map(|(_, trouble)| trouble);
    let unanswered = matches!(status.code() as i32, 1 | 4 | 14) && !message.contains("etcdserver");
    let fallback = if unanswered { Trouble::Unanswered } else { Trouble::Other };
    EtcdError::new(operation, trouble.unwrap_or(fallback), message.to_owned())
}
