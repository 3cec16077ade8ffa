//! An object's bytes from beginning to end, however often the connection breaks.

use std::time::Duration;

use aws_sdk_s3::primitives::ByteStream;
use tokio::time::timeout;
use tokio_util::bytes::Bytes;

use super::call::{DEADLINE, once, pause, pauses};
use super::{Store, StoreError, Trouble};

/// A connection on which nothing comes for this long is given up.
const READ_TIMEOUT: Duration = Duration::from_mins(1);

pub struct Download {
    store: Store,
    key: String,
    /// `ETag` of the object when reading began: bytes of another object are never appended.
    etag: Option<String>,
    size: u64,
    read: u64,
    body: Option<ByteStream>,
    pauses: Box<dyn Iterator<Item = Duration> + Send>,
}

impl Download {
    /// Begins to read; none if there is no such object.
    pub async fn open(store: &Store, key: String) -> Result<Option<Self>, StoreError> {
        let Some(seen) = store.head(&key).await? else { return Ok(None) };
        let size = u64::try_from(seen.size).unwrap_or_default();
        let pauses = Box::new(pauses());
        Ok(Some(Self { store: store.clone(), key, etag: seen.etag, size, read: 0, body: None, pauses }))
    }

    /// Bytes of the object.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The next bytes; none at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        while self.read < self.size {
            match self.chunk().await {
                Ok(chunk) => {
                    self.read += chunk.len() as u64;
                    // Bytes came, so a later problem is a new one and gets all tries again.
                    self.pauses = Box::new(pauses());
                    return Ok(Some(chunk));
                }
                Err(error) => {
                    self.body = None;
                    pause(&mut self.pauses, error).await?;
                }
            }
        }
        Ok(None)
    }

    async fn chunk(&mut self) -> Result<Bytes, StoreError> {
        let mut body = match self.body.take() {
            Some(body) => body,
            None => self.request().await?,
        };
        let chunk = match timeout(READ_TIMEOUT, body.next()).await {
            Ok(Some(Ok(chunk))) => chunk,
            Ok(Some(Err(error))) => return Err(StoreError::broken("GetObject", error.to_string())),
            Ok(None) => return Err(StoreError::broken("GetObject", format!("it ended after {} bytes", self.read))),
            Err(_) => return Err(StoreError::overdue("GetObject", READ_TIMEOUT.as_secs())),
        };
        if self.read + chunk.len() as u64 > self.size {
            let message = format!("{} has more than its {} bytes", self.key, self.size);
            return Err(StoreError { trouble: Trouble::Changed, ..StoreError::broken("GetObject", message) });
        }
        self.body = Some(body);
        Ok(chunk)
    }

    async fn request(&self) -> Result<ByteStream, StoreError> {
        let call = self.store.client.get_object().bucket(&self.store.place.bucket).key(&self.key);
        let call = call.expected_bucket_owner(&self.store.place.owner).set_if_match(self.etag.clone());
        let call = call.range(format!("bytes={}-", self.read));
        once("GetObject", DEADLINE, call.send()).await.map(|answer| answer.body)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::store::memory::store_at;

    /// Answers one request: a HEAD with the size, a GET with no more than 1000 of the bytes that it announces.
    async fn answer(mut stream: TcpStream, data: &[u8], etag: &str) -> std::io::Result<()> {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(stream.read_u8().await?);
        }
        let request = String::from_utf8_lossy(&request).to_lowercase();
        let from = request.split("bytes=").nth(1).and_then(|rest| rest.split('-').next()?.parse().ok()).unwrap_or(0);
        let rest = &data[from..];
        let changed = request.contains("if-match") && !request.contains(etag);
        let status = if changed { "412 Precondition Failed" } else { "200 OK" };
        let head =
            format!("HTTP/1.1 {status}\r\nETag: {etag}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", rest.len());
        stream.write_all(head.as_bytes()).await?;
        if !request.starts_with("head") && !changed {
            stream.write_all(&rest[..rest.len().min(1000)]).await?;
        }
        stream.shutdown().await
    }

    /// A store whose connections break, and whose object is another one after `changes_after` requests.
    async fn breaking(data: Vec<u8>, changes_after: usize) -> Store {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let mut requests = 0;
            while let Ok((stream, _)) = listener.accept().await {
                let etag = if requests < changes_after { "\"one\"" } else { "\"two\"" };
                requests += 1;
                answer(stream, &data, etag).await.ok();
            }
        });
        store_at(endpoint)
    }

    async fn read(store: &Store) -> Result<Vec<u8>, StoreError> {
        let mut download = Download::open(store, "p/data".into()).await?.unwrap();
        let mut bytes = Vec::new();
        while let Some(chunk) = download.next().await? {
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    #[tokio::test]
    async fn reading_goes_on_where_the_connection_broke() {
        let data: Vec<u8> = (0..4500_u32).flat_map(u32::to_le_bytes).take(4500).collect();
        assert_eq!(read(&breaking(data.clone(), usize::MAX).await).await.unwrap(), data);
    }

    #[tokio::test]
    async fn another_object_is_never_appended() {
        let message = read(&breaking(vec![7; 4500], 3).await).await.unwrap_err();
        assert_eq!(message.trouble, Trouble::Changed, "{message}");
    }
}
