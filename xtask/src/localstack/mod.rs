//! LocalStack: installed into the cache from its lock file, started inside a cluster's room, and controlled by its
//! admin routes.

mod install;

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::cluster::{Cluster, NODE_ADDRESS};
use crate::progress::Step;

pub use install::prepare;

const PORT: u16 = 4566;

/// The load balancers' addresses: in the cluster's range, apart from those of nodes (198.18.0.x) and pods (from
/// 198.18.16.0).
const BALANCERS: &str = "198.18.8.0/21";

/// The account of callers without a 12-digit one of their own, and of the demo.
const ACCOUNT: &str = "000000000000";

/// One HTTP call from inside the room: method and URL are arguments, stdin is the body, and stdout is the answer.
const CALL: &str = "
import sys, urllib.error, urllib.request
method, url = sys.argv[1:]
call = urllib.request.Request(url, method=method, data=sys.stdin.buffer.read() or None)
try:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(call, timeout=30) as answer:
        sys.stdout.buffer.write(answer.read())
except urllib.error.HTTPError as error:
    sys.exit(f'{error}: {error.read().decode()}')
except OSError as error:
    sys.exit(str(error))
";

/// A LocalStack that runs in a cluster's room.
pub struct LocalStack<'a> {
    /// The AWS endpoint, for pods and for tests in the room's network.
    pub endpoint: String,
    cluster: &'a Cluster,
    venv: PathBuf,
}

/// Starts LocalStack in the cluster's room, unless this very version already runs there, and prepares the default
/// account.
pub fn start<'a>(cluster: &'a Cluster, step: &Step) -> Result<LocalStack<'a>> {
    let venv = prepare(step)?;
    let package = install::package(&venv, step)?;
    let localstack = LocalStack { endpoint: format!("http://{NODE_ADDRESS}:{PORT}"), cluster, venv };
    match localstack.version() {
        Ok(version) if version == package.version => {}
        Ok(_) => {
            step.note("another version of LocalStack runs; stopping it");
            localstack.call("POST", "/_localstack/health", &json!({"action": "kill"})).ok();
            step.wait_for("the other LocalStack to end", Duration::from_secs(30), || {
                Ok(localstack.version().is_err().then_some(()))
            })?;
            localstack.launch(&package, step)?;
        }
        Err(_) => localstack.launch(&package, step)?,
    }
    localstack.call("POST", &format!("/_causeway/seed?account={ACCOUNT}"), &Value::Null)?;
    Ok(localstack)
}

impl LocalStack<'_> {
    /// Makes `AssumeRoleWithWebIdentity` accept tokens of an issuer, as an OIDC provider in IAM does.
    pub fn trust_issuer(&self, issuer: &str, jwks: &Value) -> Result<()> {
        self.call("POST", "/_causeway/oidc", &json!({"issuer": issuer, "jwks": jwks}))?;
        Ok(())
    }

    /// Creates a role with a trust policy and inline policies, or replaces the policies of an existing one.
    pub fn put_role(
        &self,
        account: &str,
        name: &str,
        trust_policy: &Value,
        policies: &Value,
        tags: &Value,
    ) -> Result<()> {
        let role = json!({"name": name, "trust_policy": trust_policy, "policies": policies, "tags": tags});
        self.call("POST", &format!("/_causeway/role?account={account}"), &role)?;
        Ok(())
    }

    fn python(&self) -> PathBuf {
        self.venv.join("bin/python")
    }

    fn version(&self) -> Result<String> {
        let answer = self.call("GET", "/_causeway/version", &Value::Null)?;
        answer["version"].as_str().map(str::to_owned).context("LocalStack names no version")
    }

    fn launch(&self, package: &install::Package, step: &Step) -> Result<()> {
        let state = self.cluster.state_dir().join("localstack");
        let directory = |name: &str| -> Result<PathBuf> {
            let path = state.join(name);
            fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
            Ok(path)
        };
        let root = directory("files")?;
        install::copy_index(&self.venv, &root)?;
        let logs = self.cluster.state_dir().join("logs");
        fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
        let log_path = logs.join("localstack.log");
        let mut route = self.cluster.in_network("ip");
        step.run(route.args(["route", "replace", "local", BALANCERS, "dev", "lo"]), &logs.join("balancers.log"))?;
        let log = OpenOptions::new().create(true).append(true).open(&log_path)?;
        let mut child = self
            .cluster
            // A higher priority: one process answers for all of AWS, and without processor time every call would time
            // out.
            .in_room("nice")
            .args(["-n", "-5"])
            .arg(self.python())
            .args(["-P", "-m", "localstack.runtime.main"])
            .env("PYTHONPATH", &package.path)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("CAUSEWAY_LOCALSTACK_VERSION", &package.version)
            .env("GATEWAY_LISTEN", format!("0.0.0.0:{PORT}"))
            .env("CAUSEWAY_DATAPLANE_ADDRESSES", BALANCERS)
            .env("CAUSEWAY_DATAPLANE_NAMES", self.cluster.names())
            // Without these it would write to /var/lib, /usr/lib, /etc, /tmp and the user's home.
            .env("OVERRIDE_IN_DOCKER", "0")
            .env("FILESYSTEM_ROOT", root)
            .env("LOCALSTACK_VOLUME_DIR", directory("volume")?)
            .env("TMPDIR", directory("tmp")?)
            .env("HOME", directory("home")?)
            .env("XDG_CACHE_HOME", directory("cache")?)
            // Without these it would connect to the internet.
            .env("SKIP_SSL_CERT_DOWNLOAD", "1")
            .env("DISABLE_EVENTS", "1")
            // Unused machine images would cost memory and time in every account.
            .env("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
            .env("DNS_ADDRESS", "0")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // A process group of its own, so that it does not get interrupts of the task that started it.
            .process_group(0)
            .spawn()
            .context("cannot start LocalStack")?;
        let what = format!("LocalStack to answer (its log: {})", log_path.display());
        step.wait_for(what, Duration::from_mins(5), || match self.version() {
            Ok(version) if version == package.version => Ok(Some(Ok(()))),
            Ok(version) => bail!("version {version} answers instead of {}", package.version),
            Err(error) => match child.try_wait()? {
                Some(status) => Ok(Some(Err(error.context(format!("LocalStack ended with {status}"))))),
                None => Err(error),
            },
        })?
        .with_context(|| format!("its log: {}", log_path.display()))
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let url = format!("{}{path}", self.endpoint);
        let mut child = self
            .cluster
            .in_network(self.python())
            .args(["-I", "-c", CALL, method, &url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start Python")?;
        if let Some(mut stdin) = child.stdin.take() {
            // If the child ends early, its status below shows that.
            if !body.is_null() {
                stdin.write_all(body.to_string().as_bytes()).ok();
            }
        }
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!("{method} {url}: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        if output.stdout.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&output.stdout).with_context(|| format!("{method} {url}: the answer is not JSON"))
    }
}
