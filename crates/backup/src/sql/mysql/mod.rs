//! MySQL and MariaDB, with their own programs for dumps and their client.

mod accounts;
mod definers;
mod definition;
mod demands;
mod events;
mod hooks;
mod mark;
mod outlook;
mod packet;
mod part;
mod restore;
mod rights;
mod rows;
mod scratch;
mod sections;
mod settings;
mod source;
mod statements;

pub use hooks::run as run_hooks;
pub use outlook::outlook;
pub use restore::restore;
pub use scratch::verify;
pub use source::MysqlDump;

use std::fs::File;
use std::path::Path;
use std::process::Stdio;

use super::child::{Child, Failure, Program};
use super::{Account, CONNECT_TIMEOUT, PROGRAM_SILENCE_TIMEOUT};
use crate::Error;

/// Databases of the server itself.
const SYSTEM: &str = "'mysql', 'information_schema', 'performance_schema', 'sys', 'causeway_restore'";
/// Table with the restore's name in a target that is being restored. Also the database that holds it if several are restored.
const MARK: &str = "causeway_restore";

/// The programs of an image.
#[derive(Clone, Debug)]
struct Tools {
    account: Account,
    /// True if they are MariaDB's.
    maria: bool,
    client: &'static str,
    dump: &'static str,
    /// The statement that makes the settings of a session; empty for those that the server gives.
    session: String,
    /// True if the program that dumps makes the same settings.
    sets_up_dump: bool,
}

impl Tools {
    /// Finds the programs. Those of later versions of MariaDB have names of their own.
    async fn find(account: Account) -> Result<Self, Error> {
        let (client, message) = match version("mariadb").await {
            Err(Error::ToolMissing(_)) => ("mysql", version("mysql").await?),
            message => ("mariadb", message?),
        };
        let dump = if client == "mariadb" { "mariadb-dump" } else { "mysqldump" };
        let (maria, session) = (message.contains("MariaDB"), settings::OPEN.into());
        Ok(Self { account, maria, client, dump, session, sets_up_dump: false })
    }

    /// Those of MariaDB, for tests that start none.
    #[cfg(test)]
    fn of_tests(account: Account) -> Self {
        let session = String::new();
        Self { account, maria: true, client: "mariadb", dump: "mariadb-dump", session, sets_up_dump: false }
    }

    /// One of the programs, set up to talk to the server. The password is in its environment.
    fn program(&self, name: &'static str) -> Program {
        let account = &self.account;
        let mut program = Program::new(name).args(["--no-defaults", "--default-character-set=utf8mb4"]);
        program = program.args([format!("--user={}", account.user()), "--max-allowed-packet=1G".into()]);
        program = if account.host.starts_with('/') {
            program.args([format!("--socket={}", account.host)])
        } else {
            let place = [format!("--host={}", account.host), format!("--port={}", account.port)];
            program.args(place).args(["--protocol=tcp"])
        };
        program.args(self.tls()).secret("MYSQL_PWD", &account.login.password)
    }

    /// The client for statements from a file. Its own commands, such as for the shell, are disabled, because a dump needs none.
    /// A dump of MariaDB begins with one that enables the sandbox, so there `--binary-mode` is not used.
    fn reader(&self) -> Program {
        let closed = if self.maria { "--loose-sandbox" } else { "--binary-mode" };
        self.client().args(["--batch", "--local-infile=0", closed])
    }

    /// The client, with the settings of a session.
    fn client(&self) -> Program {
        let first = (!self.session.is_empty()).then(|| format!("--init-command={}", self.session));
        self.program(self.client).args(first)
    }

    /// Starts the client with a script. It comes from a file, because arguments are limited in size and visible to others.
    fn start(&self, work: &Path, text: &str, arguments: &[&str]) -> Result<Child, Error> {
        let path = work.join("script.sql");
        let failed = |source| Error::Work { path: path.clone(), source };
        std::fs::write(&path, text).map_err(failed)?;
        let file = File::open(&path).map_err(failed)?;
        std::fs::remove_file(&path).map_err(failed)?;
        self.reader().args(["--skip-reconnect"]).args(arguments).start(Stdio::from(file))
    }

    /// Runs a script. Returns what was printed, and how it ended.
    async fn script(
        &self,
        work: &Path,
        text: &str,
        arguments: &[&str],
    ) -> Result<(String, Result<(), Failure>), Error> {
        let mut child = self.start(work, text, arguments)?;
        let mut printed = Vec::new();
        let end = loop {
            match child.next(PROGRAM_SILENCE_TIMEOUT).await {
                Ok(Some(chunk)) => printed.extend_from_slice(&chunk),
                Ok(None) => break child.end(PROGRAM_SILENCE_TIMEOUT).await,
                Err(failure) => break Err(failure),
            }
        };
        Ok((String::from_utf8_lossy(&printed).into_owned(), end))
    }

    /// Reports whether the server's event scheduler is on.
    async fn runs_events(&self) -> Result<bool, Error> {
        Ok(self.ask("SELECT @@GLOBAL.event_scheduler").await?.first().is_some_and(|it| it == "ON"))
    }

    /// Turns the server's event scheduler on or off. Returns whether this user may do that.
    async fn run_events(&self, on: bool) -> Result<bool, Error> {
        let (on, off) = if on { ("ON", "OFF") } else { ("OFF", "ON") };
        let set = self.answer(&format!("SET GLOBAL event_scheduler = {on}")).await?;
        if let Err(failure) = &set {
            tracing::warn!(%failure, "event_scheduler stays {off}: an event may change what is restored before it is compared");
        }
        Ok(set.is_ok())
    }

    fn tls(&self) -> Vec<String> {
        let Some(tls) = &self.account.tls else {
            // Without a CA the certificate cannot be verified. Without TLS, MySQL's passwords need the server's public key.
            let open = if self.maria { "--skip-ssl-verify-server-cert" } else { "--get-server-public-key" };
            return vec![open.into()];
        };
        let check = if self.maria { "--ssl-verify-server-cert" } else { "--ssl-mode=VERIFY_IDENTITY" };
        let mut arguments = vec![check.to_owned(), format!("--ssl-ca={}", tls.authority.display())];
        if let Some((certificate, key)) = &tls.identity {
            arguments.push(format!("--ssl-cert={}", certificate.display()));
            arguments.push(format!("--ssl-key={}", key.display()));
        }
        arguments
    }

    /// Runs a statement, and returns its rows, which must have one column. Names in a statement must be written with [`hex`].
    async fn ask(&self, statement: &str) -> Result<Vec<String>, Error> {
        self.answer(statement).await?.map_err(|failure| self.account.side.failed(&failure))
    }

    async fn answer(&self, statement: &str) -> Result<Result<Vec<String>, Failure>, Error> {
        let arguments = ["--batch", "--skip-column-names", "--execute", statement];
        let program = self.client().args([format!("--connect-timeout={}", CONNECT_TIMEOUT.as_secs())]).args(arguments);
        let message = program.run(Stdio::null(), PROGRAM_SILENCE_TIMEOUT).await?;
        Ok(message.map(|text| text.lines().map(str::to_owned).collect()))
    }

    /// Logs in, and returns the server's version.
    async fn log_in(&self) -> Result<String, Error> {
        let message = self.answer("SELECT VERSION()").await?.map_err(|failure| self.account.refused(&failure))?;
        if let Some(name) = &self.account.database {
            let there = self.answer(&format!("USE {}", quoted(name))).await?;
            if self.account.side == super::Side::Source {
                there.map_err(|failure| self.account.refused(&failure))?;
            }
        }
        Ok(message.into_iter().next().unwrap_or_default())
    }

    /// Databases that are not the server's own.
    async fn databases(&self) -> Result<Vec<String>, Error> {
        let query = format!(
            "SELECT HEX(schema_name) FROM information_schema.schemata WHERE schema_name NOT IN ({SYSTEM}) ORDER BY \
             schema_name"
        );
        Ok(self.ask(&query).await?.iter().map(|name| text(name)).collect())
    }

    /// A dump of these databases at one instant. Unless `alone` is set, it has the statements that make and choose them.
    fn dump(&self, databases: &[String], alone: bool, data_only: bool) -> Program {
        let mut program = self.program(self.dump);
        program = program.args(self.sets_up_dump.then(|| format!("--init-command={}", self.session)));
        program = program.args(["--single-transaction", "--quick", "--hex-blob", "--no-tablespaces", "--comments"]);
        // A table whose default is `nextval` of a sequence cannot be written under the lock of that table alone (1100).
        program = program.args(["--skip-add-locks"]);
        let ignored = databases.iter().map(|name| format!("--ignore-table={name}.{MARK}"));
        program = program.args(ignored);
        program = if data_only {
            program.args(["--no-create-info", "--no-create-db", "--skip-triggers"])
        } else {
            program.args(["--routines", "--events", "--triggers"])
        };
        if !self.maria {
            // A server that has GTIDs already refuses a dump that sets some.
            program = program.args(["--set-gtid-purged=OFF"]);
        }
        // Whatever a database is called, its name is no option: everything after `--` is a name.
        program.args((!alone).then_some("--databases")).args(["--"]).args(databases)
    }
}

async fn version(name: &'static str) -> Result<String, Error> {
    let message = Program::new(name).args(["--version"]).run(Stdio::null(), PROGRAM_SILENCE_TIMEOUT).await?;
    message.map_err(|failure| Error::SourceFailed(failure.to_string()))
}

/// An identifier in the form for statements.
fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A text in a form for statements that does not depend on how the server reads backslashes.
fn literal(text: &str) -> String {
    let digits = hex::encode(text);
    if digits.is_empty() { "''".into() } else { format!("CONVERT(0x{digits} USING utf8mb4)") }
}

/// The text that `HEX` encoded.
fn text(digits: &str) -> String {
    String::from_utf8_lossy(&hex::decode(digits).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::Side;
    use super::*;

    #[test]
    fn names_of_databases_are_no_options_of_a_dump() {
        let tools = Tools::of_tests(Account::of_tests(Side::Source, "mysql", "u"));
        let names = ["-d", "--host=evil", "shop"].map(str::to_owned);
        for (alone, end) in [(false, &["--databases", "--"][..]), (true, &["--"])] {
            for data_only in [false, true] {
                let arguments = tools.dump(&names, alone, data_only).arguments();
                let (options, given) = arguments.split_at(arguments.len() - names.len());
                assert!(
                    given == names && options.ends_with(&end.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>())
                );
                assert_eq!(options.iter().filter(|it| *it == "--databases").count(), usize::from(!alone));
            }
        }
    }

    #[test]
    fn a_dump_gets_session_settings_if_its_program_can() {
        let tools = Tools::of_tests(Account::of_tests(Side::Source, "mysql", "u"));
        let arguments = |sets_up_dump| {
            let tools = Tools { sets_up_dump, session: settings::OPEN.into(), ..tools.clone() };
            tools.dump(&["shop".to_owned()], true, false).arguments()
        };
        let first = format!("--init-command={}", settings::OPEN);
        assert!(arguments(true).contains(&first) && !arguments(false).contains(&first));
    }

    #[test]
    fn names_come_and_go_unharmed() {
        assert_eq!(quoted("a`b"), "`a``b`");
        assert_eq!(text("73686F70"), "shop");
        assert_eq!(literal("o'k\\"), "CONVERT(0x6f276b5c USING utf8mb4)");
        assert_eq!(literal(""), "''");
    }
}
