//! Finds kinds by the words that users type.

use clap::ValueEnum;
use kube::CustomResourceExt;

use causeway_api::Served;
use causeway_api::{DatabaseBackup, DatabaseRestore, EtcdCluster, MyApp, MyIngress, Redis};

use super::Error;

/// Every kind that is served. Policies are not: they are cluster-scoped, and `kubectl get causewaypolicies` lists them.
pub fn served_kinds() -> &'static [Served] {
    Served::value_variants()
}

/// Returns the kind of that name.
pub fn kind_named(name: &str) -> Option<Served> {
    served_kinds().iter().copied().find(|kind| kind.name() == name)
}

/// Returns true if objects of the kind can be suspended.
pub fn suspends(kind: Served) -> bool {
    kind != Served::DatabaseRestore
}

/// Returns the selected kinds, and the name of one object: all kinds without a word, one kind by its name, one object
/// by `KIND/NAME`.
pub fn meant(word: Option<&str>) -> Result<(Vec<Served>, Option<String>), Error> {
    let Some(word) = word else { return Ok((served_kinds().to_vec(), None)) };
    let (kind, name) = word.split_once('/').map_or((word, None), |(kind, name)| (kind, Some(name)));
    let lower = kind.to_lowercase();
    let found = served_kinds().iter().copied().find(|kind| is_called(*kind, &lower));
    let known = || served_kinds().iter().map(|kind| kind.name().to_lowercase()).collect::<Vec<_>>().join(", ");
    let found = found.ok_or_else(|| Error::Kind { word: kind.to_owned(), known: known() })?;
    match name {
        Some("") => Err(Error::NoName(word.to_owned())),
        name => Ok((vec![found], name.map(str::to_owned))),
    }
}

/// Returns true if the word, in lower case, is the kind's name, plural or a short name.
fn is_called(kind: Served, lower: &str) -> bool {
    kind.name().to_lowercase() == lower || kind.resource().plural == lower || short_names(kind).contains(&lower)
}

fn short_names(kind: Served) -> &'static [&'static str] {
    match kind {
        Served::MyApp => MyApp::shortnames(),
        Served::MyIngress => MyIngress::shortnames(),
        Served::EtcdCluster => EtcdCluster::shortnames(),
        Served::Redis => Redis::shortnames(),
        Served::DatabaseBackup => DatabaseBackup::shortnames(),
        Served::DatabaseRestore => DatabaseRestore::shortnames(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_api::definitions::definitions;

    fn kind(word: &str) -> Result<String, String> {
        meant(Some(word)).map(|(kinds, _)| kinds[0].name().to_owned()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_kind_has_the_names_that_kubectl_takes() {
        for word in ["redis", "Redis", "redises", "rd"] {
            assert_eq!(kind(word).as_deref(), Ok("Redis"), "{word}");
        }
        assert_eq!(kind("dbb/nightly").as_deref(), Ok("DatabaseBackup"));
        assert_eq!(kind("etcd").as_deref(), Ok("EtcdCluster"));
        assert!(kind("pod/a").unwrap_err().contains("use one of myapp, myingress"));
        assert!(kind("redis/").unwrap_err().contains("KIND/NAME"));
    }

    #[test]
    fn nothing_means_everything_and_a_name_means_one() {
        assert_eq!(meant(None).map(|(kinds, name)| (kinds.len(), name)).unwrap(), (6, None));
        assert_eq!(meant(Some("rd/cache")).unwrap().1.as_deref(), Some("cache"));
    }

    #[test]
    fn kinds_are_as_their_definitions_say() {
        for spec in definitions().into_iter().map(|it| it.spec).filter(|spec| spec.scope == "Namespaced") {
            let kind = kind_named(&spec.names.kind).expect("it is known");
            let schema = spec.versions[0].schema.clone().unwrap().open_api_v3_schema.unwrap();
            let fields = schema.properties.unwrap()["spec"].properties.clone().unwrap();
            assert_eq!(suspends(kind), fields.contains_key("suspend"), "{kind:?}");
            let words = spec.names.singular.into_iter().chain([spec.names.plural]);
            for word in words.chain(spec.names.short_names.unwrap_or_default()) {
                assert!(is_called(kind, &word), "{word}");
            }
        }
    }
}
