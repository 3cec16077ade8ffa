//! PostgreSQL: dumped to S3 and restored from there, by us and by its own programs with `aws s3 cp`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::pipeline::{Ran, run, run_beside};
use super::store::Store;
use super::{ROUNDS, Rates, middle};
use crate::bench::report::Report;
use crate::bench::scene::Scene;
use crate::progress::Step;
use crate::tools::output_of;

/// How users do it without Causeway.
const OUT: &str = "pg_dump -Fd -j2 --file DIR, then aws s3 cp --recursive DIR";
/// How users restore it without Causeway.
const BACK: &str = "aws s3 cp --recursive, createdb, then pg_restore -j2";

const IMAGE: &str = "postgres:15";
const USER: &str = "postgres";
const DATABASE: &str = "shop";
const FOLDER: &str = "postgresql";
/// Twice as many tables as are dumped at the same time.
const TABLES: usize = 4;
/// The approximate size of a row of [`fill`].
const ROW: usize = 256;
/// Clients need no password: the server runs only during this benchmark, in the cluster's network.
const SERVE: &str = "initdb --pgdata=/data/base --username=postgres --auth=trust --no-sync --encoding=UTF8 --locale=C\n\
                     echo 'host all all all trust' >> /data/base/pg_hba.conf\n\
                     exec postgres -D /data/base -k /tmp -c listen_addresses='*' -c fsync=off -c max_wal_size=4GB";

/// Measures both directions.
pub fn measure(scene: &Scene<'_>, store: &Store<'_>, mebibytes: usize, report: &mut Report, step: &Step) -> Result<()> {
    let tools = tools()?;
    let source = Server::start(scene, "source", &tools, step)?;
    let target = Server::start(scene, "target", &tools, step)?;
    step.note(format!("writing {mebibytes} MiB"));
    source.fill(mebibytes)?;
    let (rows, mebibytes) = (source.rows()?, source.mebibytes()?);
    let way = Way { store, tools: &tools, source: &source, target: &target };
    let (mut dumped, mut piped, mut restored, mut piped_back) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut calls = Vec::new();
    for round in 1..=ROUNDS {
        step.note(format!("round {round} of {ROUNDS}"));
        store.calls()?;
        dumped.push(way.back_up(round)?);
        calls = store.calls()?;
        piped.push(way.dump_by_hand()?);
        for (by_us, ran) in [(true, &mut restored), (false, &mut piped_back)] {
            target.sql("postgres", &format!("DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)"))?;
            ran.push(if by_us { way.restore()? } else { way.restore_by_hand()? });
            let there = target.rows()?;
            ensure!(there == rows, "the restore has {there} rows, and {rows} were backed up");
        }
        store.empty()?;
    }
    for (name, ours, theirs, pipeline) in
        [("postgresql_backup", dumped, piped, OUT), ("postgresql_restore", restored, piped_back, BACK)]
    {
        let rates = Rates { ours: middle(ours)?, theirs: middle(theirs)?, mebibytes };
        rates.tell(name, pipeline, report, step);
        let all = "of all its processes";
        report.add(&format!("{name}_rss_peak_kib"), rates.ours.peak_kib, all);
        report.add(&format!("{name}_rss_peak_kib_pipeline"), rates.theirs.peak_kib, all);
    }
    report.add_calls("postgresql_backup_aws_calls", &calls, None);
    [&source, &target].into_iter().try_for_each(|server| scene.end_server(server.name))
}

/// The directory of PostgreSQL's own programs. Debian has one for each version, and wrappers in the `PATH` that choose
/// a version.
fn tools() -> Result<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").context("PostgreSQL's programs are not installed")?;
    let found = versions.flatten().map(|version| version.path().join("bin")).find(|path| path.join("pg_dump").exists());
    found.context("no version of pg_dump is installed")
}

/// A server in a pod.
struct Server<'a> {
    name: &'a str,
    host: String,
    tools: &'a Path,
}

impl<'a> Server<'a> {
    fn start(scene: &Scene<'_>, name: &'a str, tools: &'a Path, step: &Step) -> Result<Self> {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "securityContext": { "runAsUser": 999, "runAsGroup": 999, "fsGroup": 999 },
                "containers": [{
                    "name": "server", "image": IMAGE, "command": ["sh", "-ec", SERVE],
                    "readinessProbe": { "tcpSocket": { "port": 5432 }, "periodSeconds": 1 },
                    "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
                }],
                "volumes": [{ "name": "data", "emptyDir": {} }],
            },
        });
        let host = scene.serve(&pod, step)?;
        Ok(Self { name, host, tools })
    }

    /// Writes numbers, times, and text of which half repeats itself.
    fn fill(&self, mebibytes: usize) -> Result<()> {
        self.sql("postgres", &format!("CREATE DATABASE {DATABASE}"))?;
        let rows = (mebibytes << 20) / ROW / TABLES;
        for table in 1..=TABLES {
            self.sql(
                DATABASE,
                &format!(
                    "CREATE TABLE lines_{table} AS SELECT i::bigint AS id, md5(i::text) || md5((7 * i)::text) AS noise, \
                     repeat('abcdefgh', 12) AS words, i / 7.0 AS price, '2026-01-01'::timestamptz + i * interval '1 s' AS at \
                     FROM generate_series(1, {rows}) i; ALTER TABLE lines_{table} ADD PRIMARY KEY (id); ANALYZE lines_{table}"
                ),
            )?;
        }
        Ok(())
    }

    /// The number of rows in all tables.
    fn rows(&self) -> Result<u64> {
        let counts: Vec<String> = (1..=TABLES).map(|table| format!("(SELECT count(*) FROM lines_{table})")).collect();
        Ok(self.sql(DATABASE, &format!("SELECT {}", counts.join(" + ")))?.trim().parse()?)
    }

    /// The size of the tables in MiB, without indexes.
    fn mebibytes(&self) -> Result<f64> {
        let sizes: Vec<String> = (1..=TABLES).map(|table| format!("pg_table_size('lines_{table}')")).collect();
        let bytes: f64 = self.sql(DATABASE, &format!("SELECT {}", sizes.join(" + ")))?.trim().parse()?;
        Ok(bytes / f64::from(1 << 20))
    }

    fn sql(&self, database: &str, statements: &str) -> Result<String> {
        let mut psql = self.program("psql");
        output_of(psql.args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", statements]))
    }

    /// A program with the options to reach the server.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.tools.join(name));
        command.args(["--host", &self.host, "--username", USER, "--no-password"]);
        command
    }

    /// The server as a source in a plan, with all of its databases.
    fn plan(&self, login: &Path) -> Value {
        let server = json!({ "type": "postgresql", "host": self.host, "port": 5432, "login": login });
        json!({ "folder": FOLDER, "title": self.name, "server": server })
    }
}

/// The way from one server to the other through S3.
struct Way<'a> {
    store: &'a Store<'a>,
    tools: &'a Path,
    source: &'a Server<'a>,
    target: &'a Server<'a>,
}

impl Way<'_> {
    /// Runs both containers of a backup Job.
    fn back_up(&self, round: usize) -> Result<Ran> {
        let plan = json!({ "destination": self.store.place(), "sources": [self.source.plan(&self.login()?)] });
        let socket = self.store.directory.join("dump.sock");
        let mut sends = self.store.causeway("backup", &plan)?;
        sends.args(["--due", &format!("20260101T00000{round}Z"), "--dump-socket"]).arg(&socket);
        let mut dumps = self.store.causeway("dump", &plan)?;
        dumps.arg("--dump-socket").arg(&socket).env("PATH", self.tools);
        run_beside(sends, dumps)
    }

    /// Runs both containers of a restore, one after the other.
    fn restore(&self) -> Result<Ran> {
        let work = self.fresh("work")?;
        let plan = json!({
            "origin": self.store.place(), "folder": FOLDER, "id": "latest", "work": work, "scratch": "",
            "parallelism": 2,
            "target": self.target.plan(&self.login()?),
        });
        let fetched = run(vec![self.store.causeway("fetch", &plan)?], None)?;
        let mut restore = self.store.causeway("restore", &plan)?;
        restore.env("PATH", self.tools);
        Ok(fetched.then(run(vec![restore], None)?))
    }

    fn dump_by_hand(&self) -> Result<Ran> {
        let files = self.fresh("dumped")?.join("files");
        let mut dump = self.source.program("pg_dump");
        dump.args(["--format=directory", "--jobs=2", "--dbname", DATABASE, "--file"]).arg(&files);
        let dumped = run(vec![dump], None)?;
        let mut upload = self.store.aws(&["s3", "cp", "--only-show-errors", "--recursive"]);
        upload.arg(&files).arg(self.store.uri("piped"));
        Ok(dumped.then(run(vec![upload], None)?))
    }

    fn restore_by_hand(&self) -> Result<Ran> {
        let files = self.fresh("dumped")?.join("files");
        let mut download = self.store.aws(&["s3", "cp", "--only-show-errors", "--recursive", &self.store.uri("piped")]);
        download.arg(&files);
        let downloaded = run(vec![download], None)?;
        let mut create = self.target.program("createdb");
        create.arg(DATABASE);
        let mut restore = self.target.program("pg_restore");
        restore.args(["--jobs=2", "--exit-on-error", "--dbname", DATABASE]).arg(&files);
        Ok(downloaded.then(run(vec![create], None)?).then(run(vec![restore], None)?))
    }

    /// The files of the mounted Secret.
    fn login(&self) -> Result<PathBuf> {
        let login = self.store.directory.join("login");
        fs::create_dir_all(&login)?;
        fs::write(login.join("username"), USER)?;
        fs::write(login.join("password"), "unused")?;
        Ok(login)
    }

    /// An empty directory.
    fn fresh(&self, name: &str) -> Result<PathBuf> {
        let path = self.store.directory.join(name);
        if path.exists() {
            fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(path)
    }
}
