//! The channels that a client subscribes to, and the messages that it gets when another node becomes the master. Pure.

use super::reply::Reply;
use super::session::{Settings, error};
use super::view::View;

/// The one channel that has messages: name of the master, its old address and port, and the new ones.
/// <https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/#pubsub-messages>
const CHANNEL: &[u8] = b"+switch-master";
/// The most channels and patterns of a client.
const MOST: usize = 64;

/// The kind of a name that a client gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The name of a channel.
    Channel,
    /// A pattern of names.
    Pattern,
}

/// The channels and patterns that a client subscribes to.
#[derive(Debug, Default)]
pub struct Subscriptions {
    channels: Vec<Vec<u8>>,
    patterns: Vec<Vec<u8>>,
    /// The last master that a message named, or that was known before the client subscribed.
    last: Option<String>,
}

impl Subscriptions {
    /// Returns true if the client subscribes to nothing.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    fn count(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    fn names_of(&mut self, kind: Kind) -> &mut Vec<Vec<u8>> {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
        }
    }

    /// Subscribes to these, too. Each has an answer of its own.
    pub fn add(&mut self, kind: Kind, names: &[Vec<u8>], view: &View) -> Vec<Reply> {
        if self.count() + names.len() > MOST {
            return vec![error("too many subscriptions")];
        }
        if self.is_empty() {
            self.last.clone_from(&view.last);
        }
        let word = if kind == Kind::Channel { "subscribe" } else { "psubscribe" };
        let add = |name: &Vec<u8>| {
            if !self.names_of(kind).contains(name) {
                self.names_of(kind).push(name.clone());
            }
            self.with_count(word, Reply::Text(name.clone()))
        };
        names.iter().map(add).collect()
    }

    /// Unsubscribes from these, or from all if none is named.
    pub fn remove(&mut self, kind: Kind, names: &[Vec<u8>]) -> Vec<Reply> {
        let word = if kind == Kind::Channel { "unsubscribe" } else { "punsubscribe" };
        let names = if names.is_empty() { self.names_of(kind).clone() } else { names.to_vec() };
        if names.is_empty() {
            return vec![self.with_count(word, Reply::Nothing)];
        }
        let remove = |name: Vec<u8>| {
            self.names_of(kind).retain(|it| *it != name);
            self.with_count(word, Reply::Text(name))
        };
        names.into_iter().map(remove).collect()
    }

    fn with_count(&self, word: &str, name: Reply) -> Reply {
        let count = i64::try_from(self.count()).unwrap_or(i64::MAX);
        Reply::Push(vec![Reply::text(word), name, Reply::Number(count)])
    }

    /// Returns the messages about what is known now: some only if another node is the master.
    pub fn tell(&mut self, settings: &Settings, view: &View) -> Vec<Reply> {
        let Some(master) = &view.master else { return Vec::new() };
        let before = self.last.replace(master.address.clone());
        let Some(before) = before.filter(|before| *before != master.address) else { return Vec::new() };
        let (name, port) = (&settings.name, settings.port);
        let text = format!("{name} {before} {port} {} {port}", master.address);
        let channel = self.channels.iter().filter(|name| *name == CHANNEL);
        let by_channel = channel.map(|_| vec![Reply::text("message")]);
        let pattern = self.patterns.iter().filter(|pattern| matches(pattern, CHANNEL));
        let by_pattern = pattern.map(|it| vec![Reply::text("pmessage"), Reply::Text(it.clone())]);
        let whole = |mut message: Vec<Reply>| {
            message.extend([Reply::text(CHANNEL), Reply::text(text.clone())]);
            Reply::Push(message)
        };
        by_channel.chain(by_pattern).map(whole).collect()
    }
}

/// Returns true if a name matches a pattern, in which `*` stands for anything and `?` for one byte.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    // Where the last `*` was, and how much of the name it stands for.
    let (mut at, mut from, mut star) = (0, 0, None);
    while from < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[from] => (at, from) = (at + 1, from + 1),
            _ => {
                let Some((place, taken)) = star else { return false };
                star = Some((place, taken + 1));
                (at, from) = (place + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_channels() {
        for pattern in ["*", "+*", "+switch-master", "+switch*", "*master", "?switch?master", "*i*-*r", "**"] {
            assert!(matches(pattern.as_bytes(), CHANNEL), "{pattern}");
        }
        for pattern in ["", "+sdown", "+switch-maste", "+switch-master?", "-*", "*x", "*i*i*", "+switch-masters*"] {
            assert!(!matches(pattern.as_bytes(), CHANNEL), "{pattern}");
        }
    }
}
