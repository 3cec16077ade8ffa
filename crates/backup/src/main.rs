//! The `causeway-backup` binary: what Jobs of a `DatabaseBackup` or `DatabaseRestore` run.

use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::available_parallelism;

use causeway_backup::command::{self as job, BackupOptions, DumpOptions, JobOptions, RestoreOptions};
use causeway_runtime::{install, terminal};
use clap::{Parser, Subcommand};

/// The allocators of musl and glibc keep freed memory in many arenas; mimalloc returns it to the system.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "causeway-backup", version, about = "The programs of Causeway's backup Jobs")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Back up databases to S3, as a plan says; Jobs of a DatabaseBackup run this
    Backup(BackupOptions),
    /// Dump databases for `causeway-backup backup`, which runs in another container: only this one has their passwords
    Dump(DumpOptions),
    /// Fetch a backup from S3 into a directory; pods of a DatabaseRestore begin with this
    Fetch(JobOptions),
    /// Have a server of PostgreSQL come back from what was fetched, and dump it for `causeway-backup restore`
    Recover(JobOptions),
    /// Copy what was fetched from the server that holds it into a database
    Restore(RestoreOptions),
    /// Compare the server that holds what was fetched with what was backed up
    Verify(JobOptions),
    /// Drop the replication slot of a DatabaseBackup that was deleted
    #[command(hide = true)]
    DropSlot(JobOptions),
    /// Copy this program into a directory so that it runs in any image
    #[command(hide = true)]
    Install {
        /// Directory for the program
        directory: PathBuf,
    },
}

/// The most threads of a Job: one each to read, to compress, and to send two parts. Each thread has a heap of its own,
/// so more of them on a node with many cores would exceed the Job's memory limit.
const JOB_THREADS: usize = 4;

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(available_parallelism().map_or(1, NonZero::get).min(JOB_THREADS));
    let outcome = match runtime.enable_all().build() {
        Ok(runtime) => runtime.block_on(carry_out(command)),
        Err(error) => Err(format!("no threads: {error}")),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("causeway-backup: {}", terminal::block(&error));
            ExitCode::FAILURE
        }
    }
}

/// Runs the command; returns its exit code, or its error in words.
async fn carry_out(command: Command) -> Result<u8, String> {
    match command {
        Command::Backup(options) => job::backup(options).await.map_err(|error| error.to_string()),
        Command::Dump(options) => job::dump(options).await.map_err(|error| error.to_string()),
        Command::Fetch(options) => job::fetch(options).await.map_err(|error| error.to_string()),
        Command::Recover(options) => job::recover(options).await.map_err(|error| error.to_string()),
        Command::Restore(options) => job::restore(options).await.map_err(|error| error.to_string()),
        Command::Verify(options) => job::verify(options).await.map_err(|error| error.to_string()),
        Command::DropSlot(options) => job::drop_slot(options).await.map_err(|error| error.to_string()),
        Command::Install { directory } => install::install(&directory).map(|()| 0).map_err(|error| error.to_string()),
    }
}
