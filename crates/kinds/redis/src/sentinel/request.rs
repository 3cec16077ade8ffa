//! The request of a client, as it comes over the wire: an array of words. Pure.
//! <https://redis.io/docs/latest/develop/reference/protocol-spec/>

/// The words of a request, the command first. There are none in an empty array.
pub type Request = Vec<Vec<u8>>;

/// Bytes of a request at most: a password and a few names.
pub const LONGEST: usize = 8 * 1024;
/// Words of a request at most.
const MOST_WORDS: usize = 64;
/// Bytes of a line with a length at most.
const LONGEST_LINE: usize = 16;

/// The bytes are no request, or one that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// They are no array of words.
    #[error("Protocol error: expected an array of bulk strings")]
    NoArray,
    /// It is longer than any that is answered.
    #[error("Protocol error: the request is too long")]
    TooLong,
}

/// Returns the first request in `bytes`, and how many bytes it takes; `None` if it has not come whole yet.
pub fn parse(bytes: &[u8]) -> Result<Option<(Request, usize)>, Malformed> {
    let mut rest = bytes;
    let read = read(&mut rest)?;
    if read.is_none() && bytes.len() >= LONGEST {
        return Err(Malformed::TooLong);
    }
    Ok(read.map(|request| (request, bytes.len() - rest.len())))
}

fn read(rest: &mut &[u8]) -> Result<Option<Request>, Malformed> {
    let Some(count) = length(rest, b'*')? else { return Ok(None) };
    if count > MOST_WORDS {
        return Err(Malformed::TooLong);
    }
    let mut words = Vec::new();
    for _ in 0..count {
        let Some(length) = length(rest, b'$')? else { return Ok(None) };
        if length > LONGEST {
            return Err(Malformed::TooLong);
        }
        let Some((word, after)) = rest.split_at_checked(length) else { return Ok(None) };
        let Some((end, after)) = after.split_at_checked(2) else { return Ok(None) };
        if end != b"\r\n" {
            return Err(Malformed::NoArray);
        }
        words.push(word.to_vec());
        *rest = after;
    }
    Ok(Some(words))
}

/// Reads a line with a length after `mark`. Like Redis, it reads an array of a negative length as an empty one.
fn length(rest: &mut &[u8], mark: u8) -> Result<Option<usize>, Malformed> {
    if rest.first().is_some_and(|first| *first != mark) {
        return Err(Malformed::NoArray);
    }
    let start = &rest[..rest.len().min(LONGEST_LINE)];
    let Some(end) = start.windows(2).position(|pair| pair == b"\r\n") else {
        return if start.len() < LONGEST_LINE { Ok(None) } else { Err(Malformed::NoArray) };
    };
    let digits = std::str::from_utf8(&start[1..end]).ok().filter(|text| !text.starts_with('+'));
    let length = match digits.and_then(|text| text.parse::<i64>().ok()) {
        Some(length) if mark == b'*' => usize::try_from(length).unwrap_or(0),
        Some(length) => usize::try_from(length).map_err(|_| Malformed::NoArray)?,
        None => return Err(Malformed::NoArray),
    };
    *rest = &rest[end + 2..];
    Ok(Some(length))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Encodes a request as a client writes it.
    fn pack(words: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend(format!("${}\r\n", word.len()).bytes());
            bytes.extend(word.iter().chain(b"\r\n"));
        }
        bytes
    }

    #[test]
    fn an_invalid_or_long_request_is_refused_early() {
        for (bytes, error) in [
            (b"PING\r\n".as_slice(), Malformed::NoArray),
            (b"GET / HTTP/1.1\r\n", Malformed::NoArray),
            (b"*1\r\n+PING\r\n", Malformed::NoArray),
            (b"*1\r\n$-1\r\n", Malformed::NoArray),
            (b"*x\r\n", Malformed::NoArray),
            (b"*00000000000000001", Malformed::NoArray),
            (b"*1\r\n$4\r\nPINGxx", Malformed::NoArray),
            (b"*1000000\r\n", Malformed::TooLong),
            (b"*1\r\n$1000000\r\n", Malformed::TooLong),
        ] {
            assert_eq!(parse(bytes), Err(error), "{}", String::from_utf8_lossy(bytes));
        }
        let drip = [b"*2\r\n$8000\r\n".to_vec(), vec![b'x'; 8000], b"\r\n$8000\r\n".to_vec(), vec![b'x'; 180]].concat();
        assert_eq!(parse(&drip), Err(Malformed::TooLong));
        assert_eq!(parse(b"*-1\r\n"), Ok(Some((Vec::new(), 5))));
    }

    proptest! {
        #[test]
        fn garbage_never_panics_and_takes_no_more_than_there_is(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(Some((_, taken))) = parse(&bytes) {
                prop_assert!(taken <= bytes.len());
            }
        }

        #[test]
        fn nearly_requests_never_panic(text in "[*$]?(-|[+])?[0-9]{0,12}(\r\n)?[*$]?[0-9]{0,5}\r?\n?[A-Z]{0,9}(\r\n)?") {
            drop(parse(text.as_bytes()));
        }

        #[test]
        fn a_whole_request_is_read_and_the_rest_stays(
            words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..8),
            more in prop::collection::vec(any::<u8>(), 0..8),
        ) {
            let bytes = pack(&words);
            for end in 0..bytes.len() {
                prop_assert_eq!(parse(&bytes[..end]), Ok(None));
            }
            let length = bytes.len();
            prop_assert_eq!(parse(&[bytes, more].concat()), Ok(Some((words, length))));
        }
    }
}
