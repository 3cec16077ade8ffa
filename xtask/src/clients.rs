//! The clients of `examples/clients`, made ready to run: tests ask what they see of a failover.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::progress::Step;
use crate::{golang, host, python};

/// Debian packages with what compiles and runs Java.
const JAVA: &[&str] = &["openjdk-17-jdk-headless", "maven"];
/// Fetches what a `pom.xml` names.
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.11.0:copy-dependencies";
/// Options of the JVM for a small program: little time for compilation, little memory.
const JVM: &str = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx64m -XX:-UsePerfData";

/// How each client is started: an environment variable for the tests, and a command with words between spaces.
pub type Commands = [(&'static str, String); 4];

/// Makes those clients that are not in the cache.
pub fn prepare(step: &Step) -> Result<Commands> {
    let go = go(step)?;
    Ok([
        ("CAUSEWAY_CLIENT_GO_REDIS", go.join("go-redis").display().to_string()),
        ("CAUSEWAY_CLIENT_ETCD", go.join("etcd").display().to_string()),
        ("CAUSEWAY_CLIENT_REDIS_PY", redis_py(step)?),
        ("CAUSEWAY_CLIENT_LETTUCE", lettuce(step)?),
    ])
}

/// The module of those in Go.
pub fn module() -> Result<PathBuf> {
    Ok(home()?.join("go"))
}

fn home() -> Result<PathBuf> {
    Ok(host::repo_root()?.join("examples/clients"))
}

/// The name in the cache of what is made from these files, by this one.
fn cached(name: &str, mut sources: Vec<PathBuf>) -> Result<PathBuf> {
    sources.push(host::repo_root()?.join("xtask/src/clients.rs"));
    Ok(host::cache_dir()?.join("clients").join(name).join(host::hash_of(&sources)?))
}

fn go(step: &Step) -> Result<PathBuf> {
    let module = module()?;
    let made = cached("go", golang::sources(&module)?)?;
    host::made_once(&made, "the clients in Go", step, |new| {
        step.note("making the clients in Go");
        golang::compile(&module, &["./go-redis", "./etcd"], "", new, step)
    })?;
    Ok(made)
}

fn redis_py(step: &Step) -> Result<String> {
    let lock = home()?.join("redis-py/requirements.lock");
    let venv = python::cached("clients/redis-py", &lock, "redis-py", step)?;
    // Without bytecode beside the source.
    Ok(format!("{} -B {}", venv.join("bin/python").display(), home()?.join("redis-py/client.py").display()))
}

fn lettuce(step: &Step) -> Result<String> {
    let home = home()?.join("lettuce");
    let [pom, sums, client, connect] =
        ["pom.xml", "jars.sha256", "Client.java", "Connect.java"].map(|name| home.join(name));
    let made = cached("lettuce", vec![pom.clone(), sums.clone(), client.clone(), connect.clone()])?;
    host::install_packages(step, JAVA)?;
    host::made_once(&made, "the client in Java", step, |new| {
        step.note("fetching Lettuce");
        let jars = new.join("jars");
        let log = |name: &str| new.join(format!("{name}.log"));
        std::fs::create_dir_all(&jars).with_context(|| format!("cannot make {}", jars.display()))?;
        let mut fetch = Command::new("mvn");
        fetch.args(["--batch-mode", "--quiet", "--file"]).arg(&pom).args([COPY, "-DincludeScope=runtime"]);
        step.run(fetch.arg(format!("-DoutputDirectory={}", jars.display())), &log("maven"))?;
        let mut check = Command::new("sha256sum");
        step.run(check.args(["--check", "--strict"]).arg(&sums).current_dir(&jars), &log("sha256"))?;
        step.note("compiling the client in Java");
        let mut compile = Command::new("javac");
        compile.arg("-cp").arg(class_path(new)).arg("-d").arg(new.join("classes")).args([&client, &connect]);
        step.run(&mut compile, &log("javac"))
    })?;
    Ok(format!("java {JVM} -cp {} Client", class_path(&made)))
}

fn class_path(made: &Path) -> String {
    format!("{made}/classes:{made}/jars/*", made = made.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_shows_how_the_examples_connect() -> Result<()> {
        let read = |path: PathBuf| std::fs::read_to_string(&path).with_context(|| format!("no {}", path.display()));
        let page = read(host::repo_root()?.join("docs/clients.md"))?;
        let files = ["go/go-redis/connect.go", "go/etcd/connect.go", "redis-py/connect.py", "lettuce/Connect.java"];
        for file in files {
            let example = read(home()?.join(file))?;
            let (language, text) = (file.rsplit('.').next().unwrap_or_default(), example.trim_end());
            let shown = page.contains(&format!("```{language}\n{text}\n```"));
            anyhow::ensure!(
                shown,
                "docs/clients.md does not show examples/clients/{file} as it is, in a block ```{language}"
            );
        }
        Ok(())
    }
}
