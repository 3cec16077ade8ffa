//! Who may log in, as Redis reads it. <https://redis.io/docs/latest/operate/oss_and_stack/management/security/acl/>

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use sha2::{Digest, Sha256};

use super::super::facts::{Hidden, Users};
use super::super::names::INTERNAL_USER;
use super::super::settings::USERS_FILE;
use crate::api::Redis;
use crate::runtime::hexadecimal;

/// What every user may do.
const EVERYTHING: [&str; 3] = ["~*", "&*", "+@all"];

/// A password as Redis keeps it.
pub fn hash(password: &str) -> String {
    hexadecimal(&Sha256::digest(password.as_bytes()))
}

/// The rules of each user, its name first. No password is among them, but hashes of some.
pub fn rules(object: &Redis, users: Option<&Users>) -> Vec<Vec<String>> {
    let rule = |name: &str, keys: Vec<String>| -> Vec<String> {
        let fixed = EVERYTHING.iter().map(|rule| (*rule).to_owned());
        [name.to_owned(), "reset".into(), "on".into()].into_iter().chain(keys).chain(fixed).collect()
    };
    match users.filter(|_| object.spec.auth.enabled) {
        Some(users) => {
            let clients = [Some(&users.current), users.previous.as_ref()];
            let clients = clients.into_iter().flatten().map(|hash| format!("#{hash}")).collect();
            vec![rule("default", clients), rule(INTERNAL_USER, vec![format!("#{}", hash(&users.internal.0))])]
        }
        None => vec![rule("default", vec!["nopass".into()])],
    }
}

/// What our Secret holds.
pub fn data(users: &Users) -> BTreeMap<String, ByteString> {
    let user = |name: &str, keys: &str| format!("user {name} on {keys} {}\n", EVERYTHING.join(" "));
    let previous = users.previous.as_ref().map_or_else(String::new, |hash| format!(" #{hash}"));
    let text = [
        user("default", &format!("#{}{previous}", users.current)),
        user(INTERNAL_USER, &format!("#{}", hash(&users.internal.0))),
        format!("masteruser {INTERNAL_USER}\nmasterauth {}\n", users.internal.0),
    ]
    .concat();
    let entry = |key: &str, text: &str| (key.to_owned(), ByteString(text.as_bytes().to_vec()));
    BTreeMap::from([
        entry(USERS_FILE, &text),
        entry("internal", &users.internal.0),
        entry("current", &users.current),
        entry("previous", users.previous.as_deref().unwrap_or_default()),
    ])
}

/// What our Secret held.
pub fn of(data: &BTreeMap<String, ByteString>) -> Option<Users> {
    let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok().filter(|text| !text.is_empty());
    Some(Users { internal: Hidden(text("internal")?), current: text("current")?, previous: text("previous") })
}

#[cfg(test)]
mod tests {
    use super::super::super::fixtures::redis;
    use super::*;

    fn users() -> Users {
        Users { internal: Hidden("inner".into()), current: hash("new"), previous: Some(hash("old")) }
    }

    #[test]
    fn what_is_written_is_read_again() {
        assert_eq!(of(&data(&users())), Some(users()));
        let fresh = Users { previous: None, ..users() };
        assert_eq!(of(&data(&fresh)), Some(fresh));
        assert_eq!(of(&BTreeMap::new()), None);
    }

    #[test]
    fn both_passwords_are_good_and_neither_is_shown() {
        let mut object = redis(1);
        object.spec.auth.enabled = true;
        let rules = format!("{:?}", rules(&object, Some(&users())));
        assert!(rules.contains(&hash("new")) && rules.contains(&hash("old")) && !rules.contains("inner"));
        assert!(!format!("{:?}", users()).contains("inner"));
    }

    #[test]
    fn without_log_in_everybody_may_do_everything() {
        let rules = rules(&redis(1), Some(&users()));
        assert_eq!(rules, [["default", "reset", "on", "nopass", "~*", "&*", "+@all"]]);
    }
}
