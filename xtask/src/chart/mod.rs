//! The Helm chart: rendered and packaged. Its RBAC and policies are made of `deploy/base`, and the rest of `deploy/base` is
//! made of it.

pub mod objects;

use std::fs::{self, File, FileTimes};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};

use crate::progress::{Progress, Step};
use crate::{host, release, tools};

/// The time of all packaged files, one day after 1970 began: archives cannot store the very beginning in every time
/// zone.
const SINCE_1970: Duration = Duration::from_hours(24);

/// The suffix of files with values.
const VALUES: &str = ".values.yaml";

/// The directory of the chart's sources.
pub fn directory() -> Result<PathBuf> {
    Ok(host::repo_root()?.join("deploy/helm/causeway"))
}

/// Values for the local cluster, where `deploy/overlays/local` says the same.
pub fn local_values() -> Result<PathBuf> {
    Ok(host::repo_root()?.join("deploy/helm/local.values.yaml"))
}

/// The directory of files with values, each beside the objects that the chart renders for it.
pub fn golden_directory() -> Result<PathBuf> {
    Ok(host::repo_root()?.join("deploy/helm/golden"))
}

/// A file with values, and the file with the objects that the chart renders for them.
pub struct Golden {
    pub name: String,
    pub values: PathBuf,
    pub rendered: PathBuf,
}

/// All of these files, by name.
pub fn golden() -> Result<Vec<Golden>> {
    let home = golden_directory()?;
    let mut found = Vec::new();
    for entry in fs::read_dir(&home).with_context(|| format!("cannot read {}", home.display()))? {
        let values = entry?.path();
        let file = values.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(name) = file.strip_suffix(VALUES) {
            let (name, rendered) = (name.to_owned(), home.join(format!("{name}.yaml")));
            found.push(Golden { name, values, rendered });
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// Files of `deploy/base` that are made of the chart's template of the same name.
const OF_BASE: [&str; 4] = ["deployment", "poddisruptionbudget", "service", "serviceaccount"];
/// The first line of files that are made of the chart.
const HEAD: &str = "# Made of the chart's template by `cargo xtask chart`.\n";
/// How lines begin that only a release of helm has.
pub const OF_HELM: [&str; 3] = ["helm.sh/chart:", "app.kubernetes.io/managed-by:", "# Source:"];

/// All files that are made of the chart, and their texts.
pub fn generated_files(helm: &Helm) -> Result<Vec<(PathBuf, String)>> {
    let mut made = Vec::new();
    for golden in golden()? {
        let text = helm.golden(&golden)?;
        made.push((golden.rendered, text));
    }
    let deploy = host::repo_root()?.join("deploy");
    for name in OF_BASE {
        let shown = helm.shown(&format!("templates/{name}.yaml"), "image.repository=causeway")?;
        made.push((deploy.join(format!("base/{name}.yaml")), HEAD.to_owned() + &for_base(&shown)?));
    }
    let shown = helm.shown("templates/rbac.yaml", "watchNamespaces={none}")?;
    let scoped: Vec<_> = shown
        .split("---\n")
        .filter(|it| it.contains("\n  name: causeway-cluster-scoped\n"))
        .map(for_base)
        .collect::<Result<_>>()?;
    made.push((deploy.join("components/some-namespaces/clusterrole.yaml"), HEAD.to_owned() + &scoped.join("---\n")));
    Ok(made)
}

/// A rendered object without what only a release of helm has, and with the image that overlays replace.
fn for_base(rendered: &str) -> Result<String> {
    let mut text = String::new();
    let dropped = ["---", "app.kubernetes.io/instance:", "app.kubernetes.io/version:"];
    let is_dropped = |line: &str| OF_HELM.iter().chain(&dropped).any(|start| line.trim_start().starts_with(start));
    let mut lines = rendered.lines().filter(|line| !is_dropped(line)).peekable();
    while let Some(line) = lines.next() {
        // kustomize rolls the Deployment by the name of the ConfigMap.
        if lines.next_if(|next| next.trim_start().starts_with("checksum/options:")).is_none() {
            text.extend([line, "\n"]);
        }
    }
    let image = format!("image: \"causeway:{}\"", release::version()?);
    Ok(text.replace(&image, "image: causeway").trim_end().to_owned() + "\n")
}

/// Writes all files that are made of the chart.
pub fn run() -> Result<()> {
    Progress::new(1).step("Write deploy/helm/golden and deploy/base", |step| {
        for (path, text) in generated_files(&Helm::find(step)?)? {
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    })
}

/// helm, built from its Go module.
pub struct Helm {
    program: PathBuf,
}

impl Helm {
    /// Builds helm unless it is in the cache.
    pub fn find(step: &Step) -> Result<Self> {
        Ok(Self { program: tools::program(tools::HELM, step)? })
    }

    /// The path of the program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// A helm command that uses no cluster and no settings of the user.
    pub fn command(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(&self.program);
        command.args(arguments);
        isolate(&mut command)?;
        Ok(command)
    }

    /// The chart's objects for a release `name` in `causeway-system`; `options` are for example `--values` and `--set`.
    pub fn render(&self, chart: &Path, name: &str, options: &[&str]) -> Result<String> {
        let chart = chart.display().to_string();
        let mut command = self.command(&["template", name, &chart, "--namespace", "causeway-system"])?;
        tools::output_of(command.args(options))
    }

    /// The chart's objects for a file with values. For `everything`, the release has another name than the chart.
    pub fn golden(&self, golden: &Golden) -> Result<String> {
        let release = if golden.name == "everything" { "edge" } else { "causeway" };
        self.render(&directory()?, release, &["--values", &golden.values.display().to_string()])
    }

    /// The objects of one template for the minimal values and these.
    fn shown(&self, template: &str, set: &str) -> Result<String> {
        let values = golden_directory()?.join("minimal.values.yaml").display().to_string();
        self.render(&directory()?, "causeway", &["--values", &values, "--set", set, "--show-only", template])
    }

    /// Packages the chart into a folder; the same sources always give the same bytes. `image` (`REPOSITORY` or
    /// `REPOSITORY@DIGEST`) becomes its default. Works in the folder `scratch`, and returns the path of the package.
    pub fn package(&self, image: Option<&str>, scratch: &Path, into: &Path) -> Result<PathBuf> {
        let staged = scratch.join("chart");
        if staged.exists() {
            fs::remove_dir_all(&staged).with_context(|| format!("cannot remove {}", staged.display()))?;
        }
        copy(&directory()?, &staged.join("causeway"))?;
        if let Some(image) = image {
            let values = staged.join("causeway/values.yaml");
            fs::write(&values, with_image(&fs::read_to_string(&values)?, image)?)?;
        }
        set_times(&staged)?;
        let (chart, folder) = (staged.join("causeway").display().to_string(), into.display().to_string());
        let said = tools::output_of(&mut self.command(&["package", &chart, "--destination", &folder])?)?;
        let package = said.trim().rsplit(": ").next().map(PathBuf::from).unwrap_or_default();
        if !package.is_file() {
            bail!("helm package named no file: {said}");
        }
        Ok(package)
    }
}

/// Keeps helm away from the user's caches, plugins and clusters.
pub fn isolate(command: &mut Command) -> Result<()> {
    let home = host::repo_root()?.join("target/helm");
    for part in ["CACHE", "CONFIG", "DATA"] {
        command.env(format!("HELM_{part}_HOME"), home.join(part.to_lowercase()));
    }
    command.env_remove("KUBECONFIG").env_remove("HELM_NAMESPACE");
    Ok(())
}

/// The argument of `--set` for an image, `REPOSITORY` or `REPOSITORY@DIGEST`.
pub fn image_values(image: &str) -> String {
    let (repository, digest) = parted(image);
    format!("image.repository={repository},image.digest={digest}")
}

/// Repository and digest of `REPOSITORY` or `REPOSITORY@DIGEST`.
fn parted(image: &str) -> (&str, &str) {
    image.split_once('@').unwrap_or((image, ""))
}

/// The text of values.yaml with a different default image.
fn with_image(values: &str, image: &str) -> Result<String> {
    let (repository, digest) = parted(image);
    let mut text = values.to_owned();
    for (field, value) in [("repository", repository), ("digest", digest)] {
        let empty = format!("\n  {field}: \"\"\n");
        if text.matches(&empty).count() != 1 {
            bail!("values.yaml has not one empty image.{field}");
        }
        text = text.replace(&empty, &format!("\n  {field}: \"{value}\"\n"));
    }
    Ok(text)
}

/// Copies a folder, and the files that its links point to instead of the links.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let path = entry?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy(&path, &target)?;
        } else {
            fs::copy(&path, &target).with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(())
}

/// Gives all files the same time, because helm writes it into the package.
fn set_times(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            set_times(&path)?;
        } else {
            File::open(&path)?.set_times(FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + SINCE_1970))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_release_names_its_image() {
        let values = "image:\n  repository: \"\"\n  digest: \"\"\n";
        assert_eq!(
            with_image(values, "r.example/c@sha256:1").unwrap(),
            "image:\n  repository: \"r.example/c\"\n  digest: \"sha256:1\"\n"
        );
        assert_eq!(with_image(values, "r/c").unwrap(), "image:\n  repository: \"r/c\"\n  digest: \"\"\n");
        assert!(with_image("image: {}\n", "r/c").is_err());
    }

    /// The rules of a `ClusterRole` in a file of the repository.
    fn rules_of(file: &str, role: &str) -> Vec<Value> {
        let text = fs::read_to_string(host::repo_root().unwrap().join(file)).unwrap();
        let found = objects::parse(&text).unwrap().remove(&format!("ClusterRole /{role}")).unwrap();
        found["rules"].as_array().unwrap().clone()
    }

    fn resources_of(rule: &Value) -> impl Iterator<Item = &str> {
        rule["resources"].as_array().unwrap().iter().map(|it| it.as_str().unwrap())
    }

    #[test]
    fn a_role_grants_nothing_for_options_that_are_off() {
        for role in ["edge-causeway", "edge-causeway-cluster-scoped"] {
            let rules = rules_of("deploy/helm/golden/everything.yaml", role);
            assert!(rules.iter().flat_map(resources_of).any(|it| it == "nodes"), "{role}");
            for rule in &rules {
                for resource in resources_of(rule) {
                    let policies = resource.starts_with("causewaypolicies");
                    assert!(!policies && !resource.ends_with("reviews"), "{role} has {resource}");
                    // Its uid identifies the cluster.
                    let named = rule["resourceNames"] == json!(["kube-system"]);
                    assert!(resource != "namespaces" || named, "{role} has all namespaces");
                }
            }
        }
    }

    #[test]
    fn the_page_names_every_right_that_no_role_binding_grants() {
        let page = fs::read_to_string(host::repo_root().unwrap().join("docs/operations.md")).unwrap();
        let section = page.split("\n### Some namespaces only\n").nth(1).unwrap().split("\n## ").next().unwrap();
        let rules = rules_of("deploy/components/some-namespaces/clusterrole.yaml", "causeway-cluster-scoped");
        assert!(rules.len() > 3, "{rules:?}");
        for resource in rules.iter().flat_map(resources_of) {
            assert!(section.contains(&format!("`{resource}`")), "docs/operations.md does not name {resource}");
        }
    }

    #[test]
    fn the_chart_has_cargos_version() {
        let chart = fs::read_to_string(directory().unwrap().join("Chart.yaml")).unwrap();
        let cargo = fs::read_to_string(host::repo_root().unwrap().join("Cargo.toml")).unwrap();
        let version = release::version_in(&cargo).unwrap();
        assert!(chart.contains(&format!("\nversion: {version}\n")), "{chart}");
        assert!(chart.contains(&format!("\nappVersion: \"{version}\"\n")), "{chart}");
    }
}
