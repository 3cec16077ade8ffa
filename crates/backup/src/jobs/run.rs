//! Inputs that the pods of all Jobs need.

use super::{SecretMount, Settings};
use k8s_openapi::api::core::v1::ResourceRequirements;

/// Where a pod gets its plan from.
#[derive(Clone, Copy, Debug)]
pub enum PlanIn<'a> {
    /// A `ConfigMap` of that name.
    ConfigMap(&'a str),
    /// An annotation of the pod itself: nothing else has to be made, and later deleted, for it.
    Annotation(&'a str),
}

/// Inputs that the pods of all Jobs need.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Namespace of the Job.
    pub namespace: &'a str,
    /// Settings of the operator for all Jobs.
    pub settings: &'a Settings,
    /// Where the plan is.
    pub plan: PlanIn<'a>,
    /// SHA-256 of the plan's text, hexadecimal: our containers do nothing by another text.
    pub plan_sha256: &'a str,
    /// Secrets that it needs.
    pub mounts: &'a [SecretMount],
    /// Name of the Secret with secret keys of age that open the backup.
    pub identity: Option<&'a str>,
    /// CPU and memory of our containers.
    pub resources: Option<&'a ResourceRequirements>,
    /// Image with the programs that dump the database; none if our own image is enough.
    pub image: Option<&'a str>,
    /// True if write-ahead log is received, which needs a volume.
    pub wal: bool,
}
