//! `kubectl causeway`: shows objects of all kinds, explains why one is not ready, and makes changes that otherwise need
//! a patch.
//!
//! The program acts as this plugin if it is called `kubectl-causeway`, under which kubectl finds it in the `PATH`:
//! <https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/>. It has the rights of its user and no others.
//!
//! ```text
//! options ─▶ reading ─▶ seen (pure) ─▶ table, tree, why (pure) ─▶ standard output
//!       └──▶ changes (pure: a patch)  ─▶ the object
//! ```

mod changes;
mod error;
mod kinds;
mod options;
mod reading;
mod seen;
mod table;
mod tree;
mod why;

use std::io;

use jiff::Timestamp;

pub use error::Error;
pub use options::Cli;

use changes::Change;
use options::{BackupCommand, Command, EtcdCommand, Form, RedisCommand};
use reading::Cluster;
use seen::Seen;

use causeway_runtime::terminal;

/// The program's name as a plugin; Windows adds `.exe`.
const NAME: &str = "kubectl-causeway";

/// Returns true if the program was called by the plugin's name.
#[must_use]
pub fn is_meant(program: &str) -> bool {
    program.rsplit(['/', '\\']).next().is_some_and(|name| name == NAME || name.strip_suffix(".exe") == Some(NAME))
}

/// Runs the command; returns the exit code.
pub async fn run(cli: Cli) -> Result<u8, Error> {
    let now = Timestamp::now();
    match cli.command {
        Command::Status { object, place, output } => {
            let cluster = Cluster::of_user(&place).await?;
            let found = cluster.objects(object.as_deref()).await?;
            match (&found.objects[..], output) {
                ([one], Form::Table) if object.as_ref().is_some_and(|word| word.contains('/')) => {
                    let parts = cluster.parts(one).await;
                    terminal::print(&tree::tree(&Seen::read(one, now), one, &parts, now))?;
                }
                (objects, form) => {
                    let seen: Vec<Seen> = objects.iter().map(|object| Seen::read(object, now)).collect();
                    terminal::print(&table::print(&seen, form, place.all_namespaces)?)?;
                }
            }
            report(&found.refused)
        }
        Command::Why { object, place } => {
            let cluster = Cluster::of_user(&place).await?;
            let found = cluster.objects(object.as_deref()).await?;
            let mut healthy = 0;
            for object in &found.objects {
                let seen = Seen::read(object, now);
                if seen.is_well() {
                    healthy += 1;
                    continue;
                }
                let events = cluster.warnings(object).await;
                terminal::print(&why::explain(&seen, &events, now))?;
            }
            terminal::print(&why::summary(found.objects.len(), healthy))?;
            report(&found.refused)
        }
        Command::Suspend { object, place } => change(&place, &object, &Change::Suspend(true)).await,
        Command::Resume { object, place } => change(&place, &object, &Change::Suspend(false)).await,
        Command::Backup { command: BackupCommand::Now { name, place } } => {
            change(&place, &format!("databasebackup/{name}"), &Change::BackupNow(now)).await
        }
        Command::Redis { command: RedisCommand::Switchover { name, to, place } } => {
            change(&place, &format!("redis/{name}"), &Change::Switchover(to)).await
        }
        Command::Etcd { command: EtcdCommand::Recover { name, from, yes, place } } => {
            if !yes {
                return Err(Error::NotConfirmed { name, from });
            }
            change(&place, &format!("etcdcluster/{name}"), &Change::Recover { from, token: now }).await
        }
        Command::Completion { shell } => {
            options::completion(shell, &mut io::stdout());
            Ok(0)
        }
    }
}

/// Makes one change, and prints what it does.
async fn change(place: &options::Place, word: &str, change: &Change) -> Result<u8, Error> {
    let cluster = Cluster::of_user(place).await?;
    let object = cluster.object(word).await?;
    let patch = changes::patch(change, &object)?;
    if let Some(removal) = &patch.removal {
        cluster.patch(&object, removal).await?;
        if !cluster.becomes(word, changes::has_forgotten_switchover).await? {
            return Err(Error::SwitchoverRemembered(seen::title(&object)));
        }
    }
    if let Some(body) = &patch.body {
        cluster.patch(&object, body).await?;
    }
    terminal::line(io::stdout(), &format!("{}: {}", seen::title(&object), patch.done))?;
    Ok(0)
}

/// Kinds that could not be read are reported after the others, and make the command fail.
fn report(refused: &[String]) -> Result<u8, Error> {
    for line in refused {
        terminal::line(io::stderr(), line)?;
    }
    Ok(u8::from(!refused.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::is_meant;

    #[test]
    fn the_program_is_a_plugin_by_its_name() {
        assert!(is_meant("kubectl-causeway") && is_meant("/usr/local/bin/kubectl-causeway"));
        assert!(is_meant("C:\\bin\\kubectl-causeway.exe"));
        assert!(!is_meant("/usr/local/bin/causeway") && !is_meant("kubectl-causeway-old"));
    }
}
