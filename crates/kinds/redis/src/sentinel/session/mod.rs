//! The answers to one client. Pure: where the node beside this sentinel must be asked, the caller does that.
//!
//! The commands are those that clients need to find the master and to learn of another one. Commands that change
//! something, or ask for a failover, are refused: Causeway decides that.
//! <https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/#sentinel-api>

use super::command;
use super::reply::{Protocol, Reply};
use super::request::Request;
use super::subscriptions::{Kind, Subscriptions};
use super::view::View;

/// The settings, which do not change while the program runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name by which clients call the master.
    pub name: String,
    /// The port of nodes.
    pub port: u16,
    /// The host at which clients reach the replicas that have all data.
    pub replicas: String,
    /// The name of this sentinel, of 40 hexadecimal digits.
    pub id: String,
    /// True if clients must give a password.
    pub auth: bool,
}

/// The state of one client.
#[derive(Debug, Default)]
pub struct Session {
    /// The number of the client.
    pub number: i64,
    /// The version of the protocol that it speaks.
    pub protocol: Protocol,
    /// True once it gave the right password.
    pub known: bool,
    /// The channels that it listens to.
    pub subscriptions: Subscriptions,
}

/// The next step after a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Send these answers.
    Reply(Vec<Reply>),
    /// Send this answer, and hang up.
    End(Reply),
    /// Ask the node whether that password is right, and then [`Session::let_in`].
    Check(Check),
}

/// A password to check, and the client's protocol.
#[derive(PartialEq, Eq)]
pub struct Check {
    /// The password that was given.
    pub password: String,
    /// The version of the protocol that the client wants to speak from then on, if it logs in by `HELLO`. It gets a
    /// greeting.
    hello: Option<Protocol>,
}

/// Leaves out the password: checks are logged.
impl std::fmt::Debug for Check {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Check({:?})", self.hello)
    }
}

/// The node's verdict on a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The password is right.
    Right,
    /// The password is wrong.
    Wrong,
    /// The node does not answer.
    Unknown,
}

impl From<Reply> for Next {
    fn from(reply: Reply) -> Self {
        Self::Reply(vec![reply])
    }
}

/// Makes an error with the usual code.
pub fn error(words: impl AsRef<str>) -> Reply {
    Reply::Error(format!("ERR {}", words.as_ref()))
}

fn wrong_count(command: &str) -> Reply {
    error(format!("wrong number of arguments for '{}' command", command.to_lowercase()))
}

/// Returns a word of a client in a form that is safe to show.
pub fn printable_word(word: &[u8]) -> String {
    word.iter().take(64).map(|byte| if byte.is_ascii_graphic() { char::from(*byte) } else { '?' }).collect()
}

impl Session {
    /// Decides how to answer a request, by what is known.
    pub fn answer(&mut self, request: &Request, settings: &Settings, view: &View) -> Next {
        let Some((command, words)) = request.split_first() else { return Next::Reply(Vec::new()) };
        let command = printable_word(command).to_uppercase();
        match command.as_str() {
            "QUIT" => return Next::End(Reply::OK),
            "AUTH" => return Self::authenticate(words, settings),
            "HELLO" => return self.hello(words, settings),
            _ if settings.auth && !self.known => {
                return Reply::Error("NOAUTH Authentication required.".into()).into();
            }
            _ => {}
        }
        let listens = !self.subscriptions.is_empty() && self.protocol == Protocol::Two;
        match (command.as_str(), words) {
            ("PING", []) if listens => Reply::List(vec![Reply::text("pong"), Reply::text("")]).into(),
            ("PING", [text]) if listens => Reply::List(vec![Reply::text("pong"), Reply::Text(text.clone())]).into(),
            ("PING", []) => Reply::Word("PONG").into(),
            ("PING", [text]) => Reply::Text(text.clone()).into(),
            ("SUBSCRIBE", [_, ..]) => Next::Reply(self.subscriptions.add(Kind::Channel, words, view)),
            ("PSUBSCRIBE", [_, ..]) => Next::Reply(self.subscriptions.add(Kind::Pattern, words, view)),
            ("UNSUBSCRIBE", _) => Next::Reply(self.subscriptions.remove(Kind::Channel, words)),
            ("PUNSUBSCRIBE", _) => Next::Reply(self.subscriptions.remove(Kind::Pattern, words)),
            _ if listens => error(format!(
                "Can't execute '{}': only (P)SUBSCRIBE / (P)UNSUBSCRIBE / PING / QUIT are allowed in this context",
                command.to_lowercase()
            ))
            .into(),
            ("SENTINEL", [subcommand, words @ ..]) => command::answer(subcommand, words, settings, view).into(),
            ("INFO", _) => Reply::text(command::info(settings, view)).into(),
            ("CLIENT", [subcommand, words @ ..]) => self.client(subcommand, words).into(),
            ("COMMAND", _) => Reply::List(Vec::new()).into(),
            ("PING" | "SUBSCRIBE" | "PSUBSCRIBE" | "SENTINEL" | "CLIENT", _) => wrong_count(&command).into(),
            _ => error(format!("unknown command '{}'", command.to_lowercase())).into(),
        }
    }

    /// Answers after the node was asked for a password.
    pub fn let_in(&mut self, check: &Check, verdict: Verdict, settings: &Settings) -> Reply {
        match verdict {
            Verdict::Wrong => wrong_password(),
            // Clients then try another sentinel, and later this one again.
            Verdict::Unknown => Reply::Error("LOADING the node beside this sentinel does not answer".into()),
            Verdict::Right => {
                self.known = true;
                check.hello.map_or(Reply::OK, |protocol| self.greet(protocol, settings))
            }
        }
    }

    fn authenticate(words: &[Vec<u8>], settings: &Settings) -> Next {
        match words {
            [_] if !settings.auth => error(
                "AUTH <password> called without any password configured for the default user. Are you sure your \
                 configuration is correct?",
            )
            .into(),
            [password] => check(b"default", password, None, settings),
            [user, password] => check(user, password, None, settings),
            _ => wrong_count("auth").into(),
        }
    }

    /// `HELLO [version [AUTH user password] [SETNAME name]]`
    fn hello(&mut self, words: &[Vec<u8>], settings: &Settings) -> Next {
        let (protocol, mut options) = match words {
            [] => (self.protocol, words),
            [version, options @ ..] => match version.as_slice() {
                b"2" => (Protocol::Two, options),
                b"3" => (Protocol::Three, options),
                _ => return Reply::Error("NOPROTO unsupported protocol version".into()).into(),
            },
        };
        let mut login = None;
        while !options.is_empty() {
            options = match options {
                [option, user, password, rest @ ..] if option.eq_ignore_ascii_case(b"auth") => {
                    login = Some((user, password));
                    rest
                }
                [option, _, rest @ ..] if option.eq_ignore_ascii_case(b"setname") => rest,
                _ => return error("Syntax error in HELLO").into(),
            };
        }
        match login {
            Some((user, password)) => match check(user, password, Some(protocol), settings) {
                // If clients need no password, any is right.
                Next::Reply(replies) if replies == [Reply::OK] => self.greet(protocol, settings).into(),
                next => next,
            },
            None if settings.auth && !self.known => Reply::Error(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> \
                 <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
                    .into(),
            )
            .into(),
            None => self.greet(protocol, settings).into(),
        }
    }

    fn greet(&mut self, protocol: Protocol, settings: &Settings) -> Reply {
        self.protocol = protocol;
        Reply::Map(vec![
            ("server", Reply::text("redis")),
            ("version", Reply::text(command::VERSION)),
            ("proto", Reply::Number(protocol.number())),
            ("id", Reply::Number(self.number)),
            ("mode", Reply::text("sentinel")),
            ("run_id", Reply::text(settings.id.clone())),
            ("modules", Reply::List(Vec::new())),
        ])
    }

    fn client(&self, subcommand: &[u8], words: &[Vec<u8>]) -> Reply {
        match (printable_word(subcommand).to_uppercase().as_str(), words) {
            ("SETNAME", [_]) | ("SETINFO", [_, _]) => Reply::OK,
            ("ID", []) => Reply::Number(self.number),
            (subcommand, _) => error(format!("unknown subcommand or wrong number of arguments for '{subcommand}'")),
        }
    }
}

/// All clients log in as the user `default`.
fn check(user: &[u8], password: &[u8], hello: Option<Protocol>, settings: &Settings) -> Next {
    match std::str::from_utf8(password) {
        _ if user != b"default" => wrong_password().into(),
        _ if !settings.auth => Reply::OK.into(),
        Ok(password) => Next::Check(Check { password: password.to_owned(), hello }),
        Err(_) => wrong_password().into(),
    }
}

fn wrong_password() -> Reply {
    Reply::Error("WRONGPASS invalid username-password pair or user is disabled.".into())
}

#[cfg(test)]
mod tests;
