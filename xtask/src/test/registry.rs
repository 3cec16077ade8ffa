//! Pushes the image to a real registry with a password: Debian's docker-registry.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::directory;
use crate::images::layout;
use crate::progress::Step;
use crate::tools;

/// The Debian package with the registry.
pub const PACKAGE: &str = "docker-registry";

const USER: &str = "causeway";
/// The bcrypt hash of its password `not-a-secret`, as in htpasswd.
const HASH: &str = "$2y$05$f4W7dpg3rW5vKO.QI37tS.NZBOIFOzTfiudBEGv4MlJj/UQ1A9I2C";
/// User and password, as in docker's config file.
const LOGIN: &str = "Y2F1c2V3YXk6bm90LWEtc2VjcmV0";

/// A registry on this machine, which ends when this is dropped.
struct Registry {
    process: Child,
    address: String,
}

impl Registry {
    fn start(folder: &Path, step: &Step) -> Result<Self> {
        // A port that is free now. If another process takes it meanwhile, the registry fails to start.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let users = folder.join("htpasswd");
        fs::write(&users, format!("{USER}:{HASH}\n"))?;
        // JSON is YAML.
        let configuration = json!({
            "version": 0.1,
            "storage": { "filesystem": { "rootdirectory": folder.join("data") } },
            "http": { "addr": address },
            "auth": { "htpasswd": { "realm": "causeway", "path": users } },
        });
        let file = folder.join("config.yml");
        fs::write(&file, configuration.to_string())?;
        let log = fs::File::create(folder.join("log"))?;
        let process = Command::new("docker-registry")
            .arg("serve")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start docker-registry")?;
        let registry = Self { process, address };
        let answers = || Ok(TcpStream::connect(&registry.address).ok().map(drop));
        step.wait_for("the registry to answer", Duration::from_mins(2), answers)?;
        Ok(registry)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// With the password in docker's config file, the whole image arrives. Without it, the registry's error is shown.
pub fn takes(image: &Path, digest: &str, step: &Step) -> Result<()> {
    let folder = directory()?.join("registry");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let (known, stranger) = (folder.join("known"), folder.join("stranger"));
    fs::create_dir_all(&known)?;
    fs::create_dir_all(&stranger)?;
    let registry = Registry::start(&folder, step)?;
    let reference = format!("{}/team/causeway:test", registry.address);
    let logins = json!({ "auths": { &registry.address: { "auth": LOGIN } } });
    fs::write(known.join("config.json"), logins.to_string())?;

    let as_one = |config: &Path| {
        let config = config.to_owned();
        move |crane| {
            let mut crane = Command::new(crane);
            crane.env("DOCKER_CONFIG", config);
            crane
        }
    };
    match layout::push(image, &reference, true, step, as_one(&stranger)) {
        Ok(_) => bail!("the registry took an image from somebody without a password"),
        Err(error) if format!("{error:#}").contains("401 Unauthorized") => {}
        Err(error) => return Err(error.context("the registry was to refuse somebody without a password")),
    }
    let pushed = layout::push(image, &reference, true, step, as_one(&known))?;
    let mut ask = as_one(&known)(tools::program(tools::CRANE, step)?);
    let there = tools::output_of(ask.args(["digest", "--insecure", &reference]))?;
    if !pushed.ends_with(digest) || there.trim() != digest {
        bail!("{digest} was pushed as {pushed}, and {} is there", there.trim());
    }
    Ok(())
}
