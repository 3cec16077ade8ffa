//! Runs the commands of docs/tutorial.md as they are written, and compares their output with the page.

mod masks;
mod page;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Local, chart, role};
use crate::chart as helm_chart;
use crate::host;
use crate::progress::Step;
use page::Part;

/// The page, from the root of the repository.
const PAGE: &str = "docs/tutorial.md";
/// If set, the actual output is written into the page.
const REWRITE: &str = "CAUSEWAY_WRITE_TUTORIAL";
/// The namespace of its objects.
const NAMESPACE: &str = "shop";
/// Values on the page, and what replaces them here. The chart's folder has the same name in both places. The image
/// appears only in outputs: helm's wrapper sets it after the reader's options.
const STAND_INS: [(&str, &str); 2] = [("111122223333", "000000000000"), ("causeway-prod-", "causeway-local-")];
/// helm's notes about the chart's links to the manifests contain paths of this machine.
const SYMBOLIC_LINK: &str = "level=INFO msg=\"found symbolic link";
/// The image on the page.
const IMAGE: &str = "111122223333.dkr.ecr.us-east-1.amazonaws.com/causeway";

/// Runs the page's commands against the cluster, in which no release of the chart is installed. They leave one
/// installed.
pub fn run(local: &Local<'_>, helm: &chart::Installed<'_>, step: &Step) -> Result<()> {
    let root = host::repo_root()?;
    let path = root.join(PAGE);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    role::create_for_backups(&local.kubectl, local.localstack, NAMESPACE)?;
    let reader = Reader::new(local, helm, &root)?;
    let mut parts = page::parse(&text);
    let mut wrong = Vec::new();
    for part in &mut parts {
        match part {
            Part::Text(_) => {}
            Part::File { name, content } => fs::write(reader.folder.join(name), content)?,
            Part::Command { typed, printed } => {
                let command = typed.trim_start_matches("$ ").trim_end();
                step.note(command.lines().next().unwrap_or_default());
                let said =
                    reader.runs(command).with_context(|| super::install::what_happened(&local.kubectl, NAMESPACE))?;
                if masks::masked(&said) != masks::masked(printed) {
                    wrong.push(format!("{typed}  {PAGE} has:\n{printed}  but it printed:\n{said}"));
                    *printed = said;
                }
            }
        }
    }
    if std::env::var_os(REWRITE).is_some() {
        fs::write(&path, page::write(&parts)).with_context(|| format!("cannot write {}", path.display()))?;
    } else if !wrong.is_empty() {
        bail!(
            "outputs differ from {PAGE}; {REWRITE}=yes cargo xtask test installed writes them again:\n{}",
            wrong.join("\n")
        );
    }
    Ok(())
}

/// A reader at a shell, with wrappers of the programs that the page uses.
struct Reader<'a> {
    local: &'a Local<'a>,
    /// The current directory, which stands for a clone of the repository.
    folder: PathBuf,
    programs: PathBuf,
    /// The image's name and digest in the cluster, as printed by NOTES.txt.
    image: String,
}

impl<'a> Reader<'a> {
    fn new(local: &'a Local<'a>, helm: &chart::Installed<'_>, root: &Path) -> Result<Self> {
        let folder = root.join("target/test/tutorial");
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        let programs = folder.join("bin");
        fs::create_dir_all(&programs).with_context(|| format!("cannot make {}", programs.display()))?;
        symlink(root.join("deploy"), folder.join("deploy"))?;
        symlink(local.binary, programs.join("kubectl-causeway"))?;
        // A real kubectl finds plugins of this name, but the cluster's program does not.
        let plugin = "if [ \"$1\" = causeway ]; then shift; exec kubectl-causeway \"$@\"; fi\n";
        script(&programs.join("kubectl"), plugin, &local.cluster.kubectl(), "")?;
        // Otherwise this script would call itself.
        script(&programs.join("curl"), "PATH=${PATH#*:}\n", &local.cluster.in_room("curl"), "")?;
        // helm uses the last of several values.
        let values = helm_chart::local_values()?;
        let (image, digest) = helm.image();
        let sets = format!("clusterName=local,image.repository={image},image.digest={digest}");
        let last = format!(" --values '{}' --set '{sets}'", values.display());
        script(&programs.join("helm"), "", &Command::new(helm.program()), &last)?;
        Ok(Self { local, folder, programs, image: format!("{image}@{digest}") })
    }

    /// Runs a command; returns what a terminal would show. A failed command is an error.
    fn runs(&self, command: &str) -> Result<String> {
        let here = STAND_INS.iter().fold(command.to_owned(), |text, (theirs, ours)| text.replace(theirs, ours));
        let mut shell = self.local.cluster.in_network("bash");
        helm_chart::isolate(&mut shell)?;
        let path = std::env::var("PATH").unwrap_or_default();
        shell
            .args(["-c", &format!("set -o pipefail; exec 2>&1; {here}")])
            .current_dir(&self.folder)
            .env("PATH", format!("{}:{path}", self.programs.display()))
            .env("KUBECONFIG", self.local.cluster.kubeconfig());
        let output = shell.output().context("cannot start bash")?;
        let lines = String::from_utf8_lossy(&output.stdout);
        let lines = lines.lines().filter(|line| !line.starts_with(SYMBOLIC_LINK)).flat_map(|line| [line, "\n"]);
        let said = lines.collect::<String>().replace(&self.image, IMAGE);
        let said = STAND_INS.iter().fold(said, |text, (theirs, ours)| text.replace(ours, theirs));
        if !output.status.success() {
            bail!("{command} of {PAGE} failed, {}: {said}", output.status);
        }
        Ok(said)
    }
}

/// Writes a script that runs `command` with the caller's arguments, followed by `last`.
fn script(path: &Path, first: &str, command: &Command, last: &str) -> Result<()> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words.map(|word| format!("'{}'", word.to_string_lossy())).collect();
    fs::write(path, format!("#!/bin/sh\n{first}exec {} \"$@\"{last}\n", words.join(" ")))
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o755)))
        .with_context(|| format!("cannot write {}", path.display()))
}
