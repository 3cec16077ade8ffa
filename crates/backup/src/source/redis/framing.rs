//! Where the data end in a replication stream. Pure.

use tokio_util::bytes::Bytes;

/// Bytes of the mark that ends data whose size was not known before.
const MARK: usize = 40;

/// The data within the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Framing {
    /// This many bytes are still to come.
    Sized(u64),
    /// The data end with this mark; what may be the beginning of it is held back.
    Marked {
        /// The mark.
        mark: Vec<u8>,
        /// The last bytes that came.
        held: Vec<u8>,
    },
}

impl Framing {
    /// Reads the line before the data: `$<bytes>` or `$EOF:<mark>`.
    #[must_use]
    pub fn announced(line: &str) -> Option<Self> {
        let message = line.strip_prefix('$')?;
        match message.strip_prefix("EOF:") {
            Some(mark) if mark.len() == MARK => Some(Self::Marked { mark: mark.into(), held: Vec::new() }),
            Some(_) => None,
            None => message.parse().ok().map(Self::Sized),
        }
    }

    /// How many bytes may be read without reading beyond the data.
    #[must_use]
    pub fn room(&self) -> u64 {
        match self {
            Self::Sized(left) => *left,
            Self::Marked { .. } => u64::MAX,
        }
    }

    /// Takes bytes of the stream, no more than there is [`Framing::room`] for, and returns those that are certainly data.
    pub fn push(&mut self, bytes: Bytes) -> Bytes {
        match self {
            Self::Sized(left) => {
                *left = left.saturating_sub(bytes.len() as u64);
                bytes
            }
            Self::Marked { held, .. } => {
                held.extend_from_slice(&bytes);
                let certain = held.len().saturating_sub(MARK);
                let rest = held.split_off(certain);
                std::mem::replace(held, rest).into()
            }
        }
    }

    /// Reports whether all data came. The server sends nothing after the mark until the receiver has answered it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        match self {
            Self::Sized(left) => *left == 0,
            Self::Marked { mark, held } => held == mark,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MARKED: &str = "$EOF:0123456789abcdef0123456789abcdef01234567";

    fn read(line: &str, stream: &[u8], cut: usize) -> Option<Vec<u8>> {
        let mut framing = Framing::announced(line)?;
        let mut data = Vec::new();
        for chunk in stream.chunks(cut) {
            data.extend_from_slice(&framing.push(Bytes::copy_from_slice(chunk)));
        }
        framing.is_over().then_some(data)
    }

    proptest! {
        #[test]
        fn data_are_found_however_the_stream_is_cut(data in prop::collection::vec(any::<u8>(), 0..300), cut in 1..90_usize) {
            let mut marked = data.clone();
            marked.extend_from_slice(&MARKED.as_bytes()[5..]);
            prop_assert_eq!(read(MARKED, &marked, cut), Some(data.clone()));
            prop_assert_eq!(read(&format!("${}", data.len()), &data, cut), Some(data));
        }

        #[test]
        fn a_stream_that_ends_early_is_not_over(data in prop::collection::vec(any::<u8>(), 1..300), cut in 1..90_usize) {
            let mut marked = data.clone();
            marked.extend_from_slice(&MARKED.as_bytes()[5..]);
            prop_assert_eq!(read(MARKED, &marked[..marked.len() - 1], cut), None);
            prop_assert_eq!(read(&format!("${}", data.len() + 1), &data, cut), None);
        }
    }

    #[test]
    fn what_is_no_announcement_is_refused() {
        for line in ["", "$", "$-1", "$EOF:short", "+OK", "$12x"] {
            assert_eq!(Framing::announced(line), None, "{line}");
        }
    }
}
