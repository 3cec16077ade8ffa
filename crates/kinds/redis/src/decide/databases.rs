//! The number of databases only grows.
//!
//! A replica gets the commands of its master as they are. Where it has fewer databases, it refuses to select one that it
//! lacks, stays in another, and executes the writes there. So does a process that reads its append-only file. A larger
//! number is safe in the order of a rollout: the master gets it last, and a replica that has fewer than the master does not
//! count as following it.
//! <https://github.com/redis/redis/blob/7.0/src/db.c> (`selectCommand`)

use kube::ResourceExt;

use super::super::names::CONF;
use super::super::settings;
use super::View;

/// Returns the complaint about a spec that lowers the number of databases.
pub fn complaint(view: &View<'_>) -> Option<(&'static str, String)> {
    let wanted = settings::databases(view.object);
    let live = view.observed.set.child("StatefulSet", &view.object.name_any()).filter(|live| live.ours);
    let file = live.and_then(|live| live.value["spec"]["template"]["metadata"]["annotations"][CONF].as_str());
    let written = file.map(settings::databases_in);
    let running = view.observed.set.pods.values().filter_map(|pod| pod.own.databases);
    let most = running.chain(written).max().filter(|most| wanted < *most)?;
    let message = format!(
        "spec.config.databases cannot be lowered from {most} to {wanted}: a node with fewer databases executes writes to those \
         that it lacks in database 0. Set it to {most} again, or create another Redis and copy the data"
    );
    Some(("ConfigInvalid", message))
}
