//! The side that dumps: one database at a time, for each client that connects.

use std::io;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use tokio::io::AsyncWrite;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;
use tokio_util::bytes::Bytes;
use tokio_util::sync::CancellationToken;

use causeway_api::databasebackup::Method;

use super::frame::{DATA_LIMIT, End, Failure, Frame};
use crate::Error;
use crate::manifest::Contents;
use crate::plan::{BackupPlan, Server, Source};
use crate::source::Dump;
use crate::sql::{When, acknowledge, run_hooks};

/// The most characters of an error that go over the socket.
const LONGEST_MESSAGE: usize = 2000;

/// How often the client gets a heartbeat while no data come, for example while tables are counted after their dump.
const HEARTBEAT: Duration = Duration::from_mins(1);

/// Dumps databases of the plan for clients that ask for them, until `stop` is cancelled.
pub async fn serve(plan: &BackupPlan, socket: &Path, stop: &CancellationToken) -> Result<(), Error> {
    let failed = |source| Error::Work { path: socket.to_owned(), source };
    match std::fs::remove_file(socket) {
        // An earlier process of this container left it.
        Ok(()) => tracing::warn!("this container was started again"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let listener = UnixListener::bind(socket).map_err(failed)?;
    listen(plan, &listener, stop).await.map_err(failed)
}

/// Answers one client after the other, until `stop` is cancelled. Fails if no client can connect any more.
async fn listen(plan: &BackupPlan, listener: &UnixListener, stop: &CancellationToken) -> io::Result<()> {
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted?.0,
            () = stop.cancelled() => return Ok(()),
        };
        match Box::pin(answer(plan, stream, stop)).await {
            Err(_) if stop.is_cancelled() => return Ok(()),
            Err(error) => tracing::warn!(%error, "the container that sends backups to S3 is gone"),
            Ok(()) => {}
        }
    }
}

/// Answers one request. Hooks after a dump run to their end, even if the client is gone or `stop` is cancelled.
async fn answer(plan: &BackupPlan, mut stream: UnixStream, stop: &CancellationToken) -> io::Result<()> {
    let Some(source) = unless_stopped(stop, requested(plan, &mut stream)).await? else { return Ok(()) };
    let slot = plan.slot();
    let dumped = tokio::select! {
        dumped = hooked(plan, source, &slot, &mut stream) => dumped,
        () = stop.cancelled() => Err(Gone::Reader(io::ErrorKind::Interrupted.into())),
    };
    let after = run_after(plan, source, &mut stream).await;
    match dumped {
        Ok((version, contents)) => {
            let note = after.map(|error| error.describe());
            let sent = async {
                let end = Frame::End(End { version, contents: contents.clone(), note });
                end.write(&mut stream).await?;
                receive_receipt(source, &slot, &contents, stream).await
            };
            unless_stopped(stop, sent).await
        }
        Err(Gone::Database(error)) => {
            tracing::error!(source = source.title, %error, reason = error.reason(), "not dumped");
            let mut failure = failure(&error);
            // If no login succeeds, the dump and the hooks fail with the same message: it is sent once.
            let other = after.map(|after| after.to_string()).filter(|message| *message != failure.message);
            failure.message.extend(other.map(|message| format!("; {message}")));
            unless_stopped(stop, Frame::Failed(failure).write(&mut stream)).await
        }
        Err(Gone::Reader(error)) => Err(error),
    }
}

/// Does the work, unless `stop` is cancelled first.
async fn unless_stopped<T>(stop: &CancellationToken, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::select! {
        done = work => done,
        () = stop.cancelled() => Err(io::ErrorKind::Interrupted.into()),
    }
}

/// The database of the plan that is asked for.
async fn requested<'a>(plan: &'a BackupPlan, stream: &mut UnixStream) -> io::Result<Option<&'a Source>> {
    let Frame::Request(folder) = Frame::read(stream).await? else { return Ok(None) };
    let source = plan.sources.iter().find(|source| source.folder == folder);
    if source.is_none() {
        let error = Error::Unsupported(format!("the plan has no source {folder}"));
        Frame::Failed(failure(&error)).write(stream).await?;
    }
    Ok(source)
}

/// Runs the hooks before a dump, and dumps if they succeeded.
async fn hooked(
    plan: &BackupPlan,
    source: &Source,
    slot: &str,
    stream: &mut UnixStream,
) -> Result<(String, Contents), Gone> {
    let before = beating(run_hooks(plan, source, When::Before), stream).await;
    before.map_err(Gone::Reader)?.map_err(Gone::Database)?;
    dump(source, slot, stream).await
}

/// Runs the hooks after a dump, even if it failed. Returns their error, if they fail.
async fn run_after(plan: &BackupPlan, source: &Source, stream: &mut UnixStream) -> Option<Error> {
    let mut work = pin!(run_hooks(plan, source, When::After));
    let ran = match beating(work.as_mut(), stream).await {
        Ok(ran) => ran,
        Err(_) => work.await,
    };
    let error = ran.err()?;
    tracing::error!(source = source.title, %error, reason = error.reason(), "hooks failed");
    Some(error)
}

/// Which side failed.
enum Gone {
    Database(Error),
    Reader(io::Error),
}

/// Waits until the client has a complete backup of write-ahead log, and lets PostgreSQL drop what is in it. Does nothing for
/// other kinds of backups.
async fn receive_receipt(source: &Source, slot: &str, contents: &Contents, mut stream: UnixStream) -> io::Result<()> {
    let Server::Postgresql(server) = &source.server else { return Ok(()) };
    if server.method != Method::Wal {
        return Ok(());
    }
    let Frame::Complete = Frame::read(&mut stream).await? else { return Ok(()) };
    let kept = acknowledge(server, slot, contents).await;
    let answer = kept.map_or_else(|error| Frame::Failed(failure(&error)), Frame::Kept);
    answer.write(&mut stream).await
}

/// Sends all data of a database. Returns its version, and what the data hold.
async fn dump(source: &Source, slot: &str, stream: &mut UnixStream) -> Result<(String, Contents), Gone> {
    let mut dump = Dump::open(source, slot).await.map_err(Gone::Database)?;
    if let Some(kept) = dump.kept_log() {
        Frame::Kept(kept).write(stream).await.map_err(Gone::Reader)?;
    }
    let mut expected = None;
    while let Some(mut data) = beating(dump.next(), stream).await.map_err(Gone::Reader)?.map_err(Gone::Database)? {
        if expected.is_none()
            && let Some(bytes) = dump.expected()
        {
            expected = Some(bytes);
            Frame::Expected(bytes).write(stream).await.map_err(Gone::Reader)?;
        }
        while !data.is_empty() {
            let frame = Frame::Data(data.split_to(data.len().min(DATA_LIMIT)));
            frame.write(stream).await.map_err(Gone::Reader)?;
        }
    }
    let (version, contents, _) = dump.finish();
    Ok((version, contents))
}

/// Does the work, and sends a frame without data each minute until it is done.
async fn beating<T>(work: impl Future<Output = T>, stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<T> {
    let mut work = pin!(work);
    loop {
        match timeout(HEARTBEAT, work.as_mut()).await {
            Ok(done) => return Ok(done),
            Err(_) => Frame::Data(Bytes::new()).write(stream).await?,
        }
    }
}

fn failure(error: &Error) -> Failure {
    let message = error.to_string().chars().take(LONGEST_MESSAGE).collect();
    Failure { reason: error.reason().to_owned(), message, is_final: error.is_final() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_waiting_reader_gets_a_heartbeat_each_minute() {
        let (mut ours, mut theirs) = tokio::io::duplex(1024);
        let counting = async {
            tokio::time::sleep(Duration::from_secs(150)).await;
            7
        };
        assert_eq!(beating(counting, &mut ours).await.expect("a listener"), 7);
        assert_eq!(beating(async { 8 }, &mut ours).await.expect("a listener"), 8);
        drop(ours);
        for _ in 0..2 {
            assert_eq!(Frame::read(&mut theirs).await.expect("a frame"), Frame::Data(Bytes::new()));
        }
        assert!(Frame::read(&mut theirs).await.is_err(), "no more than two");
    }

    #[tokio::test(start_paused = true)]
    async fn work_ends_when_the_reader_is_gone() {
        let (mut ours, theirs) = tokio::io::duplex(1024);
        drop(theirs);
        assert!(beating(std::future::pending::<()>(), &mut ours).await.is_err());
    }
}
