//! A new process that has not read listeners yet.

use std::collections::BTreeMap;

use serde_json::json;

use super::Simulation;
use crate::decide::decide;
use crate::model::fixtures::standing;

#[test]
fn the_next_process_deletes_listeners_that_this_one_kept() {
    let served = json!({
        "listeners": [{ "port": 80, "defaultAction": { "forward": { "backends": [{ "name": "app" }] } } }],
        "backends": [{ "name": "app", "port": 80 }],
    });
    let mut simulation = Simulation::with(vec![standing("web", served)]);
    simulation.settle(None);
    simulation.objects[0].spec = standing("web", json!({})).spec;
    // AWS refuses the deletion. The status that was planned is written with the failure.
    let object = simulation.objects[0].clone();
    let planned = decide(&object, &simulation.observe(&object), simulation.now).status;
    assert!(planned.listeners.is_empty());
    simulation.objects[0].status = Some(planned);
    simulation.die();
    simulation.settle(None);
    let listeners = simulation.aws.assets.balancers.values().filter_map(|it| it.listeners.as_ref());
    assert_eq!(listeners.map(BTreeMap::len).collect::<Vec<_>>(), [0]);
    assert!(simulation.aws.assets.groups.is_empty());
    let status = simulation.objects[0].status.clone().unwrap();
    assert_eq!(status.managed, None, "what is gone is forgotten");
}
