//! Copies keys from one node of Redis into another. Values are passed on as they come: none is held in memory as a whole.

use crate::source::{Link, LinkError, Reply, command};

/// Keys whose values are asked for at once.
const KEYS: usize = 64;
/// Milliseconds to live of a key that may have expired on another node already.
const LASTING_MS: i64 = 60_000;

/// Which of the two nodes failed.
#[derive(Debug)]
pub enum Trouble {
    /// The one that is copied from.
    From(LinkError),
    /// The one that is copied into.
    Into(LinkError),
}

/// How times to live are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// As the instant when a key expires: Redis 7.0 and later.
    Absolute,
    /// As the milliseconds that are left.
    Relative,
}

/// Copies keys of the database that both nodes have selected. Returns how many were copied: a key that expired meanwhile is
/// left out.
pub async fn copy(from: &mut Link, into: &mut Link, keys: &[Vec<u8>], times: Times) -> Result<u64, Trouble> {
    let mut copied = 0;
    for keys in keys.chunks(KEYS) {
        copied += copy_some(from, into, keys, times).await?;
    }
    Ok(copied)
}

async fn copy_some(from: &mut Link, into: &mut Link, keys: &[Vec<u8>], times: Times) -> Result<u64, Trouble> {
    let asked = match times {
        Times::Absolute => b"PEXPIRETIME".as_slice(),
        Times::Relative => b"PTTL",
    };
    let questions = keys.iter().flat_map(|key| [command(&[asked, key]), command(&[b"DUMP".as_slice(), key])]);
    from.send(&questions.collect::<Vec<_>>().concat()).await.map_err(Trouble::From)?;
    let mut sent = 0;
    for key in keys {
        let time = match from.reply().await.map_err(Trouble::From)? {
            Reply::Number(time) => time.max(0),
            reply => return Err(Trouble::From(LinkError::Refused(reply.describe()))),
        };
        let Some(length) = from.length().await.map_err(Trouble::From)? else { continue };
        carry(from, into, key, time, length, times).await?;
        sent += 1;
    }
    into.flush().await.map_err(Trouble::Into)?;
    let mut refusal = None;
    for _ in 0..sent {
        if let Reply::Refusal(message) = into.reply().await.map_err(Trouble::Into)? {
            refusal = Some(message);
        }
    }
    match refusal {
        Some(message) => Err(Trouble::Into(LinkError::Refused(message))),
        None => Ok(sent),
    }
}

/// Passes one value on: `RESTORE key time value REPLACE`, and `ABSTTL` if the time is an instant.
async fn carry(
    from: &mut Link,
    into: &mut Link,
    key: &[u8],
    time: i64,
    length: u64,
    times: Times,
) -> Result<(), Trouble> {
    let (parts, end) = match times {
        Times::Absolute => (6, "\r\n$7\r\nREPLACE\r\n$6\r\nABSTTL\r\n"),
        Times::Relative => (5, "\r\n$7\r\nREPLACE\r\n"),
    };
    let time = time.to_string();
    let mut head = format!("*{parts}\r\n$7\r\nRESTORE\r\n${}\r\n", key.len()).into_bytes();
    head.extend_from_slice(key);
    head.extend_from_slice(format!("\r\n${}\r\n{time}\r\n${length}\r\n", time.len()).as_bytes());
    into.queue(&head).await.map_err(Trouble::Into)?;
    let mut left = length;
    while left > 0 {
        let chunk = from.chunk(left).await.map_err(Trouble::From)?;
        left -= chunk.len() as u64;
        into.queue(&chunk).await.map_err(Trouble::Into)?;
    }
    from.end_of_line().await.map_err(Trouble::From)?;
    into.queue(end.as_bytes()).await.map_err(Trouble::Into)
}

/// Which of the keys a node has.
pub async fn present_of(link: &mut Link, keys: &[Vec<u8>]) -> Result<Vec<bool>, LinkError> {
    let questions: Vec<_> = keys.iter().map(|key| command(&[b"EXISTS".as_slice(), key])).collect();
    link.send(&questions.concat()).await?;
    let mut present = Vec::with_capacity(keys.len());
    for _ in keys {
        present.push(link.reply().await? != Reply::Number(0));
    }
    Ok(present)
}

/// How many of the keys a node has, without those that expire soon: clocks of two nodes may differ.
pub async fn lasting_of(link: &mut Link, keys: &[Vec<u8>]) -> Result<u64, LinkError> {
    let questions: Vec<_> = keys.iter().map(|key| command(&[b"PTTL".as_slice(), key])).collect();
    link.send(&questions.concat()).await?;
    let mut lasting = 0;
    for _ in keys {
        // -1 has no time to live, and -2 is not there.
        let is_lasting = matches!(link.reply().await?, Reply::Number(left) if left == -1 || left > LASTING_MS);
        lasting += u64::from(is_lasting);
    }
    Ok(lasting)
}

/// Unlinks those of the keys that `model` lacks. Returns how many.
pub async fn unlink_lacking(model: &mut Link, from: &mut Link, keys: &[Vec<u8>]) -> Result<u64, Trouble> {
    let present = present_of(model, keys).await.map_err(Trouble::From)?;
    let lacking = keys.iter().zip(present).filter(|(_, present)| !present).map(|(key, _)| key.as_slice());
    let lacking: Vec<&[u8]> = [b"UNLINK".as_slice()].into_iter().chain(lacking).collect();
    if lacking.len() == 1 {
        return Ok(0);
    }
    from.ask(&lacking).await.map_err(Trouble::Into)?;
    Ok(lacking.len() as u64 - 1)
}

/// One step of a SCAN through the selected database: the cursor to go on with, and some keys.
pub async fn scan(link: &mut Link, cursor: &str) -> Result<(String, Vec<Vec<u8>>), LinkError> {
    let reply = link.ask(&["SCAN", cursor, "COUNT", "256"]).await?;
    let strange = || LinkError::Strange("no answer to SCAN".into());
    let Reply::Several(parts) = reply else { return Err(strange()) };
    let [next, Reply::Several(keys)] = parts.as_slice() else { return Err(strange()) };
    let keys = keys.iter().filter_map(|key| if let Reply::Bytes(key) = key { Some(key.clone()) } else { None });
    Ok((next.text(), keys.collect()))
}
