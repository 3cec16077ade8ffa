//! `cargo xtask demo`: from a bare machine to requests through a load balancer.

pub mod backups;
mod chart;
mod existing;
pub mod install;
pub mod kubectl;
pub mod role;
mod traffic;
mod tutorial;

use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Result, anyhow};
use clap::Args;

use crate::cluster::{self, Cluster};
use crate::images::Which;
use crate::localstack::LocalStack;
use crate::progress::{Progress, Step};
use crate::{host, images, localstack, tools};
use backups::Backups;
use kubectl::Kubectl;

pub use install::NAMESPACE;

/// The local cluster's name, also for `cargo xtask cluster` and `cargo xtask kubectl`.
const NAME: &str = "demo";

/// The number of steps of [`up`], without those of the cluster.
const STEPS: usize = 13;

/// Debian packages that build images.
pub const PACKAGES: &[&str] = &["mmdebstrap", "debian-archive-keyring", "ca-certificates", "curl"];

/// A local environment in which the operator is installed the way users do it.
struct Local<'a> {
    cluster: &'a Cluster,
    localstack: &'a LocalStack<'a>,
    binary: &'a Path,
    kubectl: Kubectl<'a>,
    /// True if the demo installs the operator by its Helm chart, not by kustomize.
    by_helm: bool,
}

type Stage = fn(&Local, &Step) -> Result<()>;

/// The steps that install the operator in a cluster with LocalStack.
const OF_OPERATOR: [(&str, Stage); 3] = [
    ("Let the operator assume its IAM role", |local, _| role::create(&local.kubectl, local.localstack)),
    ("Push images", |local, step| images::push(Which::OfExamples, local.cluster, step)),
    ("Install the operator", |local, step| local.install(step)),
];

/// The steps from an installed operator to running samples.
const OF_EXAMPLES: [(&str, Stage); 6] = [
    ("Apply the examples", |local, _| install::examples(&local.kubectl)),
    ("See pods running and a balancer's name", |local, step| {
        install::pods_running(&local.kubectl, step)?;
        install::balancer_shows(&local.kubectl, "myapp", "alb.dns", step)
    }),
    ("See every member of an etcd cluster healthy", |local, step| install::members_healthy(&local.kubectl, step)),
    ("See a Redis master and its replicas", |local, step| install::replicas_follow(&local.kubectl, step)),
    ("Lose data of both, and bring them back from S3", |local, step| {
        Backups::of_examples(&local.kubectl).come_back(step)
    }),
    ("Send a request through a balancer", |local, step| traffic::wait_for_answer(local, step)),
];

impl Local<'_> {
    fn install(&self, step: &Step) -> Result<()> {
        if self.by_helm {
            return self.install_chart(&[], step);
        }
        let image = images::operator::image(self.binary)?.push(self.cluster, step)?;
        let overlay = host::repo_root()?.join("deploy/overlays/local");
        let manifests = install::render(&self.kubectl, &overlay, images::operator::NAME, &image)?;
        install::operator(&self.kubectl, &manifests, step)
    }

    fn install_chart(&self, options: &[&str], step: &Step) -> Result<()> {
        chart::Installed::new(self, step)?.upgrade(options, step)
    }
}

/// Installs that program the way users install the operator, with its web identity and least rights, and waits until
/// the samples are running. Then a release of the Helm chart takes over.
pub fn install_and_try(cluster: &Cluster, localstack: &LocalStack, binary: &Path, step: &Step) -> Result<()> {
    let local = Local { cluster, localstack, binary, kubectl: Kubectl::local(cluster), by_helm: false };
    OF_OPERATOR.iter().try_for_each(|(_, stage)| stage(&local, step))?;
    OF_EXAMPLES.iter().try_for_each(|(_, stage)| stage(&local, step))?;
    chart::Installed::new(&local, step)?.live(step)?;
    // In a cluster that is kept, the operator would also work on objects of later tests.
    install::stop(&local.kubectl)
}

/// Installs that program by the Helm chart, with its web identity. `options` are options of helm, beside the values for
/// the local environment.
pub fn install_by_chart(
    cluster: &Cluster,
    localstack: &LocalStack,
    binary: &Path,
    options: &[&str],
    step: &Step,
) -> Result<()> {
    let local = Local { cluster, localstack, binary, kubectl: Kubectl::local(cluster), by_helm: true };
    role::create(&local.kubectl, localstack)?;
    local.install_chart(options, step)
}

/// Options of `cargo xtask demo`.
#[derive(Args)]
pub struct Options {
    /// Stop and remove everything the demo started
    #[arg(long, conflicts_with = "kubeconfig")]
    down: bool,
    /// Install the operator by its Helm chart
    #[arg(long, conflicts_with_all = ["down", "kubeconfig"])]
    helm: bool,
    /// Install into the cluster of this kubeconfig instead of a local one (see docs/operations.md)
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    settings: existing::Settings,
}

/// Runs the demo, or takes it down.
pub fn run(options: &Options) -> Result<()> {
    if options.down {
        return down();
    }
    match &options.kubeconfig {
        Some(kubeconfig) => existing::run(kubeconfig, &options.settings),
        None => up(options),
    }
}

fn down() -> Result<()> {
    host::require_root()?;
    Cluster::down(NAME)?;
    println!("The demo is gone; built binaries and images stay in {}.", host::cache_dir()?.display());
    Ok(())
}

fn up(options: &Options) -> Result<()> {
    host::require_tools()?;
    let mut steps = Progress::new(STEPS + cluster::STEPS);
    steps.step("Install Debian packages", |step| host::install_packages(step, PACKAGES))?;
    let binary =
        steps.step("Build the cluster, LocalStack, the operator and images", |step| build(options.helm, step))?;
    let cluster = Cluster::up(NAME, &mut steps)?;
    let localstack = steps.step("Start LocalStack", |step| localstack::start(&cluster, step))?;
    let local = Local {
        cluster: &cluster,
        localstack: &localstack,
        binary: &binary,
        kubectl: Kubectl::local(&cluster),
        by_helm: options.helm,
    };
    for (name, stage) in OF_OPERATOR.into_iter().chain(OF_EXAMPLES) {
        steps.step(name, |step| stage(&local, step))?;
    }
    println!(
        "\n$ cargo xtask kubectl get myapps,myingresses,etcdclusters,redises,databasebackups,databaserestores,pods\n{}",
        install::overview(&local.kubectl)?
    );
    let (command, answer) = traffic::ask(&local)?;
    println!("\n$ {command}\n{}", answer.trim_end());
    println!(
        "Ready after {} s. How to go on:\n\
         cargo xtask kubectl describe myingress myapp\n\
         cargo xtask kubectl scale myapp example-app --replicas=5\n\
         cargo xtask kubectl scale etcdcluster prod-etcd --replicas=5\n\
         cargo xtask kubectl delete pod cache-0    and see another master: get redis cache\n\
         cargo xtask kubectl describe databasebackup backup\n\
         cargo xtask kubectl -n causeway-system logs deployment/causeway --follow\n\
         cargo xtask demo           after a change, to build and roll out\n\
         cargo xtask demo --down    to remove everything",
        steps.elapsed().as_secs()
    );
    // These images come last, because the examples do not need them; upgrades and other databases do.
    steps.step(
        "Make the images of other versions and databases (it can be interrupted: cargo xtask images makes them)",
        |step| images::push(Which::All, &cluster, step),
    )
}

/// Builds everything that takes long. Returns the operator's program. The operator comes first, because its last crates
/// keep one processor busy for minutes. Meanwhile Go compiles on the other processors.
fn build(by_helm: bool, step: &Step) -> Result<PathBuf> {
    // Only one apt-get may run at a time.
    host::install_build_tools(step)?;
    thread::scope(|scope| {
        let cluster = scope.spawn(|| cluster::build(step).map(drop));
        let others = scope.spawn(|| {
            localstack::prepare(step)?;
            if by_helm {
                tools::program(tools::HELM, step)?;
            }
            images::prepare(Which::OfExamples, step).map(drop)
        });
        let operator = images::operator::build(step);
        if let Err(error) = &operator {
            step.note(format!("{error}; this ends when the cluster and the images are built"));
        }
        for build in [cluster, others] {
            build.join().map_err(|_| anyhow!("the build of the cluster or the images panicked"))??;
        }
        operator
    })
}
