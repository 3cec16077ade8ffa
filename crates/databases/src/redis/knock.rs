//! Comes to a node as a new client, which the node may refuse while it serves those that it has.
//!
//! The answers are read here, line by line, and not by the crate `redis`. A node that takes no more clients sends its error
//! before it is asked anything, and closes the connection. That crate takes the first line for the answer to its first
//! command, so the error would look like a refused login; or its write fails first, and the reason is never read. Here each
//! line counts by its code alone, whichever command it seems to answer, and it is read although the write failed. All answers
//! are single lines: `AUTH`, `EXISTS` and `SETRANGE` return no bulk strings.

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};

use super::commands::{cmd, commands};
use super::error::{RedisError, Trouble};
use super::{Endpoint, Reply, Request};

/// The answers are a line each, and errors are short.
const LONGEST: u64 = 16 << 10;
/// Codes of errors that are about the client. All others are about the data, and say that the client is in.
/// <https://github.com/redis/redis/blob/7.0/src/server.c> (`createSharedObjects`, `processCommand`) and
/// <https://github.com/redis/redis/blob/7.0/src/networking.c> (`acceptCommonHandler`, `clientAcceptHandler`)
const ABOUT_THE_CLIENT: [&str; 5] = ["ERR", "NOAUTH", "WRONGPASS", "NOPERM", "DENIED"];

/// Logs in over a new connection, and reads and writes a key, which changes nothing.
pub async fn come_in<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, to: &Endpoint) -> Result<Reply, RedisError> {
    let request = Request::Knock;
    let mut all = redis::pipe();
    if let Some(login) = &to.login {
        all.add_command(cmd(&["AUTH", &login.user, &login.password]));
    }
    for command in commands(&request) {
        all.add_command(command);
    }
    let expected = all.len();
    // A node that has closed the connection has said why before.
    stream.write_all(&all.get_packed_pipeline()).await.ok();
    stream.flush().await.ok();
    let mut lines = BufReader::new(stream.take(LONGEST)).lines();
    for _ in 0..expected {
        let Ok(Some(line)) = lines.next_line().await else {
            return Err(RedisError::new(request.name(), Trouble::Broken, "the connection ended"));
        };
        if let Some(words) = refusal(&line) {
            return Err(RedisError::new(request.name(), Trouble::Refused, words));
        }
    }
    Ok(Reply::Done)
}

/// The words of an answer that sends the client away.
fn refusal(line: &str) -> Option<&str> {
    let words = line.strip_prefix('-')?;
    let code = words.split(' ').next().unwrap_or_default();
    ABOUT_THE_CLIENT.contains(&code).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::Login;

    /// Knocks at a node that sends these bytes; returns the outcome, and the bytes that the node got.
    async fn met(answers: &str, login: Option<Login>) -> (Result<Reply, (Trouble, String)>, String) {
        let (ours, mut theirs) = tokio::io::duplex(4096);
        let to = Endpoint { address: String::new(), login, tls: None };
        theirs.write_all(answers.as_bytes()).await.unwrap();
        let reader = tokio::spawn(async move {
            let mut asked = vec![0; 4096];
            let length = theirs.read(&mut asked).await.unwrap();
            theirs.shutdown().await.unwrap();
            String::from_utf8_lossy(&asked[..length]).into_owned()
        });
        let met = come_in(ours, &to).await.map_err(|error| (error.trouble, error.message));
        (met, reader.await.unwrap())
    }

    #[tokio::test]
    async fn a_client_that_is_refused_hears_why() {
        let login = || Some(Login { user: "default".into(), password: "secret".into() });
        for (answers, words) in [
            ("-ERR max number of clients reached\r\n", "ERR max number of clients reached"),
            ("-WRONGPASS invalid username-password pair\r\n", "WRONGPASS invalid username-password pair"),
            ("+OK\r\n-NOPERM no permissions\r\n:0\r\n", "NOPERM no permissions"),
            ("+OK\r\n:0\r\n-NOPERM no write\r\n", "NOPERM no write"),
            ("-DENIED Redis is running in protected mode\r\n", "DENIED Redis is running in protected mode"),
        ] {
            let (met, asked) = met(answers, login()).await;
            assert_eq!(met, Err((Trouble::Refused, words.to_owned())), "{answers}");
            assert!(asked.contains("AUTH"), "{asked}");
        }
        let (met, _) = met("", login()).await;
        assert_eq!(met.unwrap_err().0, Trouble::Broken);
    }

    #[tokio::test]
    async fn errors_about_the_data_turn_no_client_away() {
        for answers in [
            ":0\r\n:0\r\n",
            ":1\r\n-WRONGTYPE not text\r\n",
            ":0\r\n-OOM command not allowed\r\n",
            ":0\r\n-READONLY a replica\r\n",
            "-LOADING\r\n-LOADING\r\n",
            "-BUSY a script\r\n-BUSY a script\r\n",
            "-MASTERDOWN Link with MASTER is down\r\n-READONLY a replica\r\n",
        ] {
            let (met, asked) = met(answers, None).await;
            assert_eq!(met, Ok(Reply::Done), "{answers}");
            assert!(!asked.contains("AUTH"), "{asked}");
        }
    }
}
