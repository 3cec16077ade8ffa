//! `cargo xtask`: builds, runs and tests Causeway on one plain Linux machine.

mod bench;
mod cargo;
mod chart;
mod clients;
mod cluster;
mod crds;
mod demo;
mod e2e;
mod golang;
mod host;
mod images;
mod judge;
mod localstack;
mod progress;
mod python;
mod release;
mod rights;
mod site;
mod soak;
mod test;
mod tools;

use std::process::ExitCode;

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
    /// Write crds/ from the Rust types
    Crds,
    /// Write what is made of the chart: deploy/helm/golden, and files of deploy/base
    Chart,
    /// Gather a release: plugin, chart, manifests, checksums
    Release(release::Options),
    /// Measure what the operator costs; figures go to docs/bench/
    #[command(subcommand)]
    Bench(bench::Task),
    /// Let databases live through a seeded chaos, and tell on one page what came of it
    Soak(soak::Options),
    /// Write the documentation as a static site: target/site/book
    Site,
    /// Run the linters of manifests, IAM policies, the Dockerfile and workflows
    Lint,
    /// Try what users do, in the local environment or, with --real, on a cluster and account that you name
    E2e(Box<e2e::Options>),
    /// Run every check and every test
    Test(test::Options),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Test(options) => test::run(&options),
        Command::Demo(options) => demo::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Cluster(action) => cluster::run(&action).map(|()| ExitCode::SUCCESS),
        Command::Kubectl(options) => cluster::kubectl(&options).map(|()| ExitCode::SUCCESS),
        Command::Images(options) => images::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Bench(task) => bench::run(&task).map(|()| ExitCode::SUCCESS),
        Command::Soak(options) => soak::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Site => site::run().map(|()| ExitCode::SUCCESS),
        Command::Lint => test::lint().map(|()| ExitCode::SUCCESS),
        Command::E2e(options) => e2e::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Crds => crds::run().map(|()| ExitCode::SUCCESS),
        Command::Chart => chart::run().map(|()| ExitCode::SUCCESS),
        Command::Release(options) => release::run(&options).map(|()| ExitCode::SUCCESS),
    };
    // Print one sentence without a backtrace; it names what went wrong.
    done.unwrap_or_else(|error| {
        eprintln!("Error: {error:#}");
        ExitCode::FAILURE
    })
}
