//! PostgreSQL, MySQL and MariaDB: their own programs dump and load, as children of ours, in their own image. PostgreSQL is asked
//! over connections of ours, MySQL and MariaDB by their client.
//!
//! ```text
//! pg_dump, mariadb-dump ─▶ tar ─▶ as any source ─▶ S3 ─▶ fetched, unpacked into files ─▶ pg_restore, mariadb
//!                  └─ tables: rows and sums of them ─▶ compared at the end of a restore and of a verification
//! ```

mod child;
mod choice;
mod dump;
mod hooks;
mod mysql;
mod pack;
mod postgres;
mod recovery;
mod tables;
pub(super) mod tar;
mod tls;
mod tools;
mod words;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use dump::SqlDump;
pub use hooks::{When, run_hooks};
pub use pack::Splitter;
pub use postgres::{acknowledge, release};
pub use recovery::{REACHED, recover, verify_base};
pub use tools::{IMAGE, Origin};

use causeway_api::databaserestore::{Excluded, Included};

use self::child::Failure;
use self::tables::Tables;
use super::Error;
use super::manifest::Manifest;
use super::outlook::Outlook;
use super::plan::{RestorePlan, Server, Source, SqlServer};
use super::restored::Restored;
use super::secrets::{self, Login};

/// The directory that a backup of several files is unpacked to.
pub const PACK: &str = "dump";
/// The directory that write-ahead log of PostgreSQL is received into.
pub const WAL_DIRECTORY: &str = "/wal";

/// A program that writes nothing for this long has hung. It may wait for locks, or for a server that reads all of a table.
const PROGRAM_SILENCE_TIMEOUT: Duration = Duration::from_mins(15);
/// Restoring a database in one transaction may take as long as the Job, which has a deadline of its own.
const WHOLE_JOB: Duration = Duration::from_hours(24);
/// How long connecting to a server may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Parts of errors by which programs report that they cannot reach a server.
const UNREACHABLE: &[&str] = &[
    "Connection refused",
    "failed to lookup address information",
    "timeout expired",
    "timed out",
    "No route to host",
    "Network is unreachable",
    "Can't connect to",
    "Unknown MySQL server host",
    "Unknown server host",
];

/// Name of the file with what belongs to no database: the roles of PostgreSQL.
const GLOBALS: &str = "globals";
/// The same for MySQL and MariaDB: users, roles and their rights.
const USERS: &str = "users";
/// Name of the file with the names of all databases, for dumps of MySQL and MariaDB.
const DATABASES: &str = "databases";
/// Prefix of the name of a dump, before the name of its database. Without that, the dump names its databases itself.
const DUMP: &str = "dump/";
/// Prefix of the name of the file that says what the tables of a dump hold, before the name of the dump's database.
const TABLES: &str = "tables/";
/// The same of the file with the encoding of the database.
const ENCODING: &str = "encoding/";

/// The role of a server in a backup or a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Source,
    Target,
    /// The throw-away server.
    Scratch,
}

impl Side {
    /// The error if it is not possible to log in there.
    fn unreachable(self, description: String) -> Error {
        match self {
            Self::Source => Error::SourceUnreachable(description),
            Self::Target => Error::TargetUnreachable(description),
            Self::Scratch => Error::ScratchFailed(description),
        }
    }

    /// The error if something failed there.
    fn failed(self, failure: &Failure) -> Error {
        match self {
            Self::Source => Error::SourceFailed(failure.to_string()),
            Self::Target => Error::TargetFailed(failure.to_string()),
            Self::Scratch => Error::ScratchFailed(failure.to_string()),
        }
    }

    /// The field of the spec, for messages.
    fn field(self, kind: &str, field: &str) -> String {
        let side = if self == Self::Source { "source" } else { "target" };
        format!("spec.{side}.{kind}.{field}")
    }
}

/// How a server is reached, with what is in its Secrets.
#[derive(Clone, Debug)]
struct Account {
    side: Side,
    /// `postgresql` or `mysql`, as in the names of fields.
    kind: &'static str,
    host: String,
    port: u16,
    database: Option<String>,
    login: Login,
    tls: Option<Tls>,
    /// True if values of `money` are written and read by the settings of this PostgreSQL, not as in the locale C: only for
    /// statements of users.
    own_money: bool,
    /// True if connections to this PostgreSQL lift the limit of temporary files.
    lifts: bool,
}

/// Paths of files with certificates.
#[derive(Clone, Debug)]
struct Tls {
    authority: PathBuf,
    /// Client certificate and key, if the Secret has them.
    identity: Option<(PathBuf, PathBuf)>,
}

impl Account {
    /// One for tests, of a server that is never asked.
    #[cfg(test)]
    fn of_tests(side: Side, kind: &'static str, user: &str) -> Self {
        let login = Login { username: Some(user.to_owned()), password: "hunter2".into() };
        let port = if kind == "mysql" { 3306 } else { 5432 };
        Self { side, kind, host: "db".into(), port, database: None, login, tls: None, own_money: false, lifts: false }
    }

    /// Reads login and certificates from the mounted Secrets.
    fn read(side: Side, kind: &'static str, server: &SqlServer) -> Result<Self, Error> {
        let login =
            secrets::login(&server.login).map_err(|error| with_field(error, &side.field(kind, "authSecretName")))?;
        if login.username.is_none() {
            let message = "key username is missing: make the Secret, or add the key".to_owned();
            let error = Error::Secret { path: server.login.join("username"), message };
            return Err(with_field(error, &side.field(kind, "authSecretName")));
        }
        let tls = match &server.tls {
            None => None,
            Some(directory) => {
                let identity = secrets::certificates(directory);
                let identity =
                    identity.map_err(|error| with_field(error, &side.field(kind, "tlsSecretName")))?.identity.is_some();
                let identity = identity.then(|| (directory.join("tls.crt"), directory.join("tls.key")));
                Some(Tls { authority: directory.join("ca.crt"), identity })
            }
        };
        let (host, port, database) = (server.host.clone(), server.port, server.database.clone());
        Ok(Self { side, kind, host, port, database, login, tls, own_money: false, lifts: false })
    }

    fn user(&self) -> &str {
        self.login.username.as_deref().unwrap_or_default()
    }

    /// Explains why it was not possible to log in: first the field to correct, then the program's own words.
    fn refused(&self, failure: &Failure) -> Error {
        let output = failure.api_message();
        let has = |words: &[&str]| words.iter().any(|word| output.contains(word));
        let field = |name: &str| self.side.field(self.kind, name);
        let description = if has(&["password authentication failed", "Access denied for user", "password missing"]) {
            format!("{}: the server refuses this user with this password", field("authSecretName"))
        } else if has(&["Unknown database"]) || (output.contains("database \"") && output.contains("does not exist")) {
            let name = self.database.as_deref().unwrap_or_default();
            format!("{}: there is no database {name}: make it, or name another", field("database"))
        } else if let Some((name, cause)) = tls::cause(output) {
            format!("{}: {cause}", field(name))
        } else if has(UNREACHABLE) {
            format!("{}: no server answers at {}:{}", field("host"), self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        };
        self.side.unreachable(format!("{description} ({failure})"))
    }
}

/// The error about a Secret, with the field that names it.
fn with_field(error: Error, field: &str) -> Error {
    match error {
        Error::Secret { path, message } => {
            let message = message.replace("make the Secret", &format!("make the Secret that {field} names"));
            Error::Secret { path, message }
        }
        other => other,
    }
}

/// A backup that was fetched.
struct Fetched {
    version: String,
    files: Vec<(String, PathBuf)>,
}

impl Fetched {
    fn read(work: &Path, manifest: &Manifest) -> Result<Self, Error> {
        let path = work.join(PACK);
        let files = pack::files(&path).map_err(|source| Error::Work { path, source })?;
        Ok(Self { version: manifest.version.clone(), files })
    }

    fn path(&self, name: &str) -> Option<&Path> {
        self.files.iter().find(|(its, _)| its == name).map(|(_, path)| path.as_path())
    }

    /// Its dumps, each with the name of its database, which is empty if the dump names its databases itself.
    fn dumps(&self) -> Vec<(&str, &Path)> {
        self.files.iter().filter_map(|(name, path)| Some((name.strip_prefix(DUMP)?, path.as_path()))).collect()
    }

    /// The lines of a file.
    fn lines(&self, name: &str) -> Result<Vec<String>, Error> {
        Ok(self.text(name)?.lines().map(str::to_owned).collect())
    }

    fn text(&self, name: &str) -> Result<String, Error> {
        let Some(path) = self.path(name) else {
            return Err(Error::ChecksumMismatch(format!("it lacks its file {name}")));
        };
        std::fs::read_to_string(path).map_err(|source| Error::Work { path: path.to_owned(), source })
    }

    /// The encoding that the database of a dump had, if the backup says it.
    fn encoding(&self, database: &str) -> Result<Option<String>, Error> {
        let name = format!("{ENCODING}{database}");
        self.path(&name).map(|_| self.text(&name)).transpose()
    }

    /// Returns what the tables of a dump hold.
    fn tables(&self, database: &str) -> Result<Tables, Error> {
        let name = format!("{TABLES}{database}");
        let text = self.text(&name)?;
        Tables::read(&text).map_err(|error| Error::ChecksumMismatch(format!("its file {name} cannot be read: {error}")))
    }
}

/// Restores a backup into the target, and compares the target with it.
pub async fn restore(plan: &RestorePlan, manifest: &Manifest, target: &Source, run: &str) -> Result<Restored, Error> {
    let fetched = Fetched::read(&plan.work, manifest)?;
    let how = how(plan, run);
    match &target.server {
        Server::Postgresql(server) => {
            let account = Account::read(Side::Target, "postgresql", server)?;
            postgres::restore(&account, &fetched, &how).await
        }
        Server::Mysql(server) => {
            let account = Account::read(Side::Target, "mysql", server)?;
            mysql::restore(&account, &fetched, &how).await
        }
        _ => Err(Error::Unsupported(format!("{} is no {}, of which the backup is", target.title, manifest.kind))),
    }
}

/// Predicts what a restore would do to the target. Only reads the target.
pub async fn outlook(plan: &RestorePlan, manifest: &Manifest, target: &Source, run: &str) -> Result<Outlook, Error> {
    let fetched = Fetched::read(&plan.work, manifest)?;
    let how = how(plan, run);
    match &target.server {
        Server::Postgresql(server) => {
            let account = Account::read(Side::Target, "postgresql", server)?;
            postgres::outlook(&account, &fetched, &how).await
        }
        Server::Mysql(server) => {
            let account = Account::read(Side::Target, "mysql", server)?;
            mysql::outlook(&account, &fetched, &how).await
        }
        _ => Err(Error::Unsupported(format!("{} is no {}, of which the backup is", target.title, manifest.kind))),
    }
}

fn how<'a>(plan: &'a RestorePlan, run: &'a str) -> How<'a> {
    let origin = if plan.unproven { Origin::Unproven } else { Origin::Proven };
    How {
        work: &plan.work,
        force: plan.force,
        cascade: !plan.on_dependents.is_fail(),
        include: plan.include.clone(),
        exclude: plan.exclude.clone(),
        parallelism: plan.parallelism,
        run,
        origin,
    }
}

/// How a backup is restored.
struct How<'a> {
    /// Where files may be written.
    work: &'a Path,
    force: bool,
    /// True if objects that depend on replaced ones are dropped.
    cascade: bool,
    include: Included,
    exclude: Excluded,
    /// How many connections restore a PostgreSQL.
    parallelism: u8,
    /// Name of the restore.
    run: &'a str,
    origin: Origin,
}

impl<'a> How<'a> {
    /// Restores all of it, into a throw-away server.
    fn verification(work: &'a Path) -> Self {
        let (include, exclude) = (Included::default(), Excluded::default());
        let (run, origin) = ("verify", Origin::Proven);
        Self { work, force: false, cascade: false, include, exclude, parallelism: 1, run, origin }
    }
}

/// Restores a backup into a server that is started for it in the work directory, and compares. Returns the number of rows.
pub async fn verify(work: &Path, manifest: &Manifest) -> Result<u64, Error> {
    let fetched = Fetched::read(work, manifest)?;
    if manifest.kind == "mysql" { mysql::verify(&fetched, work).await } else { postgres::verify(&fetched, work).await }
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_api::databasebackup::Method;

    fn account(side: Side, kind: &'static str) -> Account {
        Account { database: Some("shop".into()), ..Account::of_tests(side, kind, "backup") }
    }

    #[test]
    fn who_cannot_log_in_is_told_the_field_to_mend() {
        let (postgresql, mysql) = (account(Side::Source, "postgresql"), account(Side::Target, "mysql"));
        for (account, output, begin) in [
            (
                &postgresql,
                "FATAL:  password authentication failed for user \"backup\"",
                "source.postgresql.authSecretName:",
            ),
            (
                &postgresql,
                "FATAL:  database \"shop\" does not exist",
                "source.postgresql.database: there is no database shop",
            ),
            (&postgresql, "error connecting to server: Connection refused (os error 111)", "source.postgresql.host:"),
            (
                &postgresql,
                "error connecting to server: failed to lookup address information: Name or service not known",
                "source.postgresql.host:",
            ),
            (&postgresql, "timeout expired", "source.postgresql.host:"),
            (&postgresql, "invalid configuration: password missing", "source.postgresql.authSecretName:"),
            (
                &postgresql,
                "error performing TLS handshake: server does not support TLS",
                "source.postgresql.tlsSecretName:",
            ),
            (
                &postgresql,
                "error performing TLS handshake: invalid peer certificate: UnknownIssuer",
                "source.postgresql.tlsSecretName:",
            ),
            (
                &postgresql,
                "error communicating with the server: received fatal alert: UnknownCA",
                "source.postgresql.tlsSecretName:",
            ),
            (&mysql, "ERROR 1045 (28000): Access denied for user 'backup'@'%'", "target.mysql.authSecretName:"),
            (
                &mysql,
                "ERROR 3159 (08004): Connections using insecure transport are prohibited",
                "target.mysql.tlsSecretName:",
            ),
            (
                &mysql,
                "ERROR 2026 (HY000): SSL connection error: error:030000EA:digital envelope routines::provider signature failure",
                "target.mysql.tlsSecretName:",
            ),
            (
                &postgresql,
                "error performing TLS handshake: invalid peer certificate: NotValidForName",
                "source.postgresql.host: the server's certificate is not for this name",
            ),
            (&mysql, "ERROR 1049 (42000): Unknown database 'shop'", "target.mysql.database:"),
            (&mysql, "ERROR 2002 (HY000): Can't connect to server on 'db' (115)", "target.mysql.host:"),
        ] {
            let description = account.refused(&Failure::Ended("PostgreSQL", output.into())).to_string();
            assert!(description.contains(&format!("spec.{begin}")) && description.contains(output), "{description}");
        }
        let description =
            postgresql.refused(&Failure::Ended("PostgreSQL", "FATAL:  sorry, too many clients already".into()));
        assert!(description.to_string().contains("db:5432 (PostgreSQL: FATAL"), "{description}");
    }

    #[test]
    fn an_incomplete_secret_is_reported_with_its_field() {
        let directory = std::env::temp_dir().join(format!("causeway-sql-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let server = SqlServer {
            host: "db".into(),
            port: 1,
            database: None,
            login: directory.clone(),
            tls: Some(directory.clone()),
            method: Method::Dump,
        };
        let description = || Account::read(Side::Source, "mysql", &server).map(drop).unwrap_err().to_string();
        let login = "make the Secret that spec.source.mysql.authSecretName names, or add the key";
        assert!(description().contains(&format!("key password is missing: {login}")), "{}", description());
        std::fs::write(directory.join("password"), "hunter2").unwrap();
        assert!(description().contains(&format!("key username is missing: {login}")), "{}", description());
        std::fs::write(directory.join("username"), "backup").unwrap();
        assert!(
            description().contains("key ca.crt is missing: make the Secret that spec.source.mysql.tlsSecretName"),
            "{}",
            description()
        );
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
