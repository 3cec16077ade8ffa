//! Reads objects in the namespace of our object, and creates its children.

use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use causeway_runtime::child_watch::Owner;
use causeway_runtime::manifest::Manifest;

use super::Error;

/// The object of that name in the namespace of `object`.
pub async fn get<K>(
    client: &Client,
    object: &impl ResourceExt,
    name: &str,
    what: &'static str,
) -> Result<Option<K>, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
{
    api_beside::<K>(client, object).get_opt(name).await.map_err(|source| Error::Read { what, source })
}

/// All objects in the namespace of `object` that the label selector matches.
pub async fn list<K>(
    client: &Client,
    object: &impl ResourceExt,
    selector: &str,
    what: &'static str,
) -> Result<Vec<K>, Error>
where
    K: Owner,
{
    let listed = causeway_runtime::list(client, &object.namespace().unwrap_or_default(), selector, |_| true).await;
    listed.map_err(|source| Error::Read { what, source })
}

fn api_beside<K>(client: &Client, object: &impl ResourceExt) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(client.clone(), &object.namespace().unwrap_or_default())
}

/// Applies a child: to the object with that uid if given, otherwise only if no other owner's object has the name.
pub async fn apply(
    client: &Client,
    object: &impl Resource<DynamicType = ()>,
    child: &Manifest,
    uid: Option<&str>,
) -> Result<(), Error> {
    let is_immutable = child.value["immutable"] == true;
    let failed = |source: kube::Error| match source {
        kube::Error::Api(status) if status.code == 422 && is_immutable => Error::PlanChanged(format!("{child:?}")),
        source => Error::Apply { child: format!("{child:?}"), source },
    };
    let namespace = object.namespace().unwrap_or_default();
    let is_ours = child.apply_for(client, &namespace, object, uid).await.map_err(failed)?;
    if is_ours { Ok(()) } else { Err(Error::NameTaken(format!("{child:?}"))) }
}

/// Creates a Job, unless this object has created it before.
pub async fn start(client: &Client, object: &impl Resource<DynamicType = ()>, job: &Manifest) -> Result<(), Error> {
    match job.create_for(client, &object.namespace().unwrap_or_default(), object).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::NameTaken(format!("{job:?}"))),
        Err(source) => Err(Error::Start { name: job.name().to_owned(), source }),
    }
}
