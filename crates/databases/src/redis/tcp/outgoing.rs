//! Reports when certain bytes of a connection are in the kernel's hands, whether or not the node reads them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

/// The bytes that a caller waits for among those that go out over one connection.
#[derive(Clone, Default)]
pub struct Outgoing(Arc<Mutex<Option<Awaited>>>);

struct Awaited {
    words: Vec<u8>,
    /// The last bytes that went out: no more than `words` is long.
    tail: Vec<u8>,
    found: bool,
    done: oneshot::Sender<()>,
}

impl Outgoing {
    /// Resolves once these bytes have been written from now on, and flushed. It fails if another caller waits for other
    /// bytes, or if the connection ends.
    pub fn when_written(&self, words: Vec<u8>) -> oneshot::Receiver<()> {
        let (done, written) = oneshot::channel();
        *self.lock() = Some(Awaited { words, tail: Vec::new(), found: false, done });
        written
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Option<Awaited>> {
        self.0.lock()
    }

    fn wrote(&self, bytes: &[u8]) {
        let mut awaited = self.lock();
        let Some(awaited) = awaited.as_mut().filter(|awaited| !awaited.found) else { return };
        awaited.tail.extend_from_slice(bytes);
        awaited.found = awaited.tail.windows(awaited.words.len()).any(|window| window == awaited.words);
        let surplus = awaited.tail.len().saturating_sub(awaited.words.len());
        awaited.tail.drain(..surplus);
    }

    fn report_flush(&self) {
        let mut awaited = self.lock();
        if awaited.as_ref().is_some_and(|awaited| awaited.found)
            && let Some(awaited) = awaited.take()
        {
            // The caller may have stopped waiting.
            awaited.done.send(()).ok();
        }
    }
}

/// A stream whose written bytes are watched. Under TLS it is the outer stream: a flush hands over what was encrypted.
pub struct Watched<S> {
    inner: S,
    outgoing: Outgoing,
}

impl<S> Watched<S> {
    /// Watches `inner` for what `outgoing` awaits.
    pub fn new(inner: S, outgoing: Outgoing) -> Self {
        Self { inner, outgoing }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let length = ready!(Pin::new(&mut self.inner).poll_write(cx, bytes))?;
        self.outgoing.wrote(&bytes[..length]);
        Poll::Ready(Ok(length))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
        self.outgoing.report_flush();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
