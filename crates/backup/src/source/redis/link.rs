//! A connection to one node of Redis or Valkey, which can also carry values that are too large for memory.
//! <https://redis.io/docs/latest/develop/reference/protocol-spec/>
//!
//! Replies are read here and not by the crate `redis`, which holds each as a whole: a value may have 512 MB, and the answer to
//! `PSYNC` is a stream of gigabytes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_util::bytes::{Bytes, BytesMut};

use super::super::READ_TIMEOUT;
use crate::{Error, secrets};

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(5);
/// Bytes that are read at once.
const READ: usize = 64 * 1024;
/// Bytes of the longest line that is read.
const LINE: usize = 64 * 1024;
/// Bytes, or elements, of the largest reply that is held as a whole.
const HELD: usize = 8 * 1024 * 1024;
/// How deep replies may be nested.
const DEPTH: usize = 4;

/// The reasons why a node did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(#[from] std::io::Error),
    /// Nothing came.
    #[error("nothing came for {} s", READ_TIMEOUT.as_secs())]
    Silent,
    /// The node refused, in its own words.
    #[error("{0}")]
    Refused(String),
    /// The answer is no valid reply.
    #[error("the answer is not understood: {0}")]
    Strange(String),
}

/// A reply of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A word, such as OK.
    Word(String),
    Number(i64),
    Bytes(Vec<u8>),
    Nil,
    Several(Vec<Reply>),
    /// An error, in the node's own words.
    Refusal(String),
}

impl Reply {
    /// The text of bytes or of a word.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Word(text) => text.clone(),
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        }
    }

    /// The text of a refusal, for an error about an unexpected reply.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Refusal(message) => message.clone(),
            _ => "an answer of another kind".into(),
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

pub struct Link {
    stream: Box<dyn Stream>,
    buffer: BytesMut,
    /// Bytes that wait to be sent together.
    queued: Vec<u8>,
}

impl Link {
    /// Connects, and logs in if a login is given.
    pub async fn open(address: &str, tls: Option<&Path>, login: Option<&Path>) -> Result<Self, Error> {
        let refused = |problem: String| Error::SourceUnreachable(format!("{address}: {problem}"));
        let connected = timeout(CONNECT, TcpStream::connect(address)).await;
        let stream = connected.map_err(|_| refused("no answer".into()))?.map_err(|error| refused(error.to_string()))?;
        stream.set_nodelay(true).map_err(|error| refused(error.to_string()))?;
        let stream: Box<dyn Stream> = match tls {
            None => Box::new(stream),
            Some(directory) => {
                let certificates = secrets::certificates(directory)?;
                let config = config(&certificates).map_err(&refused)?;
                let name = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
                let name = ServerName::try_from(name.to_owned()).map_err(|error| refused(error.to_string()))?;
                let shaken = timeout(CONNECT, TlsConnector::from(Arc::new(config)).connect(name, stream)).await;
                let shaken = shaken.map_err(|_| refused("no answer to TLS".into()))?;
                Box::new(shaken.map_err(|error| refused(format!("TLS: {error}")))?)
            }
        };
        let mut link = Self::from_stream(stream);
        if let Some(directory) = login {
            let login = secrets::login(directory)?;
            let mut parts = vec!["AUTH"];
            parts.extend(login.username.as_deref());
            parts.push(&login.password);
            link.ask(&parts).await.map_err(|error| refused(format!("log-in: {error}")))?;
        }
        Ok(link)
    }

    fn from_stream(stream: Box<dyn Stream>) -> Self {
        Self { stream, buffer: BytesMut::with_capacity(READ), queued: Vec::new() }
    }

    /// Sends a command and takes the reply; a refusal is an error.
    pub async fn ask<T: AsRef<[u8]>>(&mut self, parts: &[T]) -> Result<Reply, LinkError> {
        self.send(&command(parts)).await?;
        match self.reply().await? {
            Reply::Refusal(message) => Err(LinkError::Refused(message)),
            reply => Ok(reply),
        }
    }

    /// Sends bytes as they are.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        let sent = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        timeout(READ_TIMEOUT, sent).await.map_err(|_| LinkError::Silent)?.map_err(LinkError::Broken)
    }

    /// Queues bytes. Sends the queue once it has at least 64 KiB.
    pub async fn queue(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        self.queued.extend_from_slice(bytes);
        if self.queued.len() >= READ { self.flush().await } else { Ok(()) }
    }

    /// Sends what is queued.
    pub async fn flush(&mut self) -> Result<(), LinkError> {
        let mut queued = std::mem::take(&mut self.queued);
        self.send(&queued).await?;
        queued.clear();
        self.queued = queued;
        Ok(())
    }

    async fn fill(&mut self) -> Result<(), LinkError> {
        self.buffer.reserve(READ);
        match timeout(READ_TIMEOUT, self.stream.read_buf(&mut self.buffer)).await {
            Ok(Ok(0)) => Err(LinkError::Broken(std::io::ErrorKind::UnexpectedEof.into())),
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(LinkError::Broken(error)),
            Err(_) => Err(LinkError::Silent),
        }
    }

    /// The next line. Skips empty ones, which are keep-alives.
    pub async fn line(&mut self) -> Result<String, LinkError> {
        let mut looked = 0;
        loop {
            if let Some(end) = self.buffer[looked..].iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(looked + end + 1);
                let text = String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned();
                if !text.is_empty() {
                    return Ok(text);
                }
                looked = 0;
                continue;
            }
            looked = self.buffer.len();
            if looked > LINE {
                return Err(LinkError::Strange("a line that does not end".into()));
            }
            self.fill().await?;
        }
    }

    /// At least one and at most `most` bytes, as they come.
    pub async fn chunk(&mut self, most: u64) -> Result<Bytes, LinkError> {
        if self.buffer.is_empty() {
            self.fill().await?;
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Ok(self.buffer.split_to(self.buffer.len().min(most)).freeze())
    }

    /// Reads the line end that follows bytes.
    pub async fn end_of_line(&mut self) -> Result<(), LinkError> {
        while self.buffer.len() < 2 {
            self.fill().await?;
        }
        match &self.buffer.split_to(2)[..] {
            b"\r\n" => Ok(()),
            _ => Err(LinkError::Strange("bytes go on where they should end".into())),
        }
    }

    /// How many bytes the reply has that follows; none for nil.
    pub async fn length(&mut self) -> Result<Option<u64>, LinkError> {
        let line = self.line().await?;
        if let Some(message) = line.strip_prefix('-') {
            return Err(LinkError::Refused(message.to_owned()));
        }
        match line.strip_prefix('$').map(str::parse::<i64>) {
            Some(Ok(length)) => Ok(u64::try_from(length).ok()),
            _ => Err(LinkError::Strange(line)),
        }
    }

    /// A reply that fits into memory.
    pub async fn reply(&mut self) -> Result<Reply, LinkError> {
        self.reply_within(DEPTH).await
    }

    async fn reply_within(&mut self, depth: usize) -> Result<Reply, LinkError> {
        let line = self.line().await?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| LinkError::Strange(line.clone()))?;
        let number = || rest.parse::<i64>().map_err(|_| LinkError::Strange(line.clone()));
        match kind {
            "+" => Ok(Reply::Word(rest.into())),
            "-" => Ok(Reply::Refusal(rest.into())),
            ":" => Ok(Reply::Number(number()?)),
            "$" => match usize::try_from(number()?) {
                Err(_) => Ok(Reply::Nil),
                Ok(length) if length > HELD => Err(LinkError::Strange(format!("a reply of {length} bytes"))),
                Ok(length) => {
                    while self.buffer.len() < length {
                        self.fill().await?;
                    }
                    let bytes = self.buffer.split_to(length).to_vec();
                    self.end_of_line().await?;
                    Ok(Reply::Bytes(bytes))
                }
            },
            "*" => match usize::try_from(number()?) {
                Err(_) => Ok(Reply::Nil),
                Ok(count) if depth == 0 || count > HELD => Err(LinkError::Strange(line)),
                Ok(count) => {
                    let mut several = Vec::new();
                    for _ in 0..count {
                        several.push(Box::pin(self.reply_within(depth - 1)).await?);
                    }
                    Ok(Reply::Several(several))
                }
            },
            _ => Err(LinkError::Strange(line)),
        }
    }
}

/// A command in the form of the protocol.
pub fn command<T: AsRef<[u8]>>(parts: &[T]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", parts.len()).into_bytes();
    for part in parts {
        let part = part.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
        bytes.extend_from_slice(part);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

fn config(certificates: &secrets::Certificates) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(certificates.trusted.as_bytes()) {
        roots
            .add(certificate.map_err(|error| format!("ca.crt: {error}"))?)
            .map_err(|error| format!("ca.crt: {error}"))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?.with_root_certificates(roots);
    let Some((certificate, key)) = &certificates.identity else {
        return Ok(builder.with_no_client_auth());
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect();
    let chain = chain.map_err(|error| format!("tls.crt: {error}"))?;
    // The error must not reveal the key.
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| "tls.key: no private key in PEM".to_owned())?;
    builder.with_client_auth_cert(chain, key).map_err(|error| format!("tls.crt and tls.key: {error}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn write(reply: &Reply, to: &mut Vec<u8>) {
        match reply {
            Reply::Word(text) => to.extend(format!("+{text}\r\n").bytes()),
            Reply::Refusal(text) => to.extend(format!("-{text}\r\n").bytes()),
            Reply::Number(number) => to.extend(format!(":{number}\r\n").bytes()),
            Reply::Nil => to.extend(b"$-1\r\n"),
            Reply::Bytes(bytes) => {
                to.extend(format!("${}\r\n", bytes.len()).bytes());
                to.extend(bytes);
                to.extend(b"\r\n");
            }
            Reply::Several(several) => {
                to.extend(format!("*{}\r\n", several.len()).bytes());
                for reply in several {
                    write(reply, to);
                }
            }
        }
    }

    fn replies() -> impl Strategy<Value = Reply> {
        let leaf = prop_oneof![
            "[A-Z]{0,9}".prop_map(Reply::Word),
            "[A-Z ]{1,9}".prop_map(Reply::Refusal),
            any::<i64>().prop_map(Reply::Number),
            Just(Reply::Nil),
            prop::collection::vec(any::<u8>(), 0..50).prop_map(Reply::Bytes),
        ];
        leaf.prop_recursive(2, 16, 4, |inner| prop::collection::vec(inner, 0..4).prop_map(Reply::Several))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn replies_are_understood_however_they_are_cut(several in prop::collection::vec(replies(), 1..8), cut in 1..40_usize) {
            let mut bytes = Vec::new();
            for reply in &several {
                write(reply, &mut bytes);
            }
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let read = runtime.block_on(async {
                let (near, mut far) = tokio::io::duplex(cut);
                let sender = tokio::spawn(async move { far.write_all(&bytes).await.map(|()| far) });
                let mut link = Link::from_stream(Box::new(near));
                let mut read = Vec::new();
                for _ in &several {
                    read.push(link.reply().await.unwrap());
                }
                sender.await.unwrap().unwrap();
                read
            });
            prop_assert_eq!(read, several);
        }
    }

    #[test]
    fn commands_may_hold_any_bytes() {
        assert_eq!(command(&[b"GET".as_slice(), b"a\r\n\0"]), b"*2\r\n$3\r\nGET\r\n$4\r\na\r\n\0\r\n");
    }
}
