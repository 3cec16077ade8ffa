//! Our program in the image of a database, beside the programs of that: an init container of our own image copies it into
//! a volume, and the main container begins with the copy. Pure.

use k8s_openapi::api::core::v1::{Container, EmptyDirVolumeSource, PodSpec, Volume, VolumeMount};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::pod::variable;
use super::volumes::mount;
use crate::backup::install::{CERTIFICATES, DIRECTORY, LIBRARIES, PROGRAM, USERS};

/// Bytes for what the program keeps to itself, such as a copy of a key that nobody else may read. It is no disk's.
const PRIVATE: &str = "16Mi";

/// Has the main container of a pod run in that image. `install` is a container of our own image.
pub fn in_image(mut pod: PodSpec, install: Container, image: &str) -> PodSpec {
    let program = |read_only| mount("program", DIRECTORY, read_only);
    let install = Container {
        name: "install".into(),
        args: Some(vec!["install".into(), DIRECTORY.into()]),
        env: None,
        volume_mounts: Some(vec![program(false)]),
        ..install
    };
    pod.init_containers.get_or_insert_default().insert(0, install);
    for main in &mut pod.containers {
        main.image = Some(image.to_owned());
        main.command = Some(vec![format!("{DIRECTORY}/{PROGRAM}")]);
        let environment = main.env.get_or_insert_default();
        // For our program alone: those that it starts get none of this.
        environment.push(variable("LD_LIBRARY_PATH", &format!("{DIRECTORY}/{LIBRARIES}")));
        environment.push(variable("SSL_CERT_FILE", &format!("{DIRECTORY}/{CERTIFICATES}")));
        let users = VolumeMount { sub_path: Some(USERS.into()), ..mount("program", "/etc/passwd", true) };
        main.volume_mounts.get_or_insert_default().extend([program(true), users, mount("private", "/tmp", false)]);
    }
    let empty = |name: &str, source: EmptyDirVolumeSource| Volume {
        name: name.into(),
        empty_dir: Some(source),
        ..Volume::default()
    };
    let private = EmptyDirVolumeSource { medium: Some("Memory".into()), size_limit: Some(Quantity(PRIVATE.into())) };
    let volumes = [empty("program", EmptyDirVolumeSource::default()), empty("private", private)];
    pod.volumes.get_or_insert_default().extend(volumes);
    pod
}
