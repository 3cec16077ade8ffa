//! Which backups of a bucket are candidates, and in what order. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use causeway_api::DatabaseRestore;
use causeway_api::databaserestore::BucketChoice;
use causeway_backup::jobs::{Catalog, is_plain};
use causeway_backup::manifest::{due_of, id_of};
use causeway_backup::signature::{KeyError, PublicKey};

use super::choice::{folder_of, is_before, is_of_the_new};
use super::facts::{Choice, Target};

/// A backup that may be restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The prefix of keys of its object, without a slash at the end.
    pub base: String,
    /// The folder of its database.
    pub folder: String,
    /// When it was due.
    pub due: Timestamp,
    /// A signature lies beside it.
    pub signed: bool,
}

impl Candidate {
    /// Returns the prefix of its own keys, without a slash at the end.
    pub fn place(&self) -> String {
        format!("{}/{}/{}", self.base, self.folder, id_of(self.due))
    }
}

/// The prefix of keys, without a slash at the end. It must be of this namespace: users who may make a DatabaseRestore
/// here have no right to the backups of another namespace, although Causeway could read them.
pub fn prefix_of_choice(choice: &BucketChoice, namespace: &str) -> Result<String, Choice> {
    let prefix = choice.prefix.as_deref().unwrap_or(namespace);
    let is_own = prefix.split('/').next() == Some(namespace);
    if is_own && is_plain(prefix) {
        return Ok(prefix.to_owned());
    }
    let message = format!(
        "spec.from.s3.prefix {prefix} is not of this namespace: keys must begin with {namespace}/. To restore what another \
         namespace backed up, make the DatabaseRestore in a namespace of that name"
    );
    Err(Choice::Refused("OtherNamespace", message))
}

/// The keys of `spec.from.s3.trustedKeys`. Where there are none, only this cluster's own key is trusted.
pub fn trusted(choice: &BucketChoice) -> Result<Vec<PublicKey>, Choice> {
    let keys = choice.trusted_keys.iter().enumerate().map(|(index, key)| {
        let refused = |mistake: KeyError| {
            Choice::Refused("TrustedKeyInvalid", format!("spec.from.s3.trustedKeys[{index}]: {mistake}"))
        };
        key.parse().map_err(refused)
    });
    keys.collect()
}

/// The candidates, the best first.
pub fn candidates(
    object: &DatabaseRestore,
    catalogs: &BTreeMap<String, Catalog>,
    target: &Target,
) -> Result<Vec<Candidate>, Choice> {
    let from = &object.spec.from;
    let wanted = from.source.as_deref().map(folder_of);
    let named = due_of(&from.id);
    let mut found = Vec::new();
    for (base, catalog) in catalogs {
        for folder in catalog.folders.keys().filter(|folder| wanted.as_ref().is_none_or(|wanted| wanted == *folder)) {
            let fits = |due: &Timestamp| match named {
                Some(named) => *due == named,
                None => is_before(object, *due) && !is_of_the_new(catalog, folder, *due, target),
            };
            found.extend(catalog.complete(folder).into_iter().filter(fits).map(|due| Candidate {
                base: base.clone(),
                folder: folder.clone(),
                due,
                signed: catalog.folders[folder][&due].signed,
            }));
        }
    }
    let folders: BTreeSet<&str> = found.iter().map(|it| it.folder.as_str()).collect();
    if folders.len() > 1 {
        let folders: Vec<&str> = folders.into_iter().collect();
        let message = format!("spec.from.source is required: there are backups of {}", folders.join(", "));
        return Err(Choice::Refused("SourceAmbiguous", message));
    }
    found.sort_by(|one, other| (other.due, &other.base).cmp(&(one.due, &one.base)));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::decide::{restore, target};
    use super::*;
    use causeway_aws::s3::{Listing, Object};
    use causeway_backup::record::believed;
    use causeway_backup::signature::SigningKey;

    fn choice(value: serde_json::Value) -> BucketChoice {
        serde_json::from_value(value).expect("a choice")
    }

    #[test]
    fn prefixes_of_other_namespaces_are_refused() {
        let of = |prefix: Option<&str>| prefix_of_choice(&choice(json!({ "bucket": "b", "prefix": prefix })), "shop");
        assert_eq!(of(None), Ok("shop".into()));
        for own in ["shop", "shop/nightly", "shop/team-a/nightly/uid-1"] {
            assert_eq!(of(Some(own)), Ok(own.to_owned()));
        }
        for other in
            ["bank", "bank/nightly", "shopping", "shop-eu/nightly", "shop/../bank", "shop/./x", "..", "shop//x"]
        {
            assert!(matches!(of(Some(other)), Err(Choice::Refused("OtherNamespace", _))), "{other}");
        }
    }

    #[test]
    fn an_invalid_key_is_refused_with_its_index() {
        let ours = SigningKey::generate().expect("a key").0.public();
        let of = |keys: &[&str]| trusted(&choice(json!({ "bucket": "b", "trustedKeys": keys })));
        assert_eq!(of(&[&ours.to_string()]), Ok(vec![ours]));
        let Err(Choice::Refused("TrustedKeyInvalid", text)) = of(&[&ours.to_string(), "ssh-ed25519 x"]) else {
            panic!("refused")
        };
        assert!(text.contains("trustedKeys[1]"), "{text}");
    }

    fn catalogs(ids: &[&str]) -> BTreeMap<String, Catalog> {
        let object = |id: &str, file: &str| Object {
            key: format!("shop/{id}/{file}"),
            size: 1,
            modified: Timestamp::UNIX_EPOCH,
        };
        let objects = ids.iter().flat_map(|id| [object(id, "data"), object(id, "manifest.json")]).collect();
        let now = "2026-11-23T00:00:00Z".parse().expect("an instant");
        let all = Catalog::of_all(Listing { objects, cut: false });
        all.into_iter().map(|(base, catalog)| (base, believed(catalog, now))).collect()
    }

    fn places(from: &serde_json::Value, found: &BTreeMap<String, Catalog>) -> Result<Vec<String>, Choice> {
        let found = candidates(&restore(from), found, &target("7.0.15"))?;
        Ok(found.iter().map(Candidate::place).collect())
    }

    #[test]
    fn the_newest_comes_first_and_never_the_future() {
        let found = catalogs(&[
            "nightly/u1/redis-cache/20261121T000000Z",
            "nightly/u2/redis-cache/20261122T000000Z",
            "nightly/u1/redis-cache/20261122T000000Z",
            "nightly/u1/redis-cache/20991122T000000Z",
            "hourly/u3/redis-other/20261122T010000Z",
        ]);
        let of = |from: serde_json::Value| {
            let mut from = from;
            from["s3"] = json!({ "bucket": "b" });
            places(&from, &found)
        };
        assert!(matches!(of(json!({})), Err(Choice::Refused("SourceAmbiguous", _))));
        let newest = [
            "shop/nightly/u2/redis-cache/20261122T000000Z",
            "shop/nightly/u1/redis-cache/20261122T000000Z",
            "shop/nightly/u1/redis-cache/20261121T000000Z",
        ];
        assert_eq!(of(json!({ "source": "Redis/cache" })).expect("some"), newest);
        let before = json!({ "source": "Redis/cache", "before": "2026-11-22T00:00:00Z" });
        assert_eq!(of(before).expect("one"), newest[2..]);
        let named = json!({ "source": "Redis/cache", "id": "20261121T000000Z" });
        assert_eq!(of(named).expect("one"), newest[2..]);
        assert_eq!(of(json!({ "source": "Redis/none" })), Ok(Vec::new()));
    }
}
