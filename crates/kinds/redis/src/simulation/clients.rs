//! Clients: where Services lead them, and whether they are served there.

use kube::ResourceExt;

use causeway_api::Redis;
use causeway_databases::redis::Writes;

use super::kubernetes::{Kubernetes, PodState};
use super::nodes::Write;
use crate::action::SliceWrite;
use crate::facts::Child;
use crate::resources::{routes_of, service_of};
use crate::settings;

impl Kubernetes {
    /// Returns a master's answer to a write.
    pub fn answer_to_a_write(&self, pod: &PodState, object: &Redis) -> Writes {
        let process = pod.process.as_ref().unwrap();
        let minimum = if process.tampered { 100 } else { settings::minimum(object) };
        match () {
            () if process.full => Writes::Refused("MISCONF Errors writing to the AOF file".into()),
            () if self.good_replicas(pod, object) < minimum => {
                Writes::Refused("NOREPLICAS Not enough good replicas to write.".into())
            }
            () => Writes::Taken,
        }
    }

    /// How many replicas the master has heard from lately.
    fn good_replicas(&self, pod: &PodState, object: &Redis) -> i32 {
        let most = object.spec.failover.max_lag.seconds();
        let good = self.attached(&pod.address).into_iter().filter(|replica| replica.lag_seconds <= most);
        i32::try_from(good.count()).unwrap()
    }

    /// The pods that a Service leads to: those that have the addresses in its slices now.
    pub fn behind(&self, service: &str) -> Vec<&PodState> {
        let slices = self.slices.values().filter(|slice| service_of(&slice.value) == Some(service));
        let routes = slices.flat_map(|slice| routes_of(&slice.value));
        routes.filter_map(|route| self.set.pods.values().find(|pod| pod.address == route.address)).collect()
    }

    /// Writes a slice over the one that was observed, or that the same plan has written since.
    pub fn lead(&mut self, slice_write: &SliceWrite) -> Result<(), ()> {
        if let Some((node, run_id)) = &slice_write.master {
            let process = self.process(node)?;
            if process.follows.is_some() || process.run.to_string() != *run_id {
                return Err(());
            }
        }
        let name = slice_write.slice.name().to_owned();
        let live = self.slices.get(&name).map(|live| live.uid.clone());
        if live != slice_write.before.as_ref().map(|(uid, _)| uid.clone()) {
            return Err(());
        }
        let version = self.set.next_number().to_string();
        let mut value = slice_write.slice.value.clone();
        value["metadata"]["resourceVersion"] = version.clone().into();
        self.slices.insert(name, Child { value, uid: live.unwrap_or(version), ours: true });
        Ok(())
    }

    /// Reports whether a client that writes through the Service gets an acknowledgement. The Service may lead it to any
    /// of its nodes.
    pub fn write(&mut self, write: Write, object: &Redis) -> bool {
        let behind = self.behind(&object.name_any());
        let found =
            behind.iter().find(|pod| !pod.unreached && self.takes_writes(pod, object)).map(|pod| pod.address.clone());
        let Some(address) = found else { return false };
        let ordinal = self.by_address(&address).unwrap();
        let process = self.set.pods.get_mut(&ordinal).unwrap().process.as_mut().unwrap();
        process.writes.push(write);
        process.offset += 1;
        self.set.claims.get_mut(&ordinal).unwrap().volume.writes.push(write);
        true
    }

    /// Reports whether every client that comes through the Service is served.
    pub fn serves(&self, object: &Redis) -> bool {
        let behind = self.behind(&object.name_any());
        !behind.is_empty() && behind.iter().all(|pod| self.takes_writes(pod, object))
    }

    fn takes_writes(&self, pod: &PodState, object: &Redis) -> bool {
        pod.answers() && pod.is_master() && self.answer_to_a_write(pod, object) == Writes::Taken
    }
}
