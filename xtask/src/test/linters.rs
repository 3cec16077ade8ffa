//! Runs linters on everything that is deployed: manifests, the chart, IAM policies, the Dockerfile and workflows.
//!
//! Every finding must be fixed, or excepted in `xtask/linters/exceptions` with a reason. The linters also read the
//! files of `xtask/linters/bad`, in which each must find something: a linter that finds nothing there has not read its
//! input.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use serde_json::Value;

use super::report::Outcome;
use super::{directory, nice};
use crate::progress::{Progress, Step};
use crate::{chart, cluster, host, python, tools};

/// The rules that each linter must report for the bad files. checkov has one for each type of file.
const PROOF: [(&str, &str); 7] = [
    // The files have a privileged container, a role with all rights, a workflow that runs text from a title, and an
    // image that runs as root.
    ("checkov", "CKV_K8S_16"),
    ("checkov", "CKV_K8S_49"),
    ("checkov", "CKV_GHA_2"),
    ("checkov", "CKV_DOCKER_8"),
    ("kube-score", "container-security-context-privileged"),
    ("parliament", "UNKNOWN_ACTION"),
    ("cloudsplaining", "DataExfiltration"),
];

/// The prefix of the bad files, and of the objects in them.
const BAD: &str = "bad";

/// The Kubernetes version for kube-score.
const KUBERNETES: &str = "v1.34";

/// A linter's finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct Finding {
    linter: String,
    rule: String,
    /// `KIND/NAME`, or a file and a part of it.
    object: String,
    why: String,
}

impl Finding {
    fn is_in_bad_files(&self) -> bool {
        self.object.split('/').any(|part| part.starts_with(BAD))
    }
}

/// The environment of the linters in Python; created if it is not in the cache.
pub fn prepare(step: &Step) -> Result<PathBuf> {
    python::cached("linters", &home()?.join("requirements.lock"), "checkov, parliament and cloudsplaining", step)
}

/// `cargo xtask lint`: runs only the linters.
pub fn run() -> Result<()> {
    Progress::new(1).step("Linters of what is deployed", |step| check(step).map(|_| ()))
}

/// Runs all linters.
pub fn check(step: &Step) -> Result<Outcome> {
    let (root, home) = (host::repo_root()?, home()?);
    let bad = home.join(BAD);
    step.note("rendering");
    let manifests = [base(step)?, chart::golden_directory()?.join("minimal.yaml"), bad.join("bad.yaml")];
    let mut others = files(&root.join(".github/workflows"))?;
    others.extend([root.join("Dockerfile"), bad.join(".github/workflows/bad.yml"), bad.join("bad.dockerfile")]);
    let mut policies: Vec<_> = files(&root.join("iam"))?;
    policies.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    policies.push(bad.join("bad.json"));

    let python = prepare(step)?.join("bin/python");
    let mut found = Vec::new();
    step.note("kube-score");
    let mut kube_score = nice(15, tools::program(tools::KUBE_SCORE, step)?);
    kube_score.args(["score", "--output-format", "json", "--kubernetes-version", KUBERNETES]).args(&manifests);
    found.extend(of_kube_score(&json_of(&mut kube_score)?));
    step.note("parliament and cloudsplaining");
    let mut iam = nice(15, &python);
    let printed = tools::output_of(iam.arg(home.join("policies.py")).args(&policies))?;
    for line in printed.lines() {
        found.push(serde_json::from_str(line).with_context(|| format!("policies.py printed {line}"))?);
    }
    step.note("checkov");
    let mut checkov = nice(15, &python);
    checkov.args(["-m", "checkov.main", "--soft-fail", "--skip-download", "--compact", "--quiet", "--output", "json"]);
    checkov.args(["--framework", "kubernetes", "dockerfile", "github_actions", "--file"]);
    found.extend(of_checkov(&json_of(checkov.args(&manifests).args(&others))?)?);

    let exceptions = home.join("exceptions");
    let excepted = fs::read_to_string(&exceptions).with_context(|| format!("cannot read {}", exceptions.display()))?;
    let wrong = judged(found, &excepted)?;
    if !wrong.is_empty() {
        bail!("mend it, or except it in {} as LINTER RULE OBJECT REASON:\n{}", exceptions.display(), wrong.join("\n"));
    }
    Ok(Outcome::Passed)
}

/// `deploy/base` with values for everything that users must fill in.
fn base(step: &Step) -> Result<PathBuf> {
    let mut kustomize = Command::new(cluster::build(step)?);
    let folder = chart::golden_directory()?.join("kustomize");
    let text = tools::output_of(kustomize.args(["kubectl", "kustomize"]).arg(folder))?;
    let path = directory()?.join("linted-base.yaml");
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// The JSON that a linter printed. Its exit code is ignored, because it depends on the findings.
fn json_of(command: &mut Command) -> Result<Value> {
    let output = command.output().context("cannot start nice")?;
    let complained = String::from_utf8_lossy(&output.stderr).into_owned();
    serde_json::from_slice(&output.stdout).with_context(|| format!("{command:?} printed no JSON: {complained}"))
}

/// The findings in kube-score's report: every check with less than the best grade.
/// <https://github.com/zegl/kube-score/blob/v1.20.0/renderer/json_v2/json.go>
fn of_kube_score(report: &Value) -> Vec<Finding> {
    let mut found = Vec::new();
    for object in elements(report) {
        let name = format!("{}/{}", text(object, "/type_meta/kind"), text(object, "/object_meta/name"));
        for check in elements(&object["checks"]) {
            let fine = check["skipped"] == true || check["grade"].as_u64().is_some_and(|grade| grade >= 10);
            for comment in elements(&check["comments"]).filter(|_| !fine) {
                let (rule, why) = (text(check, "/check/id"), text(comment, "/summary"));
                found.push(Finding { linter: "kube-score".to_owned(), rule, object: name.clone(), why });
            }
        }
    }
    found
}

/// The findings in checkov's report, which has a part for each type of file.
fn of_checkov(report: &Value) -> Result<Vec<Finding>> {
    let parts = report.as_array().context("checkov has read one sort of files only")?;
    let mut found = Vec::new();
    for part in parts {
        if part.pointer("/summary/parsing_errors").and_then(Value::as_u64) != Some(0) {
            bail!("checkov cannot read some {}", text(part, "/check_type"));
        }
        for check in elements(&part["results"]["failed_checks"]) {
            let (resource, path) = (text(check, "/resource"), text(check, "/file_path"));
            // KIND.NAMESPACE.NAME, or a description of a part of a file.
            let parts: Vec<_> = resource.split('.').collect();
            let object = match parts[..] {
                [kind, .., name] if text(part, "/check_type") == "kubernetes" => format!("{kind}/{name}"),
                _ => path.rsplit('/').next().unwrap_or_default().to_owned(),
            };
            let (rule, why) = (text(check, "/check_id"), text(check, "/check_name"));
            found.push(Finding { linter: "checkov".to_owned(), rule, object, why });
        }
    }
    Ok(found)
}

/// Returns the complaints: findings without an exception, exceptions without a finding, and linters that found nothing in the
/// bad files.
fn judged(found: Vec<Finding>, exceptions: &str) -> Result<Vec<String>> {
    let (bad, mut ours): (Vec<_>, Vec<_>) = found.into_iter().partition(Finding::is_in_bad_files);
    ours.sort();
    ours.dedup();
    let blind = |(linter, rule): (&str, &str)| {
        let seen = bad.iter().any(|bad| bad.linter == linter && bad.rule == rule);
        (!seen).then(|| format!("{linter} did not find {rule} in the bad files: it does not read what it is given"))
    };
    let mut wrong: Vec<_> = PROOF.into_iter().filter_map(blind).collect();
    let lines = exceptions.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        let mut words = line.split_whitespace();
        let (Some(linter), Some(rule), Some(object), Some(_reason)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(anyhow!("an exception is LINTER RULE OBJECT REASON, not: {line}"));
        };
        let before = ours.len();
        ours.retain(|finding| finding.linter != linter || finding.rule != rule || finding.object != object);
        if ours.len() == before {
            wrong.push(format!("nothing is found any more that this excepts: {line}"));
        }
    }
    wrong.extend(
        ours.into_iter().map(|Finding { linter, rule, object, why }| format!("{linter} {rule} {object} {why}")),
    );
    Ok(wrong)
}

fn text(value: &Value, path: &str) -> String {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn elements(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The files of a folder, sorted by name.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.retain(|path| path.is_file());
    paths.sort();
    Ok(paths)
}

fn home() -> Result<PathBuf> {
    Ok(host::repo_root()?.join("xtask/linters"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(linter: &str, rule: &str, object: &str) -> Finding {
        let [linter, rule, object] = [linter, rule, object].map(str::to_owned);
        Finding { linter, rule, object, why: "it is so".to_owned() }
    }

    /// All findings that the bad files must have, and one more.
    fn proof_findings() -> Vec<Finding> {
        let bad = PROOF.map(|(linter, rule)| finding(linter, rule, "bad.json:x"));
        bad.into_iter().chain([finding("checkov", "CKV_1", "Deployment/causeway")]).collect()
    }

    #[test]
    fn findings_and_exceptions_need_each_other_and_a_reason() {
        assert_eq!(judged(proof_findings(), "").unwrap(), ["checkov CKV_1 Deployment/causeway it is so"]);
        let exception = "# why not\n\ncheckov CKV_1 Deployment/causeway it must be so\n";
        assert!(judged(proof_findings(), exception).unwrap().is_empty());
        let other = "checkov CKV_1 Service/causeway it must be so";
        assert_eq!(judged(proof_findings(), other).unwrap().len(), 2);
        assert!(judged(proof_findings(), "checkov CKV_1 Deployment/causeway").is_err());
    }

    #[test]
    fn a_linter_that_finds_nothing_in_the_bad_files_fails() {
        let mut found = proof_findings();
        found.remove(4);
        let wrong = judged(found, "checkov CKV_1 Deployment/causeway it must be so").unwrap();
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].starts_with("kube-score did not find"), "{wrong:?}");
    }
}
