//! Connects to PostgreSQL, with the settings that its own programs get, and explains errors in their words.

use std::error::Error as _;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::{Client, Config};

use super::super::child::Failure;
use super::super::{Account, CONNECT_TIMEOUT};
use super::{options, tls};

/// The name of the server in messages.
pub const SERVER: &str = "PostgreSQL";
/// The longest time until the login is done, at the first of the host's addresses that answers.
const LOG_IN_TIMEOUT: Duration = CONNECT_TIMEOUT.saturating_mul(3);
/// Lines of an error that are kept, and characters of each.
const LINES: usize = 12;
const LONGEST: usize = 300;
/// The beginning of the crate's messages about a failed handshake.
const NO_TLS: &str = "error performing TLS handshake";

/// The task that reads and writes the socket until the connection ends.
pub type Driver = JoinHandle<Result<(), tokio_postgres::Error>>;

/// Connects and logs in.
pub async fn connect(account: &Account, database: &str) -> Result<(Client, Driver), Failure> {
    let failed = |words: String| Failure::Ended(SERVER, masked(words, account));
    let tls = tls::connector(account.tls.as_ref()).map_err(failed)?;
    let config = config(account, database);
    let connected = async {
        let first = match config.connect(tls.clone()).await {
            Err(error) if config.get_ssl_mode() == SslMode::Prefer && may_take_plain(&error) => error,
            connected => return connected.map_err(|error| explain(&error)),
        };
        let again = config.clone().ssl_mode(SslMode::Disable).connect(tls).await;
        again.map_err(|error| format!("{}; without TLS: {}", explain(&first), explain(&error)))
    };
    let connected = timeout(LOG_IN_TIMEOUT, connected).await.unwrap_or_else(|_| Err("timeout expired".into()));
    let (client, connection) = connected.map_err(failed)?;
    Ok((client, tokio::spawn(connection)))
}

/// Where to connect to, and with which settings. <https://www.postgresql.org/docs/current/libpq-connect.html>
fn config(account: &Account, database: &str) -> Config {
    let mut config = Config::new();
    config.host(&account.host).port(account.port).user(account.user()).dbname(database);
    config.application_name("causeway").options(options(account)).connect_timeout(CONNECT_TIMEOUT);
    config.ssl_mode(match &account.tls {
        Some(_) => SslMode::Require,
        // A socket in the file system has no TLS.
        None if account.host.starts_with('/') => SslMode::Disable,
        None => SslMode::Prefer,
    });
    if !account.login.password.is_empty() {
        config.password(&account.login.password);
    }
    config
}

/// Reports whether a server that was tried with TLS may be tried without it. A password that it refused is not sent once more
/// in the clear.
fn may_take_plain(error: &tokio_postgres::Error) -> bool {
    // Servers end this message by how they were called, before version 14 in other words.
    let lacks_entry = |error: &DbError| {
        let message = error.message();
        let is_plain = ["no encryption", "SSL off"].iter().any(|end| message.ends_with(end));
        *error.code() == SqlState::INVALID_AUTHORIZATION_SPECIFICATION && message.contains("pg_hba.conf") && !is_plain
    };
    error.as_db_error().map_or_else(|| error.to_string().starts_with(NO_TLS), lacks_entry)
}

/// An error on one line: the server's in the form in which its own programs print it, others with their causes.
pub fn explain(error: &tokio_postgres::Error) -> String {
    if let Some(error) = error.as_db_error() {
        return told(error);
    }
    if error.is_closed() {
        return "server closed the connection unexpectedly".into();
    }
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    shortened(&words)
}

fn told(error: &DbError) -> String {
    let severity = error.parsed_severity().map_or_else(|| error.severity().to_owned(), |it| it.to_string());
    let more = [("DETAIL", error.detail()), ("HINT", error.hint()), ("CONTEXT", error.where_())];
    let more = more.into_iter().filter_map(|(name, text)| Some(format!("\n{name}:  {}", text?)));
    shortened(&format!("{severity}:  {}{}", error.message(), more.collect::<String>()))
}

fn shortened(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(LINES);
    lines.map(|line| line.chars().take(LONGEST).collect::<String>()).collect::<Vec<_>>().join("; ")
}

/// Words without the password of an account.
pub fn masked(words: String, account: &Account) -> String {
    let password = &account.login.password;
    if password.is_empty() { words } else { words.replace(password, "***") }
}

#[cfg(test)]
pub mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio_postgres::config::{ChannelBinding, Host};

    use super::super::super::{Side, Tls};
    use super::*;

    /// A message of the server. <https://www.postgresql.org/docs/current/protocol-message-formats.html>
    pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap();
        [&[kind], length.to_be_bytes().as_slice(), body].concat()
    }

    /// An error of the server.
    pub fn error(severity: &str, code: &str, text: &str, detail: &str) -> Vec<u8> {
        message(b'E', format!("S{severity}\0V{severity}\0C{code}\0M{text}\0D{detail}\0\0").as_bytes())
    }

    /// The server's answer to a good log-in, by its process 7 with the key 11.
    pub fn welcome() -> Vec<u8> {
        [message(b'R', &[0; 4]), message(b'K', &[0, 0, 0, 7, 0, 0, 0, 11]), message(b'Z', b"I")].concat()
    }

    /// Reads a request of the client, whose first messages have no kind.
    pub async fn read(stream: &mut TcpStream, has_kind: bool) -> Vec<u8> {
        if has_kind {
            stream.read_u8().await.unwrap();
        }
        let length = stream.read_u32().await.unwrap() as usize - 4;
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        body
    }

    /// Takes a connection of a client that prefers TLS up to its log-in, without TLS.
    pub async fn accept(listener: &TcpListener, prefers_tls: bool) -> (TcpStream, String) {
        let (mut stream, _) = listener.accept().await.unwrap();
        if prefers_tls {
            assert_eq!(read(&mut stream, false).await, 80_877_103_u32.to_be_bytes());
            stream.write_all(b"N").await.unwrap();
        }
        let startup = read(&mut stream, false).await;
        (stream, String::from_utf8_lossy(&startup[4..]).replace('\0', " "))
    }

    /// A server, and the account with which it is reached.
    pub async fn server() -> (TcpListener, Account) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let account = Account::of_tests(Side::Source, "postgresql", "backup");
        (listener, Account { host: "127.0.0.1".into(), port, ..account })
    }

    #[test]
    fn a_connection_is_made_as_the_programs_of_postgresql_make_theirs() {
        let account = Account::of_tests(Side::Source, "postgresql", "backup");
        let made = config(&account, " host=evil sslmode=disable");
        assert_eq!((made.get_hosts(), made.get_ports()), (&[Host::Tcp("db".into())][..], &[5432][..]));
        assert_eq!((made.get_user(), made.get_password()), (Some("backup"), Some(&b"hunter2"[..])));
        assert_eq!(made.get_dbname(), Some(" host=evil sslmode=disable"));
        assert_eq!(made.get_options(), Some(options(&account).as_str()));
        assert_eq!(made.get_connect_timeout(), Some(&CONNECT_TIMEOUT));
        assert_eq!(
            (made.get_ssl_mode(), made.get_channel_binding()),
            (SslMode::Prefer, ChannelBinding::Prefer),
            "TLS is used if the server has it"
        );
        let tls = Some(Tls { authority: "/tls/ca.crt".into(), identity: None });
        let secured = config(&Account { tls, ..account.clone() }, "shop");
        assert_eq!(secured.get_ssl_mode(), SslMode::Require);
    }

    #[test]
    fn a_throw_away_server_is_reached_at_its_socket_without_a_password() {
        let account = super::super::scratch::account("/work/1".as_ref(), "postgres");
        let made = config(&account, "postgres");
        assert_eq!(made.get_hosts(), [Host::Unix("/work/1".into())]);
        assert_eq!((made.get_ssl_mode(), made.get_password()), (SslMode::Disable, None));
    }

    #[tokio::test]
    async fn a_server_without_tls_is_taken_unless_there_is_an_authority_for_it() {
        let (listener, account) = server().await;
        let serve = async {
            let (mut stream, startup) = accept(&listener, true).await;
            stream.write_all(&welcome()).await.unwrap();
            (stream, startup)
        };
        let (connected, (_stream, startup)) = tokio::join!(connect(&account, "shop"), serve);
        connected.unwrap();
        for words in ["user backup", "database shop", "application_name causeway", "client_encoding UTF8", "role=none"]
        {
            assert!(startup.contains(words), "{startup}");
        }
        let directory = std::env::temp_dir().join(format!("causeway-postgres-authority-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let authority = directory.join("ca.crt");
        let pem = rcgen::generate_simple_self_signed(["db".to_owned()]).unwrap().cert.pem();
        std::fs::write(&authority, pem).unwrap();
        let secured = Account { tls: Some(Tls { authority, identity: None }), ..account };
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            read(&mut stream, false).await;
            stream.write_all(b"N").await.unwrap();
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await.unwrap();
            rest
        };
        let (refused, rest) = tokio::join!(connect(&secured, "shop"), serve);
        let failure = refused.map(drop).unwrap_err();
        assert!(failure.api_message().contains("TLS"), "{failure}");
        assert_eq!(rest, b"", "nothing is sent in the clear");
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[tokio::test]
    async fn a_server_that_takes_us_only_without_tls_is_tried_without_it() {
        let (listener, account) = server().await;
        let serve = async {
            // A handshake that does not succeed.
            let (mut stream, _) = listener.accept().await.unwrap();
            read(&mut stream, false).await;
            stream.write_all(b"S").await.unwrap();
            drop(stream);
            let (mut stream, _) = accept(&listener, false).await;
            stream.write_all(&welcome()).await.unwrap();
            stream
        };
        let (connected, _stream) = tokio::join!(connect(&account, "shop"), serve);
        connected.unwrap();
    }

    #[tokio::test]
    async fn a_refusal_comes_in_the_servers_words_and_without_the_password() {
        let (listener, account) = server().await;
        let refusals = [
            ("28P01", "password authentication failed for user \"backup\"", "Was it hunter2?\n", "authSecretName"),
            ("28000", "no pg_hba.conf entry for host \"10.0.0.7\", no encryption", "", "tlsSecretName"),
        ];
        for (code, text, detail, field) in refusals {
            let serve = async {
                let (mut stream, _) = accept(&listener, true).await;
                stream.write_all(&error("FATAL", code, text, detail)).await.unwrap();
            };
            let (refused, ()) = tokio::join!(connect(&account, "shop"), serve);
            let failure = refused.map(drop).unwrap_err();
            assert!(failure.api_message().starts_with(&format!("FATAL:  {text}; DETAIL:")), "{failure}");
            assert!(!failure.to_string().contains("hunter2"), "{failure}");
            assert!(account.refused(&failure).to_string().contains(field), "{failure}");
        }
    }

    #[tokio::test]
    async fn a_server_that_nobody_runs_is_told_with_its_field() {
        let (listener, account) = server().await;
        drop(listener);
        let failure = connect(&account, "shop").await.map(drop).unwrap_err();
        let told = account.refused(&failure).to_string();
        assert!(told.contains("spec.source.postgresql.host: no server answers at 127.0.0.1:"), "{told}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_takes_a_connection_and_says_nothing_is_given_up() {
        let (_listener, account) = server().await;
        let failure = connect(&account, "shop").await.map(drop).unwrap_err();
        assert_eq!(failure, Failure::Ended(SERVER, "timeout expired".into()));
    }

    #[test]
    fn what_a_server_says_is_one_line_of_bounded_length() {
        assert_eq!(shortened("ERROR:  a\n  b\n\nc"), "ERROR:  a; b; c");
        assert_eq!(shortened(&"x".repeat(1000)).len(), LONGEST);
        assert_eq!(shortened(&"x\n".repeat(100)).len(), LINES * 3 - 2);
    }
}
