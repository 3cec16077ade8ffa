//! A throw-away server of PostgreSQL. It is made in the work directory, and answers only at a socket there.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::super::child::{Child, Program};
use super::super::{Account, Fetched, How, PROGRAM_SILENCE_TIMEOUT, Side};
use super::locks::setting_for;
use super::pair::contents;
use super::session::Session;
use super::{MAINTENANCE, restore};
use crate::Error;
use crate::secrets::Login;

/// How long it may take to start.
const BEGINNING: Duration = Duration::from_mins(2);
/// Transactions for which it has room with the default settings.
const CLIENTS: u64 = 100;
/// The largest setting of locks, which takes some hundred MiB of memory.
const MOST_LOCKS: u64 = 16_384;
/// How often it is asked whether it is ready.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How a server's error begins if the user does not exist or may not log in.
const NO_SUCH_USER: &str = "FATAL:  role \"";

/// Restores a backup into it, and compares. Returns the number of rows.
pub async fn verify(fetched: &Fetched, work: &Path) -> Result<u64, Error> {
    let account = account(work, "postgres");
    let data = work.join("server");
    if data.exists() {
        std::fs::remove_dir_all(&data).map_err(|source| Error::Work { path: data.clone(), source })?;
    }
    let made = Program::new("initdb")
        .args(["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--username=postgres", "--pgdata"])
        .args([&data]);
    made.run(Stdio::null(), PROGRAM_SILENCE_TIMEOUT).await?.map_err(|failure| Side::Scratch.failed(&failure))?;
    // Nothing of it is kept, so it need not survive a crash: it writes nothing twice, and does not wait for the disk.
    let settings = ["fsync=off", "full_page_writes=off", "synchronous_commit=off", "wal_level=minimal"];
    let quiet = ["max_wal_senders=0", "autovacuum=off", "listen_addresses=", "dynamic_shared_memory_type=mmap"];
    let settings = settings.into_iter().chain(quiet).chain(["jit=off", "max_wal_size=256MB"]);
    let locks = format!("max_locks_per_transaction={}", locks(&account, fetched).await?);
    let server = Program::new("postgres")
        .args(["-D".as_ref(), data.as_os_str(), "-k".as_ref(), work.as_os_str()])
        .args(settings.chain([locks.as_str()]).flat_map(|setting| ["-c", setting]));
    let mut server = server.start(Stdio::null())?;
    begun(&mut server, &account, BEGINNING, POLL_INTERVAL).await?;
    let how = How::verification(work);
    let rows = restore(&account, fetched, &how).await?.keys;
    tracing::info!(rows, "verified");
    Ok(rows)
}

/// The account for a server in the work directory, of a user without a password.
pub fn account(work: &Path, user: &str) -> Account {
    Account {
        side: Side::Scratch,
        kind: "postgresql",
        host: work.display().to_string(),
        port: 5432,
        database: None,
        login: Login { username: Some(user.into()), password: String::new() },
        tls: None,
        own_money: false,
        lifts: false,
    }
}

/// The setting with which all tables of a backup can be made, or dropped, in one transaction.
async fn locks(account: &Account, fetched: &Fetched) -> Result<u64, Error> {
    let mut most = 0;
    for (_, dump) in fetched.dumps() {
        most = most.max(contents(account, dump).await?.locks_of_relations());
    }
    Ok(setting_for(most * 2, CLIENTS).clamp(64, MOST_LOCKS))
}

/// Waits until a server takes clients, and at most `limit`.
pub async fn begun(server: &mut Child, account: &Account, limit: Duration, interval: Duration) -> Result<(), Error> {
    let begun = Instant::now();
    loop {
        let message = match Session::open(account, MAINTENANCE).await {
            Ok(_) => return Ok(()),
            // The server is ready, but has no such user: that does not change.
            Err(error) if error.to_string().contains(NO_SUCH_USER) => return Err(error),
            Err(error) => error.to_string(),
        };
        if server.has_ended() {
            return Err(Side::Scratch.failed(&server.failure().await));
        }
        if begun.elapsed() > limit {
            let (address, seconds) = (account.host.clone(), limit.as_secs());
            return Err(Error::ScratchNotReady { address, seconds, message });
        }
        tokio::time::sleep(interval).await;
    }
}
