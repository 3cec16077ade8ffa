//! The `causeway` binary: subcommands, nothing else.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use causeway::config::RunOptions;
use causeway::operator;
use causeway_backup::options::BackupsAction;
use causeway_backup::{ls, recover};
use causeway_etcdcluster::recovery::{self, SkipOptions};
use causeway_myingress::commands::orphans::command as orphans;
use causeway_myingress::commands::orphans::options::OrphansOptions;
use causeway_myingress::commands::plan;
use causeway_myingress::commands::plan::options::PlanOptions;
use causeway_redis::sentinel::{self, SentinelOptions};
use causeway_runtime::{install, terminal};
use clap::{Parser, Subcommand};

/// The allocators of musl and glibc keep freed memory in many arenas; mimalloc returns it to the system.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "causeway", version, about = "A Kubernetes operator that bridges Kubernetes and AWS")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the operator
    Run(Box<RunOptions>),
    /// Show what would change for MyIngress objects, changing nothing; exits with 0 for nothing, 2 for changes, 1 for errors
    Plan(PlanOptions),
    /// List or delete what is in AWS for MyIngress objects that are not in the cluster
    Orphans(OrphansOptions),
    /// Look at backups in a bucket; needs AWS, and no cluster
    Backups {
        /// Action on the backups
        #[command(subcommand)]
        action: BackupsAction,
    },
    /// Print the custom resource definitions, or write them into a directory
    Crds {
        /// Directory for one file a kind
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Make the data of an etcd member continue above every revision that was ever used
    #[command(hide = true)]
    SkipRevisions(SkipOptions),
    /// Answer clients of a Redis as Redis Sentinel does, beside a node
    #[command(hide = true)]
    Sentinel(SentinelOptions),
    /// Copy this program into a directory so that it runs in any image
    #[command(hide = true)]
    Install {
        /// Directory for the program
        directory: PathBuf,
    },
}

/// The parsed command line, by the name under which the program was called.
enum Asked {
    /// Called as `causeway`.
    Own(Cli),
    /// Called as `kubectl causeway`.
    Plugin(causeway_plugin::Cli),
}

fn main() -> ExitCode {
    let as_plugin = std::env::args().next().is_some_and(|program| causeway_plugin::is_meant(&program));
    let parsed =
        if as_plugin { causeway_plugin::Cli::try_parse().map(Asked::Plugin) } else { Cli::try_parse().map(Asked::Own) };
    let asked = match parsed {
        Ok(asked) => asked,
        Err(message) => {
            // Help and version are no errors. For errors clap would exit with 2, the code by which `causeway plan`
            // reports changes.
            let printed = message.print();
            return if message.use_stderr() || printed.is_err() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    let mut runtime = if let Asked::Own(Cli { command: Command::Run(_) | Command::Sentinel(_) }) = asked {
        // The operator's main runtime only renews leases; the controllers have a runtime of their own. The sentinel
        // answers a few clients, for which one thread is enough.
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    let outcome = match runtime.enable_all().build() {
        Ok(runtime) => runtime.block_on(async {
            match asked {
                Asked::Own(cli) => carry_out(cli.command).await,
                Asked::Plugin(cli) => causeway_plugin::run(cli).await.map_err(|error| error.to_string()),
            }
        }),
        Err(error) => Err(format!("no threads: {error}")),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("causeway: {}", terminal::block(&error));
            ExitCode::FAILURE
        }
    }
}

/// Runs the command; returns its exit code, or its error in words.
async fn carry_out(command: Command) -> Result<u8, String> {
    match command {
        Command::Run(options) => Box::pin(operator::run(*options)).await.map(|()| 0).map_err(|error| error.to_string()),
        Command::Plan(options) => {
            Box::pin(plan::run(options)).await.map(plan::Verdict::code).map_err(|error| error.to_string())
        }
        Command::Orphans(options) => orphans::run(options).await.map(|()| 0).map_err(|error| error.to_string()),
        Command::Backups { action: BackupsAction::Ls(options) } => {
            ls::run(options).await.map(|()| 0).map_err(|error| error.to_string())
        }
        Command::Backups { action: BackupsAction::Recover(options) } => {
            Box::pin(recover::run(options)).await.map(|()| 0).map_err(|error| error.to_string())
        }
        Command::Crds { out } => {
            causeway_api::definitions::write(out.as_deref()).map(|()| 0).map_err(|error| error.to_string())
        }
        Command::SkipRevisions(options) => recovery::skip(options).await.map_err(|error| error.to_string()),
        Command::Sentinel(options) => sentinel::run(options).await.map(|()| 0).map_err(|error| error.to_string()),
        Command::Install { directory } => install::install(&directory).map(|()| 0).map_err(|error| error.to_string()),
    }
}
