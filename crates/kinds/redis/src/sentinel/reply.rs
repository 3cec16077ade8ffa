//! The answers to clients, and how they are written in either version of the protocol. Pure.
//! <https://redis.io/docs/latest/develop/reference/protocol-spec/>

/// The version of the protocol that a client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2, which every connection begins with.
    #[default]
    Two,
    /// RESP3, which a client asks for by `HELLO 3`.
    Three,
}

impl Protocol {
    /// Returns the number that `HELLO` has for it.
    pub fn number(self) -> i64 {
        match self {
            Self::Two => 2,
            Self::Three => 3,
        }
    }
}

/// An answer, or a message to subscribers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A simple string: all is well.
    Word(&'static str),
    /// An error, its code first.
    Error(String),
    /// A signed number.
    Number(i64),
    /// A bulk string.
    Text(Vec<u8>),
    /// Null in place of a text.
    Nothing,
    /// Null in place of a list.
    NoList,
    /// A list of answers.
    List(Vec<Reply>),
    /// A map of values by names; RESP2 writes it as a list of both in turn.
    Map(Vec<(&'static str, Reply)>),
    /// A push message, which answers no request; RESP2 writes it as a list.
    Push(Vec<Reply>),
}

impl Reply {
    /// The answer that all is well.
    pub const OK: Self = Self::Word("OK");

    /// Makes a bulk string.
    pub fn text(text: impl Into<Vec<u8>>) -> Self {
        Self::Text(text.into())
    }

    /// Writes it to the end of `out`.
    pub fn write(&self, protocol: Protocol, out: &mut Vec<u8>) {
        let three = protocol == Protocol::Three;
        let mut head = |mark: char, text: &str| out.extend(format!("{mark}{text}\r\n").bytes());
        match self {
            Self::Word(word) => head('+', word),
            Self::Error(words) => head('-', &words.replace(['\r', '\n'], " ")),
            Self::Number(number) => head(':', &number.to_string()),
            Self::Text(text) => {
                head('$', &text.len().to_string());
                out.extend(text.iter().chain(b"\r\n"));
            }
            Self::Nothing | Self::NoList if three => head('_', ""),
            Self::Nothing => head('$', "-1"),
            Self::NoList => head('*', "-1"),
            Self::List(items) | Self::Push(items) => {
                let is_push = three && matches!(self, Self::Push(_));
                head(if is_push { '>' } else { '*' }, &items.len().to_string());
                for item in items {
                    item.write(protocol, out);
                }
            }
            Self::Map(fields) => {
                if three {
                    head('%', &fields.len().to_string());
                } else {
                    head('*', &(fields.len() * 2).to_string());
                }
                for (name, value) in fields {
                    Self::text(*name).write(protocol, out);
                    value.write(protocol, out);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(reply: &Reply, protocol: Protocol) -> String {
        let mut out = Vec::new();
        reply.write(protocol, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_version_has_its_own_form() {
        let map = Reply::Map(vec![("ip", Reply::text("10.0.0.1"))]);
        let push = Reply::Push(vec![Reply::Nothing, Reply::NoList, Reply::Number(-1)]);
        for (reply, two, three) in [
            (&map, "*2\r\n$2\r\nip\r\n$8\r\n10.0.0.1\r\n", "%1\r\n$2\r\nip\r\n$8\r\n10.0.0.1\r\n"),
            (&push, "*3\r\n$-1\r\n*-1\r\n:-1\r\n", ">3\r\n_\r\n_\r\n:-1\r\n"),
            (&Reply::List(vec![Reply::OK]), "*1\r\n+OK\r\n", "*1\r\n+OK\r\n"),
        ] {
            assert_eq!((encode(reply, Protocol::Two), encode(reply, Protocol::Three)), (two.into(), three.into()));
        }
    }

    #[test]
    fn an_error_is_one_line_whatever_a_client_said() {
        assert_eq!(encode(&Reply::Error("ERR no\r\n+OK".into()), Protocol::Two), "-ERR no  +OK\r\n");
    }
}
