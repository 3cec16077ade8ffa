//! The `causeway` binary: subcommands, nothing else.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use causeway::config::RunOptions;
use causeway::{api, operator};
use clap::{Parser, Subcommand};

/// The allocator of musl and glibc keeps freed memory in many arenas; this one gives it back.
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
    Run(RunOptions),
    /// Print the custom resource definitions, or write them into a directory
    Crds {
        /// Directory for one file a kind
        #[arg(long)]
        out: Option<PathBuf>,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Run(options) => operator::run(options).await.map_err(|error| error.to_string()),
        Command::Crds { out } => api::definitions::write(out.as_deref()).map_err(|error| error.to_string()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("causeway: {error}");
            ExitCode::FAILURE
        }
    }
}
