//! The command line of `kubectl causeway`.

use std::io::Write;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

/// The command line.
#[derive(Parser, Debug)]
#[command(name = "kubectl-causeway", bin_name = "kubectl causeway", version, about = "Looks after objects of Causeway")]
pub struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

/// The place of the objects.
#[derive(Args, Clone, Debug, Default)]
pub struct Place {
    /// Namespace; unless given, that of the context
    #[arg(short = 'n', long)]
    pub namespace: Option<String>,

    /// Objects of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,

    /// Context of the kubeconfig; unless given, the current one
    #[arg(long)]
    pub context: Option<String>,
}

/// The form of the output.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// For people, as columns
    #[default]
    Table,
    /// For programs that read JSON
    Json,
    /// For people and programs
    Yaml,
}

#[derive(Subcommand, Debug)]
pub(super) enum Command {
    /// State of all objects; for one object (KIND/NAME) also its conditions, and its parts in the cluster and in AWS
    Status {
        /// A kind, such as redis, or one object, such as redis/cache; everything unless given
        object: Option<String>,
        #[command(flatten)]
        place: Place,
        /// Form of the output
        #[arg(short = 'o', long, value_enum, default_value_t)]
        output: Form,
    },
    /// Explain why objects are not ready: the reasons that Causeway gives, and the newest warnings
    Why {
        /// A kind, or one object; everything unless given
        object: Option<String>,
        #[command(flatten)]
        place: Place,
    },
    /// Suspend an object: until it is resumed, Causeway changes nothing for it, in the cluster or in AWS
    Suspend {
        /// The object: KIND/NAME
        object: String,
        #[command(flatten)]
        place: Place,
    },
    /// Resume an object that was suspended
    Resume {
        /// The object: KIND/NAME
        object: String,
        #[command(flatten)]
        place: Place,
    },
    /// Backups of a DatabaseBackup
    Backup {
        #[command(subcommand)]
        command: BackupCommand,
    },
    /// The master of a Redis
    Redis {
        #[command(subcommand)]
        command: RedisCommand,
    },
    /// The members of an EtcdCluster
    Etcd {
        #[command(subcommand)]
        command: EtcdCommand,
    },
    /// Print a script that completes these commands, for example with: source <(kubectl causeway completion bash)
    Completion {
        /// Name of the shell
        shell: Shell,
    },
}

#[derive(Subcommand, Debug)]
pub(super) enum BackupCommand {
    /// Start a backup now, whatever the schedule says
    Now {
        /// Name of the DatabaseBackup
        name: String,
        #[command(flatten)]
        place: Place,
    },
}

#[derive(Subcommand, Debug)]
pub(super) enum RedisCommand {
    /// Hand the master's role over to a replica; no acknowledged write is lost
    Switchover {
        /// Name of the Redis
        name: String,
        /// The pod that becomes the master; unless given, a replica with all data
        #[arg(long)]
        to: Option<String>,
        #[command(flatten)]
        place: Place,
    },
}

#[derive(Subcommand, Debug)]
pub(super) enum EtcdCommand {
    /// Rebuild a cluster whose majority is lost, from the data of one member
    Recover {
        /// Name of the EtcdCluster
        name: String,
        /// The member whose data are kept, such as prod-etcd-0
        #[arg(long)]
        from: String,
        /// Confirm that writes which only the other members have are lost
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        place: Place,
    },
}

/// Writes the completion script of a shell. Shells know the plugin by the name of its file.
pub(super) fn completion(shell: Shell, out: &mut dyn Write) {
    clap_complete::generate(shell, &mut Cli::command(), super::NAME, &mut { out });
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use clap::CommandFactory;

    use super::super::kinds;
    use super::*;

    /// Returns the commands of this plugin in a text in Markdown: lines of blocks, with or without a prompt, and words
    /// in backticks.
    fn commands(text: &str) -> Vec<&str> {
        let mut found = Vec::new();
        let mut in_block = false;
        for line in text.lines() {
            if line.trim_start().starts_with("```") {
                in_block = !in_block;
            } else if in_block {
                found.push(line.trim_start().trim_start_matches("$ "));
            } else {
                found.extend(line.split('`').skip(1).step_by(2));
            }
        }
        let ours = found.into_iter().filter(|command| command.starts_with("kubectl causeway "));
        ours.map(|command| command.split(" #").next().unwrap_or_default().trim_end()).collect()
    }

    /// Returns the reason for which the plugin would refuse the command.
    fn refusal(command: &str) -> Option<String> {
        let arguments = command.split_whitespace().skip(1);
        let cli = match Cli::try_parse_from(arguments) {
            Ok(cli) => cli,
            Err(error) => return Some(error.to_string()),
        };
        let object = match &cli.command {
            Command::Status { object, .. } | Command::Why { object, .. } => object.as_deref(),
            Command::Suspend { object, .. } | Command::Resume { object, .. } => Some(object.as_str()),
            _ => None,
        };
        kinds::meant(object).err().map(|error| error.to_string())
    }

    #[test]
    fn every_command_in_the_documentation_is_understood() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let pages = fs::read_dir(root.join("docs")).expect("a directory").map(|entry| entry.expect("a file").path());
        let pages = pages.filter(|path| path.extension().is_some_and(|it| it == "md")).chain([root.join("README.md")]);
        let mut count = 0;
        for page in pages {
            let text = fs::read_to_string(&page).expect("a page");
            for command in commands(&text) {
                count += 1;
                assert_eq!(refusal(command), None, "{}: {command}", page.display());
            }
        }
        assert!(count > 10, "only {count} commands were found");
        assert!(refusal("kubectl causeway why myingress web -n shop").is_some(), "two words are no object");
    }

    #[test]
    fn the_options_agree_with_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_shell_learns_the_commands() {
        let mut script = Vec::new();
        completion(Shell::Bash, &mut script);
        let script = String::from_utf8(script).expect("text");
        for word in ["kubectl-causeway", "status", "switchover", "recover"] {
            assert!(script.contains(word), "{word}");
        }
    }
}
