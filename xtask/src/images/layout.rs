//! Writes images as OCI layouts, without a container engine. The same files always make the same bytes.
//! <https://github.com/opencontainers/image-spec/blob/main/image-layout.md>

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::Image;
use crate::architecture::Architecture;
use crate::progress::Step;
use crate::tools;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// Facts about an image beside its files.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The version of its content, and its tag in the layout.
    pub version: String,
    /// Its creation time in RFC 3339: the time of the commit, so that the same commit makes the same image.
    pub created: String,
    /// The commit; empty outside of a git checkout.
    pub revision: String,
    /// The architecture of its programs.
    pub architecture: Architecture,
    /// gzip's level, from 1 to 9.
    pub level: u8,
}

/// Writes the image into the folder `into`, which it empties. Returns the digest of its manifest.
pub fn write(image: &Image, facts: &Facts, into: &Path, step: &Step) -> Result<String> {
    if into.exists() {
        fs::remove_dir_all(into).with_context(|| format!("cannot remove {}", into.display()))?;
    }
    fs::create_dir_all(into.join("blobs/sha256")).with_context(|| format!("cannot make {}", into.display()))?;
    let layout = Layout { folder: into };
    let (mut layers, mut contents) = (Vec::new(), Vec::new());
    for source in &image.layers {
        step.note(format!("packing {source}"));
        let (layer, content) = layout.layer(source, facts.level)?;
        layers.push(layer);
        contents.push(content);
    }
    let config = layout.json(CONFIG, &configuration(image, facts, &contents))?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config,
        "layers": layers,
        "annotations": labels(facts),
    });
    let mut entry = layout.json(MANIFEST, &manifest)?;
    let digest = entry["digest"].as_str().unwrap_or_default().to_owned();
    entry["platform"] = json!({ "architecture": facts.architecture.name(), "os": "linux" });
    entry["annotations"] = json!({ "org.opencontainers.image.ref.name": facts.version });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [entry],
    });
    fs::write(into.join("index.json"), serde_json::to_vec(&index)?)?;
    fs::write(into.join("oci-layout"), serde_json::to_vec(&json!({ "imageLayoutVersion": "1.0.0" }))?)?;
    Ok(digest)
}

/// Pushes a layout with one image by crane, which takes credentials from docker's config file. Returns
/// `REGISTRY/REPO@DIGEST`. `enter` runs crane where the registry can be reached.
pub fn push(
    layout: &Path,
    reference: &str,
    plain_http: bool,
    step: &Step,
    enter: impl FnOnce(PathBuf) -> Command,
) -> Result<String> {
    let mut crane = enter(tools::program(tools::CRANE, step)?);
    step.note(format!("pushing {reference}"));
    crane.arg("push").args(plain_http.then_some("--insecure")).arg(layout).arg(reference);
    let pushed = tools::output_of(&mut crane)?;
    let pushed = pushed.trim();
    if !pushed.contains("@sha256:") {
        bail!("crane named no digest: {pushed}");
    }
    Ok(pushed.to_owned())
}

/// <https://github.com/opencontainers/image-spec/blob/main/annotations.md>
fn labels(facts: &Facts) -> Value {
    let mut labels = json!({
        "org.opencontainers.image.title": "Causeway",
        "org.opencontainers.image.description": "A Kubernetes operator that bridges Kubernetes and AWS",
        "org.opencontainers.image.source": "https://github.com/causeway-operator/causeway",
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.version": facts.version,
        "org.opencontainers.image.created": facts.created,
    });
    if !facts.revision.is_empty() {
        labels["org.opencontainers.image.revision"] = json!(facts.revision);
    }
    labels
}

/// <https://github.com/opencontainers/image-spec/blob/main/config.md>
fn configuration(image: &Image, facts: &Facts, contents: &[String]) -> Value {
    let mut config = json!({ "Env": [super::PATH], "Labels": labels(facts) });
    let texts = [("User", &image.user), ("WorkingDir", &image.working_directory), ("StopSignal", &image.stop_signal)];
    for (field, value) in texts.into_iter().filter(|(_, value)| !value.is_empty()) {
        config[field] = json!(value);
    }
    for (field, words) in [("Entrypoint", &image.entrypoint), ("Cmd", &image.command)] {
        if !words.is_empty() {
            config[field] = json!(words);
        }
    }
    json!({
        "created": facts.created,
        "architecture": facts.architecture.name(),
        "os": "linux",
        "config": config,
        "rootfs": { "type": "layers", "diff_ids": contents },
    })
}

struct Layout<'a> {
    folder: &'a Path,
}

impl Layout<'_> {
    /// Adds a layer: a folder, or `FILE=/path/in/image`. Returns its descriptor and the digest of its uncompressed
    /// content.
    fn layer(&self, source: &str, level: u8) -> Result<(Value, String)> {
        let archive = self.folder.join("layer.tar");
        let packed = self.folder.join("layer.tar.gz");
        let mut tar = Command::new("tar");
        tar.args(["--create", "--format=ustar", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
        // The image must not depend on this machine's umask and clock.
        tar.args(["--mtime=@0", "--mode=u+rw,go+r,go-w,a+X", "--file"]).arg(&archive);
        if let Some((file, place)) = source.split_once('=') {
            let file = Path::new(file);
            tar.arg("--directory").arg(file.parent().context("a file lies in a folder")?);
            tar.arg(format!("--transform=s|^.*$|{}|", place.trim_start_matches('/')));
            tar.arg(file.file_name().context("a file has a name")?);
        } else {
            tar.arg("--directory").arg(source).args(names_in(Path::new(source))?);
        }
        tools::output_of(&mut tar)?;
        let content = digest_of(&archive)?;
        let gzip = Command::new("gzip")
            .args(["--no-name", "--stdout", &format!("-{level}")])
            .stdin(File::open(&archive)?)
            .stdout(File::create(&packed)?)
            .stderr(Stdio::inherit())
            .status()
            .context("cannot start gzip")?;
        if !gzip.success() {
            bail!("gzip ended with {gzip}");
        }
        fs::remove_file(&archive)?;
        Ok((self.keep(LAYER, &packed)?, content))
    }

    /// Adds a JSON document. Returns its descriptor.
    fn json(&self, media_type: &str, document: &Value) -> Result<Value> {
        let file = self.folder.join("document.json");
        fs::write(&file, serde_json::to_vec(document)?)?;
        self.keep(media_type, &file)
    }

    /// Moves a file in the layout's folder to the path of its digest. Returns its descriptor.
    fn keep(&self, media_type: &str, file: &Path) -> Result<Value> {
        let (digest, size) = (digest_of(file)?, file.metadata()?.len());
        fs::rename(file, self.folder.join("blobs").join(digest.replace(':', "/")))?;
        Ok(json!({ "mediaType": media_type, "digest": digest, "size": size }))
    }
}

fn names_in(folder: &Path) -> Result<Vec<std::ffi::OsString>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut names = entries.map(|entry| Ok(entry?.file_name())).collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// The digest of a file as `sha256:…`. It uses coreutils, because hashing is slow in an unoptimized build.
pub fn digest_of(file: &Path) -> Result<String> {
    let said = tools::output_of(Command::new("sha256sum").arg(file))?;
    let hash = said.split_whitespace().next().context("sha256sum said nothing")?;
    Ok(format!("sha256:{}", hash.trim_start_matches('\\')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_says_what_it_runs_on() {
        let facts = Facts {
            version: "0.1.0".to_owned(),
            created: "2026-01-01T00:00:00Z".to_owned(),
            revision: String::new(),
            architecture: Architecture::Arm64,
            level: 1,
        };
        let config = configuration(&Image::default(), &facts, &[]);
        assert_eq!((&config["architecture"], &config["os"]), (&"arm64".into(), &"linux".into()));
    }
}
