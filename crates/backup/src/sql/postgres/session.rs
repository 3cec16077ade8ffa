//! A connection to one database of PostgreSQL.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use super::super::child::Failure;
use super::super::{Account, CONNECT_TIMEOUT, PROGRAM_SILENCE_TIMEOUT};
use super::answer::Answer;
use super::connection::{Driver, SERVER, connect, explain, masked};
use super::tls;
use crate::Error;

/// Settings by which values are printed in one form, whatever the settings of the database or the user are.
const SETTINGS: &str = "SET search_path = ''; SET datestyle = ISO; SET intervalstyle = postgres; SET timezone = 'UTC'; \
                        SET bytea_output = hex; SET extra_float_digits = 3; SET row_security = off";
/// Settings that end a connection or a transaction after some time, and that not every version has: 14 and 17 brought them.
/// Ours stay idle while programs load, and hold a snapshot as long as a dump takes.
/// <https://www.postgresql.org/docs/current/runtime-config-client.html>
const TIMEOUTS: [&str; 2] = ["idle_session_timeout", "transaction_timeout"];
/// The longest wait for the reason why a connection is closed.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Objects that neither the server nor an extension made.
pub const OURS: &str = "n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'causeway_restore') AND NOT EXISTS (SELECT 1 FROM \
                    pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND \
                    d.objid = c.oid AND d.deptype = 'e')";
/// The tables that [`OURS`] refers to.
pub const RELATIONS: &str = "pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace";
/// Templates of every server, and the providers' own databases, into which they let no user: of RDS, Cloud SQL and Azure.
/// <https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/Appendix.PostgreSQL.CommonDBATasks.Roles.html>
const NOBODYS: &str =
    "'template0', 'template1', 'rdsadmin', 'cloudsqladmin', 'alloydbadmin', 'azure_maintenance', 'azure_sys'";

/// A connection to one database. It closes when this is dropped.
pub struct Session {
    pub account: Account,
    client: Client,
    /// Taken when the connection is closed.
    driver: Option<Driver>,
    /// True if the server has nothing left to do for us.
    is_idle: bool,
    number: i64,
}

/// Attributes of a user: <https://www.postgresql.org/docs/current/role-attributes.html>.
#[derive(Clone, Copy, Debug)]
pub struct Attributes {
    pub superuser: bool,
    /// True if the user has `BYPASSRLS`. Superusers bypass row security without that.
    pub bypasses_row_security: bool,
}

/// The query that turns [`TIMEOUTS`] off, as far as the server has them.
fn without_timeouts() -> String {
    format!(
        "SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name IN \
         ('{}')",
        TIMEOUTS.join("', '")
    )
}

impl Session {
    /// Logs in, applies the settings by which values are printed in one form, and turns timeouts off.
    pub async fn open(account: &Account, database: &str) -> Result<Self, Error> {
        let mut session = Self::log_in(account, database).await?;
        session.tell(&format!("{SETTINGS}; {}", without_timeouts())).await?;
        Ok(session)
    }

    /// Logs in, with the settings that the server has for this user and this database.
    pub async fn log_in(account: &Account, database: &str) -> Result<Self, Error> {
        let (client, driver) = connect(account, database).await.map_err(|failure| account.refused(&failure))?;
        let account = Account { database: Some(database.to_owned()), ..account.clone() };
        let mut session = Self { account, client, driver: Some(driver), is_idle: true, number: 0 };
        let number = "SELECT pg_catalog.current_setting('server_version_num')::bigint";
        session.number = session.one::<(i64,)>(number).await?.0;
        Ok(session)
    }

    /// Runs statements, whose rows are discarded.
    pub async fn tell(&mut self, statements: &str) -> Result<(), Error> {
        let told = self.carry_out(statements, PROGRAM_SILENCE_TIMEOUT).await;
        told.map_err(|failure| self.account.side.failed(&failure))
    }

    /// Asks for rows.
    pub async fn ask<T: Answer>(&mut self, query: &str) -> Result<Vec<T>, Error> {
        self.ask_about(query, &[]).await
    }

    /// Asks for rows with a query that has `$1` and so on in place of these values.
    pub async fn ask_about<T: Answer>(
        &mut self,
        query: &str,
        values: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<T>, Error> {
        self.found(query, values).await.map_err(|failure| self.account.side.failed(&failure))
    }

    /// Asks for rows, with the failure in the words of the server. It leaves an open transaction of no use.
    pub async fn answer<T: Answer>(&mut self, query: &str) -> Result<Vec<T>, Failure> {
        self.found(query, &[]).await
    }

    async fn found<T: Answer>(
        &mut self,
        query: &str,
        values: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<T>, Failure> {
        self.is_idle = false;
        let found = timeout(PROGRAM_SILENCE_TIMEOUT, self.client.query_typed(query, values)).await;
        let rows = self.settled(found.ok(), PROGRAM_SILENCE_TIMEOUT).await?;
        let rows: Result<Vec<T>, tokio_postgres::Error> = rows.iter().map(T::from_row).collect();
        rows.map_err(|error| Failure::Ended(SERVER, explain(&error)))
    }

    /// Runs statements, whose rows are discarded. They go to the server as one text, of which no line means anything to a client:
    /// what a dump says is untrusted.
    /// <https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-MULTI-STATEMENT>
    pub async fn carry_out(&mut self, statements: &str, limit: Duration) -> Result<(), Failure> {
        self.is_idle = false;
        let done = timeout(limit, self.client.batch_execute(statements)).await;
        self.settled(done.ok(), limit).await
    }

    /// The outcome of a request, which is none if the server did not answer in time.
    async fn settled<T>(
        &mut self,
        outcome: Option<Result<T, tokio_postgres::Error>>,
        limit: Duration,
    ) -> Result<T, Failure> {
        let mut error = match outcome {
            None => return Err(Failure::Silent(SERVER, limit)),
            Some(Ok(value)) => {
                self.is_idle = true;
                return Ok(value);
            }
            Some(Err(error)) => error,
        };
        self.is_idle = error.as_db_error().is_some();
        if error.is_closed()
            && let Some(driver) = self.driver.take()
            && let Ok(Ok(Err(reason))) = timeout(LAST_WORDS, driver).await
        {
            error = reason;
        }
        Err(Failure::Ended(SERVER, masked(explain(&error), &self.account)))
    }

    /// Connects again to the same database.
    pub async fn reopen(&mut self) -> Result<(), Error> {
        let (account, database) = (self.account.clone(), self.account.database.clone().unwrap_or_default());
        *self = Self::open(&account, &database).await?;
        Ok(())
    }

    /// The server's version as a number, such as `150018`.
    pub fn number(&self) -> i64 {
        self.number
    }

    /// The server's version, such as `15.18 (Debian 15.18-0+deb12u1)`.
    pub async fn version(&mut self) -> Result<String, Error> {
        let query = "SELECT pg_catalog.current_setting('server_version')";
        Ok(self.one::<(String,)>(query).await?.0)
    }

    /// The attributes of the user.
    pub async fn attributes(&mut self) -> Result<Attributes, Error> {
        let query = "SELECT rolsuper, rolbypassrls FROM pg_catalog.pg_roles WHERE rolname = \
                     current_user";
        let (superuser, bypasses_row_security) = self.one(query).await?;
        Ok(Attributes { superuser, bypasses_row_security })
    }

    /// When the last transaction was committed that the server replayed during recovery.
    /// <https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-RECOVERY-INFO>
    pub async fn replayed(&mut self) -> Result<Option<Timestamp>, Error> {
        let query = "SELECT pg_catalog.to_char(pg_catalog.pg_last_xact_replay_timestamp() AT TIME \
                     ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')";
        let (instant,): (Option<String>,) = self.one(query).await?;
        Ok(instant.and_then(|instant| instant.parse().ok()))
    }

    /// A superuser who may log in; of several, the oldest one.
    pub async fn superuser(&mut self) -> Result<Option<String>, Error> {
        let query = "SELECT rolname FROM pg_catalog.pg_roles WHERE rolsuper AND rolcanlogin ORDER \
                     BY oid LIMIT 1";
        Ok(self.ask::<(String,)>(query).await?.into_iter().next().map(|(name,)| name))
    }

    /// The setting `max_prepared_transactions`.
    pub async fn prepared_transactions(&mut self) -> Result<String, Error> {
        let query = "SELECT pg_catalog.current_setting('max_prepared_transactions')";
        Ok(self.one::<(String,)>(query).await?.0)
    }

    /// Databases by name, each with whether this user may connect to it. Templates of every server and databases of providers
    /// are left out.
    pub async fn databases(&mut self) -> Result<Vec<(String, bool)>, Error> {
        let query = format!(
            "SELECT datname, datallowconn AND pg_catalog.has_database_privilege(oid, 'CONNECT') \
             FROM pg_catalog.pg_database WHERE datname NOT IN ({NOBODYS}) ORDER BY datname"
        );
        self.ask(&query).await
    }

    /// Extensions that the server can make.
    pub async fn extensions(&mut self) -> Result<BTreeSet<String>, Error> {
        let query = "SELECT name FROM pg_catalog.pg_available_extensions";
        Ok(self.ask::<(String,)>(query).await?.into_iter().map(|(name,)| name).collect())
    }

    /// Roles, as statements name them.
    pub async fn roles(&mut self) -> Result<Vec<String>, Error> {
        let query = "SELECT pg_catalog.quote_ident(rolname) FROM pg_catalog.pg_roles";
        Ok(self.ask::<(String,)>(query).await?.into_iter().map(|(name,)| name).collect())
    }

    /// How many tables, views and sequences there are that neither the server nor an extension made.
    pub async fn relations(&mut self) -> Result<u64, Error> {
        let query = format!(
            "SELECT pg_catalog.count(*) FROM {RELATIONS} WHERE c.relkind IN ('r', 'p', 'v', \
             'm', 'S', 'f') AND {OURS}"
        );
        Ok(self.one::<(u64,)>(&query).await?.0)
    }

    /// Reports whether the database is as `CREATE DATABASE` left it: the user's own, without rights, settings and comment.
    pub async fn is_bare(&mut self) -> Result<bool, Error> {
        let query = "SELECT pg_catalog.pg_get_userbyid(d.datdba) = current_user AND d.datacl IS NULL \
                     AND d.datconnlimit = -1 AND NOT d.datistemplate AND pg_catalog.shobj_description(d.oid, 'pg_database') \
                     IS NULL AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_db_role_setting s WHERE s.setdatabase = d.oid) FROM \
                     pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()";
        Ok(self.one::<(bool,)>(query).await?.0)
    }

    /// Tables that hold rows, as statements name them.
    pub async fn table_names(&mut self) -> Result<Vec<String>, Error> {
        let query = format!(
            "SELECT pg_catalog.format('%I.%I', n.nspname, c.relname) FROM {RELATIONS} WHERE \
             c.relkind = 'r' AND {OURS} ORDER BY n.nspname, c.relname"
        );
        Ok(self.ask::<(String,)>(&query).await?.into_iter().map(|(name,)| name).collect())
    }

    /// The first row.
    pub async fn one<T: Answer>(&mut self, query: &str) -> Result<T, Error> {
        let first = self.ask(query).await?.into_iter().next();
        let failure = || Failure::Ended(SERVER, "the server gave no answer".into());
        first.ok_or_else(|| self.account.side.failed(&failure()))
    }
}

impl Drop for Session {
    /// Says goodbye. If the server is still at work, the connection is cut, as a goodbye would come after that, and a connection of
    /// its own asks the server to stop: it would work on until it has something to send.
    /// <https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-CANCELING-REQUESTS>
    fn drop(&mut self) {
        let Some(driver) = self.driver.take_if(|_| !self.is_idle) else { return };
        driver.abort();
        if let (Ok(runtime), Ok(tls)) = (Handle::try_current(), tls::connector(self.account.tls.as_ref())) {
            let token = self.client.cancel_token();
            runtime.spawn(timeout(CONNECT_TIMEOUT, async move { token.cancel_query(tls).await }));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::super::connection::tests::{accept, error, message, read, server, welcome};
    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    /// A session with a server that the test plays.
    async fn session() -> (Session, TcpStream) {
        let (session, stream, _) = listened().await;
        (session, stream)
    }

    /// The same, with the listener of that server.
    async fn listened() -> (Session, TcpStream, TcpListener) {
        let (listener, account) = server().await;
        let serve = async {
            let (mut stream, _) = accept(&listener, true).await;
            stream.write_all(&welcome()).await.unwrap();
            stream
        };
        let (connected, stream) = tokio::join!(connect(&account, "shop"), serve);
        let (client, driver) = connected.unwrap();
        (Session { account, client, driver: Some(driver), is_idle: true, number: 150_018 }, stream, listener)
    }

    fn ready() -> Vec<u8> {
        message(b'Z', b"I")
    }

    #[test]
    fn a_connection_of_ours_has_no_timeout_that_would_end_it_or_its_transaction() {
        let query = without_timeouts();
        for name in ["idle_session_timeout", "transaction_timeout"] {
            assert!(query.contains(&format!("'{name}'")), "{query}");
        }
        // On a server without the settings there are no rows, and no error.
        assert!(query.starts_with("SELECT pg_catalog.set_config(name, '0', false) FROM"));
        assert!(super::super::OPTIONS.contains("-c idle_in_transaction_session_timeout=0"));
    }

    #[tokio::test]
    async fn statements_reach_the_server_as_one_text_whatever_they_look_like() {
        let (mut session, mut stream) = session().await;
        let text = "SELECT '$causeway0$'; -- \\! id\n\\! id\n\\connect other";
        let serve = async {
            let sent = read(&mut stream, true).await;
            stream.write_all(&[message(b'C', b"SELECT 1\0"), ready()].concat()).await.unwrap();
            sent
        };
        let (told, sent) = tokio::join!(session.carry_out(text, LIMIT), serve);
        assert_eq!((told, sent), (Ok(()), format!("{text}\0").into_bytes()));
    }

    #[tokio::test]
    async fn rows_come_as_tuples_of_their_columns() {
        let (mut session, mut stream) = session().await;
        let column = |kind: u32| {
            [b"c\0".as_slice(), &[0; 6], &kind.to_be_bytes(), &[0; 2], &(-1_i32).to_be_bytes(), &[0, 1]].concat()
        };
        let described = [column(19), column(20), column(25)].concat();
        let value = |bytes: &[u8]| [u32::try_from(bytes.len()).unwrap().to_be_bytes().as_slice(), bytes].concat();
        let row = [[0, 3].as_slice(), &value(b"caf\xe9"), &value(&7_i64.to_be_bytes()), &[0xff; 4]].concat();
        let answer = [
            message(b'1', b""),
            message(b'2', b""),
            message(b't', &[0; 2]),
            message(b'T', &[[0, 3].as_slice(), &described].concat()),
            message(b'D', &row),
            message(b'C', b"SELECT 1\0"),
            ready(),
        ];
        let answer = answer.concat();
        let serve = async {
            // Parse, Bind, Describe, Execute, Sync.
            for _ in 0..5 {
                read(&mut stream, true).await;
            }
            stream.write_all(&answer).await.unwrap();
        };
        let query = session.ask::<(String, u64, Option<String>)>("SELECT a, b, c FROM t");
        let (found, ()) = tokio::join!(query, serve);
        assert_eq!(found.unwrap(), [("caf\u{FFFD}".to_owned(), 7, None)]);
        let serve = async {
            for _ in 0..5 {
                read(&mut stream, true).await;
            }
            stream.write_all(&answer).await.unwrap();
        };
        let (found, ()) = tokio::join!(session.answer::<(bool, u64, Option<String>)>("SELECT"), serve);
        assert!(found.unwrap_err().api_message().contains("column 0"), "another type");
    }

    #[tokio::test]
    async fn a_statement_that_fails_is_told_in_the_servers_words_and_the_next_one_runs() {
        let (mut session, mut stream) = session().await;
        let serve = async {
            read(&mut stream, true).await;
            let failed = error("ERROR", "42P01", "relation \"t\" does not exist", "hunter2");
            stream.write_all(&[failed, ready()].concat()).await.unwrap();
            read(&mut stream, true).await;
            stream.write_all(&[message(b'C', b"SELECT 1\0"), ready()].concat()).await.unwrap();
        };
        let both = async {
            let first = session.carry_out("TABLE t", LIMIT).await.unwrap_err();
            session.carry_out("SELECT 1", LIMIT).await.unwrap();
            first
        };
        let (failure, ()) = tokio::join!(both, serve);
        assert_eq!(failure.to_string(), "PostgreSQL: ERROR:  relation \"t\" does not exist; DETAIL:  ***");
    }

    #[tokio::test]
    async fn a_connection_that_the_server_closed_is_told_with_its_last_words() {
        let (mut session, mut stream) = session().await;
        let ended = error("FATAL", "57P01", "terminating connection due to administrator command", "");
        stream.write_all(&ended).await.unwrap();
        drop(stream);
        let driver = session.driver.as_ref().unwrap();
        while !driver.is_finished() {
            tokio::task::yield_now().await;
        }
        let failure = session.carry_out("SELECT 1", LIMIT).await.unwrap_err();
        assert!(failure.api_message().starts_with("FATAL:  terminating connection"), "{failure}");
        let failure = session.carry_out("SELECT 1", LIMIT).await.unwrap_err();
        assert_eq!(failure.api_message(), "server closed the connection unexpectedly");
    }

    #[tokio::test]
    async fn a_server_that_does_not_answer_is_left_without_a_goodbye_and_told_to_stop() {
        let (mut session, mut stream, listener) = listened().await;
        let limit = Duration::from_millis(20);
        let failure = session.carry_out("SELECT pg_sleep(60)", limit).await.unwrap_err();
        assert_eq!(failure, Failure::Silent(SERVER, limit));
        read(&mut stream, true).await;
        drop(session);
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"");
        let (mut stream, _) = listener.accept().await.unwrap();
        read(&mut stream, false).await;
        stream.write_all(b"N").await.unwrap();
        let cancel: Vec<u8> = [80_877_102_u32, 7, 11].iter().flat_map(|number| number.to_be_bytes()).collect();
        assert_eq!(read(&mut stream, false).await, cancel);
    }

    #[tokio::test]
    async fn an_idle_server_is_left_with_a_goodbye() {
        let (session, mut stream) = session().await;
        drop(session);
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, message(b'X', b""));
    }
}
