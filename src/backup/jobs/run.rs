//! What Jobs have alike.

use super::{SecretMount, Settings};
use k8s_openapi::api::core::v1::ResourceRequirements;

/// Where a pod has its plan from.
#[derive(Clone, Copy, Debug)]
pub enum PlanIn<'a> {
    /// A `ConfigMap` of that name.
    ConfigMap(&'a str),
    /// An annotation of its own: what nobody else makes, changes or has to delete.
    Annotation(&'a str),
}

/// What Jobs have alike.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The Job's namespace.
    pub namespace: &'a str,
    /// What the operator was told.
    pub settings: &'a Settings,
    /// Where the plan is.
    pub plan: PlanIn<'a>,
    /// Secrets that it needs.
    pub mounts: &'a [SecretMount],
    /// Name of the Secret with secret keys of age that open the backup.
    pub identity: Option<&'a str>,
    /// CPU and memory of our containers.
    pub resources: Option<&'a ResourceRequirements>,
    /// Image with the programs that dump the database; none where ours needs none.
    pub image: Option<&'a str>,
    /// Whether write-ahead log is received, which needs a volume.
    pub wal: bool,
}
