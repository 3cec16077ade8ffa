//! `cargo xtask`: builds, runs and tests Causeway on one plain Linux machine.

mod bench;
mod cluster;
mod crds;
mod demo;
mod host;
mod images;
mod localstack;
mod progress;
mod test;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Build, run and test Causeway", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// From a bare machine to an ALB's DNS name in `kubectl get myingress`
    Demo(demo::Options),
    /// Start, stop or inspect the local cluster
    #[command(subcommand)]
    Cluster(cluster::Action),
    /// kubectl against the local cluster
    Kubectl(cluster::Kubectl),
    /// Build the container images and push them into the local cluster's registry
    Images(images::Options),
    /// Write crds/ anew from the Rust types
    Crds,
    /// Measure what the operator costs; results go to target/bench/
    #[command(subcommand)]
    Bench(bench::Action),
    /// Run every check and every test
    Test(test::Options),
}

fn main() -> Result<ExitCode> {
    match Cli::parse().command {
        Command::Test(options) => return test::run(&options),
        Command::Demo(options) => demo::run(&options),
        Command::Cluster(action) => cluster::run(&action),
        Command::Kubectl(options) => cluster::kubectl(&options),
        Command::Images(options) => images::run(&options),
        Command::Bench(action) => bench::run(&action),
        Command::Crds => crds::run(),
    }
    .map(|()| ExitCode::SUCCESS)
}
