//! As whom the operator, and clients of the spec, log in to nodes. Pure.

use causeway_api::Redis;
use causeway_databases::redis::{Endpoint, Login};

use super::facts::Passwords;
use super::names;
use super::resources::hash;

/// The user of clients.
const CLIENTS: &str = "default";

/// How the operator logs in to a process. `spec.auth.enabled` may have changed since the process was started, and its
/// users may have been changed by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Without a login, as the user default.
    Open,
    /// As the operator's own user.
    Internal,
    /// As clients do, who may do everything. It helps where the operator's own user was lost or changed.
    Client,
}

impl Way {
    /// The way that a process of the spec accepts.
    pub fn of_spec(object: &Redis) -> Self {
        if object.spec.auth.enabled { Self::Internal } else { Self::Open }
    }

    /// The way to try after this one was refused.
    pub fn next(self) -> Self {
        match self {
            Self::Internal => Self::Client,
            Self::Client => Self::Open,
            Self::Open => Self::Internal,
        }
    }

    /// The login, where there is one.
    pub fn login(self, passwords: &Passwords) -> Option<Login> {
        match self {
            Self::Open => None,
            Self::Internal => {
                let users = passwords.users.as_ref()?;
                Some(Login { user: names::INTERNAL_USER.into(), password: users.internal.0.clone() })
            }
            Self::Client => with_password(passwords),
        }
    }
}

fn with_password(passwords: &Passwords) -> Option<Login> {
    let password = passwords.user_provided.as_ref()?;
    Some(Login { user: CLIENTS.into(), password: password.0.clone() })
}

/// How a client of the spec comes to that node; `None` while no client could: the password is not known, or the nodes do not
/// have it yet.
pub fn as_client(object: &Redis, passwords: &Passwords, node: &Endpoint) -> Option<Endpoint> {
    if !object.spec.auth.enabled {
        return Some(Endpoint { login: None, ..node.clone() });
    }
    let (login, users) = (with_password(passwords)?, passwords.users.as_ref()?);
    let own = hash(&login.password);
    let is_known = users.current == own || users.previous.as_ref() == Some(&own);
    is_known.then(|| Endpoint { login: Some(login), ..node.clone() })
}

/// The settings by which a node logs in to its master; none while the password is not known. They are set with the users.
pub fn to_master(object: &Redis, passwords: &Passwords) -> Vec<(String, String)> {
    let (user, password) = match &passwords.users {
        _ if !object.spec.auth.enabled => ("", ""),
        Some(users) => (names::INTERNAL_USER, users.internal.0.as_str()),
        None => return Vec::new(),
    };
    [("masteruser", user), ("masterauth", password)].map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

#[cfg(test)]
mod tests {
    use super::super::facts::{SecretString, Users};
    use super::super::fixtures::redis;
    use super::*;

    fn passwords() -> Passwords {
        let users = Users {
            internal: SecretString("inner".into()),
            current: hash("clients"),
            previous: Some(hash("old")),
            exporter: true,
            sentinel: false,
        };
        let user_provided = Some(SecretString("clients".into()));
        Passwords { user_provided, users: Some(users), ..Passwords::default() }
    }

    #[test]
    fn every_way_into_a_node_is_tried_in_turn() {
        let mut object = redis(1);
        for enabled in [true, false] {
            object.spec.auth.enabled = enabled;
            let mut way = Way::of_spec(&object);
            let mut users = Vec::new();
            for _ in 0..3 {
                users.push(way.login(&passwords()).map(|login| login.user));
                way = way.next();
            }
            assert_eq!(way, Way::of_spec(&object));
            users.sort();
            assert_eq!(users, [None, Some("causeway".to_owned()), Some("default".to_owned())]);
        }
    }

    #[test]
    fn nodes_log_in_to_their_master_as_the_spec_has_it() {
        let mut object = redis(1);
        let values = |object: &Redis, passwords: &Passwords| {
            to_master(object, passwords).into_iter().map(|(_, value)| value).collect::<Vec<_>>()
        };
        assert_eq!(values(&object, &passwords()), ["", ""]);
        object.spec.auth.enabled = true;
        assert_eq!(values(&object, &passwords()), ["causeway", "inner"]);
        assert_eq!(values(&object, &Passwords::default()), [""; 0]);
    }

    #[test]
    fn clients_come_as_the_spec_has_them() {
        let mut object = redis(1);
        let node = Endpoint { address: "10.0.0.1:6379".into(), login: None, tls: None };
        let client = |object: &Redis, passwords: &Passwords| {
            as_client(object, passwords, &node).map(|client| client.login.map(|login| (login.user, login.password)))
        };
        assert_eq!(client(&object, &passwords()), Some(None));
        object.spec.auth.enabled = true;
        let login = |password: &str| Some(Some(("default".to_owned(), password.to_owned())));
        assert_eq!(client(&object, &passwords()), login("clients"));
        let with = |password: &str| Passwords { user_provided: Some(SecretString(password.into())), ..passwords() };
        assert_eq!(client(&object, &with("old")), login("old"));
        assert_eq!(client(&object, &with("new")), None, "the nodes do not have it yet");
        assert_eq!(client(&object, &Passwords::default()), None);
    }
}
