//! Kinds by the words that people write for them.

use kube::api::ApiResource;
use kube::core::GroupVersionKind;

use super::Error;
use crate::api::definitions::definitions;

/// A kind of ours.
#[derive(Clone, Debug)]
pub struct OurKind {
    /// How the apiserver is asked about it.
    pub resource: ApiResource,
    /// Whether it can be suspended.
    pub suspends: bool,
    /// Every word for it, in lower case: its name, plural and short names.
    words: Vec<String>,
}

/// Every kind that has a status: policies of the cluster have none.
pub fn all() -> Vec<OurKind> {
    let of =
        |definition: k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition| {
            let (spec, names) = (&definition.spec, &definition.spec.names);
            if spec.scope != "Namespaced" {
                return None;
            }
            // The newest version is served first.
            let version = spec.versions.iter().find(|version| version.storage)?;
            let schema = version.schema.as_ref().and_then(|it| it.open_api_v3_schema.as_ref());
            let fields = schema.and_then(|schema| schema.properties.as_ref()?.get("spec")?.properties.as_ref());
            let gvk = GroupVersionKind::gvk(&spec.group, &version.name, &names.kind);
            let singular = names.singular.clone().into_iter();
            let words = singular.chain([names.plural.clone(), names.kind.to_lowercase()]);
            Some(OurKind {
                resource: ApiResource::from_gvk_with_plural(&gvk, &names.plural),
                suspends: fields.is_some_and(|fields| fields.contains_key("suspend")),
                words: words.chain(names.short_names.clone().unwrap_or_default()).collect(),
            })
        };
    definitions().into_iter().filter_map(of).collect()
}

/// The kinds that are meant, and the name of one object: all of them by nothing, one by its word, one object by `KIND/NAME`.
pub fn meant(word: Option<&str>) -> Result<(Vec<OurKind>, Option<String>), Error> {
    let Some(word) = word else { return Ok((all(), None)) };
    let (kind, name) = word.split_once('/').map_or((word, None), |(kind, name)| (kind, Some(name)));
    let lower = kind.to_lowercase();
    let found = all().into_iter().find(|it| it.words.contains(&lower));
    let known = || all().iter().map(|it| it.resource.kind.to_lowercase()).collect::<Vec<_>>().join(", ");
    let found = found.ok_or_else(|| Error::Kind { word: kind.to_owned(), known: known() })?;
    match name {
        Some("") => Err(Error::NoName(word.to_owned())),
        name => Ok((vec![found], name.map(str::to_owned))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(word: &str) -> Result<String, String> {
        meant(Some(word)).map(|(kinds, _)| kinds[0].resource.kind.clone()).map_err(|error| error.to_string())
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
}
