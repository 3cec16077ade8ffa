//! The master of the set, as far as the node beside this sentinel knows. Pure.

use std::net::IpAddr;
use std::time::Duration;

use causeway_databases::redis::{Info, Role};

/// The time for which the last answer of a node that does not answer still counts: on a busy machine, short silences
/// happen all the time.
const BRIEF_SILENCE: Duration = Duration::from_secs(2);

/// The known state of the set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The master, while there is one that the node knows.
    pub master: Option<Master>,
    /// Address of the last known master, whether or not it still is one.
    pub last: Option<String>,
}

/// A master of the set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Master {
    /// The address of the master.
    pub address: String,
    /// True if it may have replicas: it is another node, or reports some.
    pub followed: bool,
}

/// The node beside this sentinel.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its address, as others know it.
    pub address: String,
    /// The port of every node.
    pub port: u16,
}

impl View {
    /// Returns the address of the master, while there is one that the node knows.
    pub fn address(&self) -> Option<&str> {
        self.master.as_ref().map(|master| master.address.as_str())
    }

    /// Returns the view after the node has answered with that.
    pub fn after_answer(&self, node: &Node, info: &Info) -> Self {
        let master = match &info.role {
            _ if info.loading => None,
            Role::Master => Some(Master { address: node.address.clone(), followed: !info.attached.is_empty() }),
            // A process that was just started has no master yet: it follows another port, at which nothing listens.
            Role::Replica(link) if link.port == node.port && is_of_a_node(&link.host) => {
                Some(Master { address: link.host.clone(), followed: true })
            }
            Role::Replica(_) | Role::Other => None,
        };
        let view = Self { master, last: None };
        Self { last: view.address().map(str::to_owned).or_else(|| self.last.clone()), ..view }
    }

    /// Returns the view after the node has been silent for so long.
    pub fn silent(&self, silence: Duration) -> Self {
        Self { master: self.master.clone().filter(|_| silence < BRIEF_SILENCE), last: self.last.clone() }
    }
}

/// Returns true if a replica that names this host follows a node. One that was detached, as all are while another is
/// promoted, names the loopback address.
fn is_of_a_node(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok_and(|address| !address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> Node {
        Node { address: "10.0.0.1".into(), port: 6379 }
    }

    fn answer(view: &View, text: &str) -> View {
        view.after_answer(&node(), &Info::parse(text))
    }

    #[test]
    fn a_master_names_itself_and_a_replica_its_master() {
        let own = answer(&View::default(), "role:master\r\n");
        assert_eq!((own.address(), own.master.as_ref().map(|it| it.followed)), (Some("10.0.0.1"), Some(false)));
        let other = answer(&View::default(), "role:slave\r\nmaster_host:10.0.0.2\r\nmaster_port:6379\r\n");
        assert_eq!((other.address(), other.last.as_deref()), (Some("10.0.0.2"), Some("10.0.0.2")));
    }

    #[test]
    fn a_node_without_a_master_remembers_the_last_one() {
        let known = answer(&View::default(), "role:slave\r\nmaster_host:10.0.0.2\r\nmaster_port:6379\r\n");
        for text in [
            "role:slave\r\nmaster_host:127.0.0.1\r\nmaster_port:1\r\n",
            "role:slave\r\nmaster_host:127.0.0.1\r\nmaster_port:6379\r\n",
            "role:slave\r\nmaster_host:10.0.0.3\r\nmaster_port:6379\r\nloading:1\r\n",
            "role:slave\r\nmaster_host:10.0.0.3 6379 10.0.0.4\r\nmaster_port:6379\r\n",
            "role:sentinel\r\n",
            "",
        ] {
            let view = answer(&known, text);
            assert_eq!((view.address(), view.last.as_deref()), (None, Some("10.0.0.2")), "{text}");
        }
    }

    #[test]
    fn a_silent_node_is_believed_for_a_moment() {
        let known = answer(&View::default(), "role:master\r\n");
        assert_eq!(known.silent(Duration::from_millis(1900)), known);
        let unknown = known.silent(Duration::from_secs(2));
        assert_eq!((unknown.address(), unknown.last.as_deref()), (None, Some("10.0.0.1")));
    }
}
