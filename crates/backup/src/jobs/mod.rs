//! Builds the pods of Jobs and their plans. Pure. Both kinds of objects that make Jobs share it.

mod account;
mod catalog;
mod containers;
mod egress;
mod foreign_image;
mod outcomes;
mod pod;
mod regions;
mod run;
mod scratch;
mod settings;
mod sources;
mod volumes;

pub use account::{ACCOUNT_LABEL, SERVICE_ACCOUNT, service_account};
pub use catalog::{Catalog, Doubt, Stored};
pub use egress::Egress;
pub use outcomes::{End, end_of, in_words, last_words, report_of};
pub use pod::{RECOVER, WORK, backup_pod, job_spec, plan_map, plan_text, restore_pod, slot_pod};
pub use run::{PlanIn, Run};
pub use scratch::{Scratch, Served};
pub use settings::{Identity, Settings, is_plain, prefix_of};
pub use sources::{Access, SecretMount, image_of, of_etcd_cluster, of_redis, of_source, postgresql_at};
pub use volumes::{IDENTITY, identity_path};
