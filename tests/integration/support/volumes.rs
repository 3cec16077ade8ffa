//! Volumes of pods, as directories of this machine. Tests damage or remove what is in them.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::Api;

use super::Scene;

/// Where the volume of a claim is. The cluster's volumes lie in a directory that only its own processes see: `cargo xtask
/// test` says how it is reached.
pub async fn directory(scene: &Scene, claim: &str) -> PathBuf {
    let claim = scene.api::<PersistentVolumeClaim>().get(claim).await.expect("the claim");
    let name = claim.spec.and_then(|spec| spec.volume_name).expect("a volume");
    let volumes: Api<PersistentVolume> = Api::all(scene.client.clone());
    let volume = volumes.get(&name).await.expect("the volume");
    let on_node = volume.spec.and_then(|it| it.host_path).expect("a directory of the node").path;
    let root = std::env::var("CAUSEWAY_TEST_NODE").expect("the root directory of the node");
    let path = Path::new(&root).join(on_node.trim_start_matches('/'));
    assert!(path.is_dir(), "{} is the volume {name}", path.display());
    path
}

/// Overwrites a part of a file with garbage.
pub fn overwrite(file: &Path, from: u64, length: usize) {
    let open = fs::OpenOptions::new().write(true).open(file).expect("the file");
    let garbage: Vec<u8> = (0..length).map(|at| u8::try_from(at * 37 % 251).expect("a byte")).collect();
    open.write_all_at(&garbage, from).expect("it is written");
}

/// Cuts a file off.
pub fn truncate(file: &Path, length: u64) {
    fs::OpenOptions::new().write(true).open(file).expect("the file").set_len(length).expect("it is cut off");
}

/// Removes everything from a directory, whose server may be running.
pub fn empty(directory: &Path) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        // A running server removes files, too: a file that it removed first is no error.
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.or_else(|error| if path.exists() { Err(error) } else { Ok(()) }).expect("it can be removed");
    }
}
