//! A connection that bounds the length of an answer. Users choose the image that answers, and an endless answer would
//! exhaust the operator's memory.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that a node may send until one of its answers is whole. The usual ones have a few kilobytes, with a line of
/// about 45 bytes for each database that holds keys.
pub const LONGEST: usize = 256 * 1024;

/// The number of bytes that may still come.
#[derive(Clone, Debug)]
pub struct Allowance {
    left: Arc<AtomicUsize>,
    overrun: Arc<AtomicBool>,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { left: Arc::new(LONGEST.into()), overrun: Arc::default() }
    }
}

impl Allowance {
    /// Allows the next answer to be as long, when one is whole.
    pub fn renew(&self) {
        self.left.store(LONGEST, Ordering::Relaxed);
    }

    /// Returns true if more came than is allowed, so that the connection was given up.
    pub fn is_overrun(&self) -> bool {
        self.overrun.load(Ordering::Relaxed)
    }
}

/// A connection whose answers are bounded.
pub struct Bounded<S> {
    stream: S,
    allowance: Allowance,
}

impl<S> Bounded<S> {
    /// Reads no more from `stream` than `allowance` says.
    pub fn new(stream: S, allowance: Allowance) -> Self {
        Self { stream, allowance }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let left = self.allowance.left.load(Ordering::Relaxed);
        if left == 0 {
            self.allowance.overrun.store(true, Ordering::Relaxed);
            return Poll::Ready(Err(io::Error::other("the answer is too long")));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let count = buffer.filled().len() - before;
        // If the allowance was renewed meanwhile, it stays renewed.
        let _ = self.allowance.left.compare_exchange(
            left,
            left.saturating_sub(count),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
