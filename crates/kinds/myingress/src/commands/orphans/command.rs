//! `causeway orphans ls` and `causeway orphans rm`: resources in AWS whose objects are not in the cluster.

use std::collections::BTreeSet;
use std::io::{self, Write};

use kube::api::ListParams;
use kube::{Api, Client};

use causeway_api::MyIngress;
use causeway_aws::aws::AwsError;
use causeway_aws::connect;
use causeway_aws::elbv2::Elbv2;
use causeway_runtime::cluster::Cluster;
use causeway_runtime::leader::Fence;
use causeway_runtime::metrics::Metrics;
use causeway_runtime::terminal::line;
use causeway_runtime::{Decoded, Unlisted, api_message};

use super::options::{OrphansAction, OrphansOptions};
use super::{Orphan, orphans};
use crate::ownership::Owner;
use crate::region::Region;

/// The reason why orphans could not be listed or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no way to reach the cluster or AWS.
    #[error(transparent)]
    Clients(#[from] connect::Error),
    /// The uid of the cluster could not be read.
    #[error("cannot read the namespace kube-system, whose uid stands for the cluster: {}", api_message(.0))]
    Cluster(#[source] kube::Error),
    /// Without a list of all objects it is not known what is an orphan.
    #[error("cannot list MyIngress objects of {place}: {}", api_message(.source))]
    Listing {
        /// The namespace, or all.
        place: String,
        /// The apiserver's answer.
        source: kube::Error,
    },
    /// An object has no name that tags could be compared with.
    #[error("MyIngress {0} cannot be decoded at all: correct it first, for what is in AWS may be its own")]
    Lost(String),
    /// AWS could not be asked.
    #[error("the AWS region could not be read: {0}")]
    Aws(#[source] AwsError),
    /// AWS did not delete it.
    #[error("{what} could not be deleted: {why}")]
    Removal {
        /// Name and ARN.
        what: String,
        /// AWS's answer.
        why: AwsError,
    },
    /// There is no such orphan.
    #[error("nothing in AWS is an orphan of uid {0}: see `causeway orphans ls`")]
    Unknown(String),
    /// Nothing could be printed.
    #[error("cannot print: {0}")]
    Output(#[from] io::Error),
}

/// Lists or removes orphans.
pub async fn run(options: OrphansOptions) -> Result<(), Error> {
    let metrics = Metrics::new();
    let (client, aws) = connect::user_clients(&metrics).await?;
    let fence = match options.action {
        OrphansAction::Ls => Fence::closed_until_lease(),
        // No leadership is needed: orphans belong to no object, so no controller works on them.
        OrphansAction::Rm { .. } => Fence::always_open(),
    };
    let cluster = Cluster::identify(&client, &options.cluster_name, options.cluster_uid.as_ref()).await;
    let cluster = cluster.map_err(Error::Cluster)?;
    let budget = options.budget();
    let elb = Elbv2::new(&aws, metrics.clone(), fence.clone(), budget.clone());
    let region = Region::new(&aws, &metrics, &fence, budget, elb, cluster.clone());
    // AWS is read before the objects: what is created for a newer object is then not in the snapshot.
    region.sweep().await.map_err(Error::Aws)?;
    region.read_security_groups().await.map_err(Error::Aws)?;
    let namespaces = options.namespaces();
    let living = living(&client, &cluster, &namespaces).await?;
    let orphans = region.search(|assets| orphans(assets, &cluster, &living, (&namespaces, &Unlisted::default())));
    match &options.action {
        OrphansAction::Ls => list(&orphans)?,
        OrphansAction::Rm { uids } => {
            for uid in uids {
                let orphan = orphans.iter().find(|orphan| orphan.owner.uid == *uid);
                remove(&region, orphan.ok_or_else(|| Error::Unknown(uid.clone()))?).await?;
            }
        }
    }
    Ok(())
}

/// The uids that tags of existing objects carry. An operator that serves some namespaces may list only those.
async fn living(client: &Client, cluster: &Cluster, namespaces: &[String]) -> Result<BTreeSet<String>, Error> {
    let all = || ("all namespaces".to_owned(), Api::<Decoded<MyIngress>>::all(client.clone()));
    let one = |name: &String| (format!("namespace {name}"), Api::namespaced(client.clone(), name));
    let places = if namespaces.is_empty() { vec![all()] } else { namespaces.iter().map(one).collect() };
    let mut living = BTreeSet::new();
    for (place, api) in places {
        let listed = api.list(&ListParams::default()).await;
        for object in listed.map_err(|source| Error::Listing { place, source })?.items {
            match object {
                Decoded::Object(object) => living.insert(Owner::of_object(cluster, &object).uid),
                Decoded::Lost { metadata, .. } => return Err(Error::Lost(metadata.name.unwrap_or_default())),
            };
        }
    }
    Ok(living)
}

fn list(orphans: &[Orphan]) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    if orphans.is_empty() {
        writeln!(out, "Everything in AWS with the tags of this cluster belongs to an object.")?;
        return Ok(());
    }
    writeln!(out, "{:<38} {:<30} {:<15} {:<32} ARN", "UID", "OBJECT", "WHAT", "NAME")?;
    for orphan in orphans {
        let object = format!("{}/{}", orphan.owner.namespace, orphan.owner.name);
        for (what, name, arn) in orphan.parts() {
            line(&mut out, &format!("{:<38} {object:<30} {what:<15} {name:<32} {arn}", orphan.owner.uid))?;
        }
    }
    Ok(())
}

async fn remove(region: &Region, orphan: &Orphan) -> Result<(), Error> {
    let parts: Vec<String> =
        orphan.parts().into_iter().map(|(what, name, arn)| format!("{what} {name} ({arn})")).collect();
    for (action, what) in orphan.removal().into_iter().zip(parts) {
        let done = region.change(&orphan.owner, &action).await;
        done.map_err(|why| Error::Removal { what: what.clone(), why })?;
        line(io::stdout(), &format!("deleted {what}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use kube::Resource;
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// An apiserver that lets its client list the objects of the namespace shop and no others.
    fn apiserver() -> Client {
        let answer = |request: http::Request<Body>| async move {
            let (status, body) = if request.uri().path().contains("/namespaces/shop/") {
                let version = MyIngress::api_version(&());
                let object = json!({
                    "apiVersion": version, "kind": "MyIngress", "spec": {},
                    "metadata": { "name": "web", "namespace": "shop", "uid": "uid-1" },
                });
                (200, json!({ "apiVersion": version, "kind": "MyIngressList", "metadata": {}, "items": [object] }))
            } else {
                let message = "myingresses is forbidden";
                (
                    403,
                    json!({ "kind": "Status", "status": "Failure", "reason": "Forbidden", "message": message, "code": 403 }),
                )
            };
            let answer = http::Response::builder().status(status).body(Body::from(body.to_string().into_bytes()));
            Ok::<_, Infallible>(answer.expect("an answer"))
        };
        Client::new(tower::service_fn(answer), "default")
    }

    #[tokio::test]
    async fn a_restricted_operator_lists_only_its_namespaces() {
        let (client, cluster) = (apiserver(), Cluster::from("prod"));
        let found = living(&client, &cluster, &["shop".to_owned()]).await.expect("a list");
        assert_eq!(found, BTreeSet::from(["uid-1".to_owned()]));
        let refusal = |namespaces: Vec<String>| {
            let (client, cluster) = (client.clone(), cluster.clone());
            async move { living(&client, &cluster, &namespaces).await.expect_err("it is forbidden").to_string() }
        };
        assert!(refusal(Vec::new()).await.contains("of all namespaces: "));
        // Without a list of every namespace nothing may be called an orphan.
        let partly = refusal(vec!["shop".into(), "bank".into()]).await;
        assert!(partly.contains("of namespace bank: "), "{partly}");
    }
}
