//! Volumes of the pods of Jobs: the plan, the web identity, and Secrets.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, DownwardAPIVolumeFile, DownwardAPIVolumeSource, KeyToPath, ObjectFieldSelector,
    ProjectedVolumeSource, SecretVolumeSource, ServiceAccountTokenProjection, Volume, VolumeMount, VolumeProjection,
};

use super::Identity;
use super::run::{PlanIn, Run};
use crate::plan;

/// Audience of the token of a web identity.
const AUDIENCE: &str = "sts.amazonaws.com";
/// Seconds that such a token is valid; the kubelet renews it long before.
const TOKEN_SECONDS: i64 = 3600;
const TOKEN_DIRECTORY: &str = "/var/run/secrets/causeway.example.com/aws";
const TOKEN_FILE: &str = "token";
pub(super) const TOKEN_VOLUME: &str = "aws-token";
/// Directory below which the container that fetches a backup has the secret keys that open it.
pub const IDENTITY: &str = "/var/run/secrets/causeway.example.com/identity";
/// Key of the Secret with them.
const IDENTITY_KEY: &str = "identity";
const IDENTITY_VOLUME: &str = "identity";

/// Where the secret keys of that Secret are. Errors name the Secret by the last part.
#[must_use]
pub fn identity_path(secret: &str) -> PathBuf {
    Path::new(IDENTITY).join(secret)
}

/// Where the token of the web identity is found.
pub(super) fn token_path() -> String {
    format!("{TOKEN_DIRECTORY}/{TOKEN_FILE}")
}

/// Returns what each of our containers mounts.
pub(super) fn plan_mount() -> VolumeMount {
    mount("plan", directory_of(plan::PATH), true)
}

/// Returns what the container that talks to AWS mounts.
pub(super) fn token_mount() -> VolumeMount {
    mount(TOKEN_VOLUME, TOKEN_DIRECTORY, true)
}

/// Returns what the container that talks to databases mounts.
pub(super) fn secret_mounts(run: Run<'_>) -> impl Iterator<Item = VolumeMount> {
    let secrets = run.mounts.iter().enumerate();
    secrets.map(|(index, secret)| mount(&secret_volume(index), &secret.path.to_string_lossy(), true))
}

/// Returns what the container that fetches a backup mounts, too.
pub(super) fn identity(run: Run<'_>) -> Option<VolumeMount> {
    run.identity.map(|secret| mount(IDENTITY_VOLUME, &identity_path(secret).to_string_lossy(), true))
}

/// All volumes of a pod, except those that its containers write to.
pub(super) fn for_run(run: Run<'_>) -> Vec<Volume> {
    let token = ServiceAccountTokenProjection {
        audience: Some(AUDIENCE.into()),
        expiration_seconds: Some(TOKEN_SECONDS),
        path: TOKEN_FILE.into(),
    };
    let token = Volume {
        name: TOKEN_VOLUME.into(),
        projected: Some(ProjectedVolumeSource {
            sources: Some(vec![VolumeProjection { service_account_token: Some(token), ..VolumeProjection::default() }]),
            ..ProjectedVolumeSource::default()
        }),
        ..Volume::default()
    };
    let by_token = matches!(run.settings.identity, Some(Identity::WebIdentity(_)));
    let mut volumes = vec![plan_volume(run.plan)];
    volumes.extend(by_token.then_some(token));
    let secrets = run.mounts.iter().enumerate();
    volumes.extend(secrets.map(|(index, mount)| secret(secret_volume(index), &mount.secret, &mount.keys)));
    volumes.extend(run.identity.map(|name| secret(IDENTITY_VOLUME.into(), name, &[IDENTITY_KEY])));
    volumes
}

/// A volume with keys of a Secret: all of them if none is named.
fn secret(volume: String, name: &str, keys: &[&str]) -> Volume {
    Volume {
        name: volume,
        secret: Some(SecretVolumeSource {
            secret_name: Some(name.to_owned()),
            // The Job reports what is missing. Without this, its pod would not start until the Secret is there.
            optional: Some(true),
            items: Some(keys.iter().map(|key| file(key)).collect::<Vec<_>>()).filter(|keys| !keys.is_empty()),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    }
}

fn plan_volume(plan: PlanIn<'_>) -> Volume {
    let volume = Volume { name: "plan".into(), ..Volume::default() };
    match plan {
        PlanIn::ConfigMap(name) => Volume {
            config_map: Some(ConfigMapVolumeSource { name: name.into(), ..ConfigMapVolumeSource::default() }),
            ..volume
        },
        PlanIn::Annotation(key) => {
            let field_path = format!("metadata.annotations['{key}']");
            let file = DownwardAPIVolumeFile {
                path: file_of(plan::PATH).into(),
                field_ref: Some(ObjectFieldSelector { api_version: Some("v1".into()), field_path }),
                ..DownwardAPIVolumeFile::default()
            };
            let file = DownwardAPIVolumeSource { items: Some(vec![file]), ..DownwardAPIVolumeSource::default() };
            Volume { downward_api: Some(file), ..volume }
        }
    }
}

/// A volume in a container.
pub(super) fn mount(name: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: name.into(),
        mount_path: path.into(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}

fn secret_volume(index: usize) -> String {
    format!("secret-{index}")
}

fn file(key: &str) -> KeyToPath {
    KeyToPath { key: key.into(), path: key.into(), mode: None }
}

/// All but the last part of a path.
pub(super) fn directory_of(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(directory, _)| directory)
}

/// The last part of a path.
pub(super) fn file_of(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, file)| file)
}
