//! Deletes everything, and checks that nothing is left in the cluster and in AWS.

use anyhow::{Result, bail};
use serde_json::Value;

use super::super::scene::{Scene, Watch};
use super::super::{operator, sweep};

/// Deletes the run's objects the way their user would, then the namespace, and lists what AWS still has.
pub fn remove(scene: &Scene<'_>, watch: &Watch<'_>) -> Result<Vec<String>> {
    let (kubectl, namespace) = (scene.kubectl(), scene.run.namespace());
    if operator::must_be_ready(&kubectl).is_ok() {
        let limit = format!("--timeout={}s", watch.remaining().as_secs());
        for kind in ["databaserestores", "databasebackups", "myingresses", "redises.example.com", "etcdclusters"] {
            watch.step().note(format!("kubectl delete {kind} --all"));
            kubectl.run(&["-n", &namespace, "delete", kind, "--all", &limit])?;
        }
    }
    scene.place.delete_namespace(&namespace, watch.step())?;
    watch.wait_until("the volumes to be gone", || {
        let left =
            volumes_of(&serde_json::from_str(&kubectl.run(&["get", "persistentvolumes", "-o", "json"])?)?, &namespace);
        if !left.is_empty() {
            bail!("still there: {}", left.join(", "));
        }
        Ok(Some(()))
    })?;
    let bucket = scene.bucket.get().map(String::as_str).unwrap_or_default();
    watch.wait_until("nothing of this run to be left in AWS", || {
        sweep::nothing_left(scene.place, bucket, &scene.run).map(Some)
    })?;
    Ok(vec![
        format!("namespace {namespace} is gone, and its volumes"),
        "AWS has no balancer, target group, security group, volume or backup of this run".to_owned(),
    ])
}

/// The names of the volumes of a namespace's claims.
fn volumes_of(listed: &Value, namespace: &str) -> Vec<String> {
    let items = listed["items"].as_array().into_iter().flatten();
    let ours = items.filter(|it| it["spec"]["claimRef"]["namespace"] == namespace);
    ours.filter_map(|it| it["metadata"]["name"].as_str()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn volumes_are_found_by_their_claims() {
        let of = |name: &str, namespace: &str| json!({ "metadata": { "name": name }, "spec": { "claimRef": { "namespace": namespace } } });
        let listed =
            json!({ "items": [of("a", "causeway-e2e-1"), of("b", "shop"), { "metadata": { "name": "free" } }] });
        assert_eq!(volumes_of(&listed, "causeway-e2e-1"), ["a"]);
    }
}
