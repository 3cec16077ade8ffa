//! Users and their rights, as Redis reads them.
//! <https://redis.io/docs/latest/operate/oss_and_stack/management/security/acl/>

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use sha2::{Digest, Sha256};

use causeway_api::Redis;

use super::super::exporter_user;
use super::super::facts::{SecretString, Users};
use super::super::names::{EXPORTER_USER, INTERNAL_USER, PORT};
use super::super::settings::{EXPORTER_FILE, SENTINEL_FILE, USERS_FILE};
use crate::sentinel;

/// The rights of clients and of the operator.
const EVERYTHING: [&str; 3] = ["~*", "&*", "+@all"];
/// The rights of the container that answers as Redis Sentinel does: it asks who the master is.
const SENTINEL_MAY: [&str; 4] = ["resetkeys", "resetchannels", "-@all", "+info"];

/// A password as Redis keeps it.
pub fn hash(password: &str) -> String {
    hex::encode(Sha256::digest(password.as_bytes()))
}

/// The password of exporters: it follows from ours, which does not follow from it.
fn exporter_password(users: &Users) -> String {
    hash(&format!("causeway exporter {}", users.internal.0))
}

/// The same of what answers as Redis Sentinel does.
fn sentinel_password(users: &Users) -> String {
    hash(&format!("causeway sentinel {}", users.internal.0))
}

/// An exporter's passwords by the URLs to which it sends them: the node beside it, and no other. Since 1.69 it looks
/// for them with the user in the URL, earlier without.
fn exporter_passwords(users: &Users) -> String {
    let password = exporter_password(users);
    let urls = ["redis", "rediss"]
        .into_iter()
        .flat_map(|scheme| ["", "causeway-exporter@"].map(|user| format!("{scheme}://{user}127.0.0.1:{PORT}")));
    let by_url: BTreeMap<String, String> = urls.map(|url| (url, password.clone())).collect();
    serde_json::json!(by_url).to_string()
}

/// The rules of each user, its name first. No password is among them, but hashes of some.
pub fn rules(object: &Redis, users: Option<&Users>) -> Vec<Vec<String>> {
    let rule_for = |name: &str, keys: Vec<String>, rights: &[&str]| -> Vec<String> {
        let fixed = rights.iter().map(|rule| (*rule).to_owned());
        [name.to_owned(), "reset".into(), "on".into()].into_iter().chain(keys).chain(fixed).collect()
    };
    let rule = |name: &str, keys: Vec<String>| rule_for(name, keys, &EVERYTHING);
    let exporter =
        |key: String| object.spec.exporter.is_some().then(|| rule_for(EXPORTER_USER, vec![key], &exporter_user::MAY));
    match users.filter(|_| object.spec.auth.enabled) {
        Some(users) => {
            let clients = [Some(&users.current), users.previous.as_ref()];
            let clients = clients.into_iter().flatten().map(|hash| format!("#{hash}")).collect();
            let all = [rule("default", clients), rule(INTERNAL_USER, vec![format!("#{}", hash(&users.internal.0))])];
            let sentinel = object.spec.sentinel.as_ref().map(|_| {
                rule_for(sentinel::USER, vec![format!("#{}", hash(&sentinel_password(users)))], &SENTINEL_MAY)
            });
            let exporter = exporter(format!("#{}", hash(&exporter_password(users))));
            all.into_iter().chain(exporter).chain(sentinel).collect()
        }
        None => std::iter::once(rule("default", vec!["nopass".into()])).chain(exporter("nopass".into())).collect(),
    }
}

/// Returns the content of our Secret.
pub fn data(users: &Users) -> BTreeMap<String, ByteString> {
    let user = |name: &str, keys: &str| format!("user {name} on {keys} {}\n", EVERYTHING.join(" "));
    let previous = users.previous.as_ref().map_or_else(String::new, |hash| format!(" #{hash}"));
    let sentinel = users.sentinel.then(|| sentinel_password(users));
    let sentinel_user = sentinel.as_ref().map_or_else(String::new, |password| {
        format!("user {} on #{} {}\n", sentinel::USER, hash(password), SENTINEL_MAY.join(" "))
    });
    let text = [
        user("default", &format!("#{}{previous}", users.current)),
        user(INTERNAL_USER, &format!("#{}", hash(&users.internal.0))),
        exporter_user::line(&format!("#{}", hash(&exporter_password(users)))),
        sentinel_user,
        format!("masteruser {INTERNAL_USER}\nmasterauth {}\n", users.internal.0),
    ]
    .concat();
    let entry = |key: &str, text: &str| (key.to_owned(), ByteString(text.as_bytes().to_vec()));
    let mut data = BTreeMap::from([
        entry(USERS_FILE, &text),
        entry(EXPORTER_FILE, &exporter_passwords(users)),
        entry("internal", &users.internal.0),
        entry("current", &users.current),
        entry("previous", users.previous.as_deref().unwrap_or_default()),
    ]);
    data.extend(sentinel.map(|password| entry(SENTINEL_FILE, &password)));
    data
}

/// Reads the content of our Secret; `None` if a password is missing.
pub fn read(data: &BTreeMap<String, ByteString>) -> Option<Users> {
    let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok().filter(|text| !text.is_empty());
    Some(Users {
        internal: SecretString(text("internal")?),
        current: text("current")?,
        previous: text("previous"),
        exporter: data.contains_key(EXPORTER_FILE),
        sentinel: data.contains_key(SENTINEL_FILE),
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::fixtures::redis;
    use super::*;

    fn users() -> Users {
        Users {
            internal: SecretString("inner".into()),
            current: hash("new"),
            previous: Some(hash("old")),
            exporter: true,
            sentinel: false,
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        assert_eq!(read(&data(&users())), Some(users()));
        let fresh = Users { previous: None, ..users() };
        assert_eq!(read(&data(&fresh)), Some(fresh));
        let watched = Users { sentinel: true, ..users() };
        assert_eq!(read(&data(&watched)), Some(watched));
        assert_eq!(read(&BTreeMap::new()), None);
    }

    #[test]
    fn a_secret_without_an_exporters_user_is_recognized() {
        let mut earlier = data(&users());
        earlier.remove(EXPORTER_FILE);
        assert_eq!(read(&earlier), Some(Users { exporter: false, ..users() }));
    }

    #[test]
    fn an_exporter_has_a_password_of_its_own() {
        let passwords = exporter_passwords(&users());
        let passwords: BTreeMap<String, String> = serde_json::from_str(&passwords).unwrap();
        let own = exporter_password(&users());
        assert!(passwords.iter().all(|(url, password)| url.ends_with("127.0.0.1:6379") && *password == own));
        let text = String::from_utf8(data(&users())[USERS_FILE].0.clone()).unwrap();
        let line = text.lines().find(|line| line.contains(EXPORTER_USER)).unwrap();
        assert!(line.contains(&hash(&own)) && line.contains("-@all") && !line.contains('~'), "{line}");
        assert!(!text.contains(&own));
    }

    #[test]
    fn an_exporter_may_only_read_metrics() {
        let mut object = redis(1);
        object.spec.exporter = Some(causeway_api::redis::Exporter::default());
        let without = rules(&object, None);
        assert_eq!(without[1][..4], ["causeway-exporter", "reset", "on", "nopass"]);
        object.spec.auth.enabled = true;
        let with = rules(&object, Some(&users()));
        assert_eq!(with[2][4..], without[1][4..]);
        assert!(with[2][4..].iter().all(|rule| !rule.starts_with(['~', '%', '&']) && !rule.contains("config")));
    }

    #[test]
    fn a_sentinel_may_only_ask_for_the_master() {
        let mut object = redis(1);
        object.spec.auth.enabled = true;
        assert_eq!(rules(&object, Some(&users())).len(), 2);
        object.spec.sentinel = Some(causeway_api::redis::Sentinel::default());
        let data = data(&Users { sentinel: true, ..users() });
        let own = String::from_utf8(data[SENTINEL_FILE].0.clone()).unwrap();
        let rule = &rules(&object, Some(&users()))[2];
        assert_eq!(rule[4..], SENTINEL_MAY);
        assert!(rule[0] == sentinel::USER && rule[3] == format!("#{}", hash(&own)), "{rule:?}");
        let text = String::from_utf8(data[USERS_FILE].0.clone()).unwrap();
        assert!(text.contains(&format!("user causeway-sentinel on {} resetkeys", rule[3])), "{text}");
        assert!(own != exporter_password(&users()) && !text.contains(&own));
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
    fn without_logins_all_clients_have_all_rights() {
        let rules = rules(&redis(1), Some(&users()));
        assert_eq!(rules, [["default", "reset", "on", "nopass", "~*", "&*", "+@all"]]);
    }
}
