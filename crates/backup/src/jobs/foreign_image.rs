//! Our program in the image of a database, beside the database's own programs: an init container of our own image copies it
//! into a volume, and the other container runs the copy. Pure.

use k8s_openapi::api::core::v1::{Container, EmptyDirVolumeSource, Volume, VolumeMount};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use causeway_runtime::install::{self, CERTIFICATES, DIRECTORY, USERS};
use causeway_runtime::requirements;

use super::containers::{MOST_SQL, USUAL, ours, variable};
use super::run::Run;
use super::volumes::mount;
use crate::sql::IMAGE;

/// Bytes for private files of the program, such as a copy of a key that no other user may read. They are in memory, not on a
/// disk.
const ROOM: &str = "16Mi";

/// Memory of a container that only copies a file, unless the spec says otherwise.
const MOST_MEMORY: &str = "128Mi";

/// The container that copies our program, of our own image.
pub fn install(run: Run<'_>) -> Container {
    Container {
        name: "install".into(),
        args: Some(vec!["install".into(), DIRECTORY.into()]),
        env: None,
        volume_mounts: Some(vec![program(false)]),
        resources: Some(requirements(run.resources, USUAL, MOST_MEMORY)),
        ..ours(run, "install")
    }
}

/// The volume for private files of a container.
pub const PRIVATE: &str = "private";

/// Makes a container run our program in that image, with its private files in that volume. It must come after [`install`].
pub fn in_image(run: Run<'_>, mut container: Container, image: &str, private: &str) -> Container {
    container.image = Some(image.to_owned());
    container.resources = Some(requirements(run.resources, USUAL, MOST_SQL));
    container.command = Some(install::command());
    let environment = container.env.get_or_insert_default();
    environment.push(variable(IMAGE, image));
    // For our program alone: those that it starts get none of this.
    environment.push(variable("SSL_CERT_FILE", &format!("{DIRECTORY}/{CERTIFICATES}")));
    let users = VolumeMount { sub_path: Some(USERS.into()), ..mount("program", "/etc/passwd", true) };
    container.volume_mounts.get_or_insert_default().extend([program(true), users, mount(private, "/tmp", false)]);
    container
}

/// The volumes of a pod that runs our program in another image: the program, and private files.
pub fn volumes() -> [Volume; 2] {
    let source = Some(EmptyDirVolumeSource::default());
    [Volume { name: "program".into(), empty_dir: source, ..Volume::default() }, own(PRIVATE)]
}

/// A volume for private files of one container.
pub fn own(name: &str) -> Volume {
    let source = EmptyDirVolumeSource { medium: Some("Memory".into()), size_limit: Some(Quantity(ROOM.into())) };
    Volume { name: name.into(), empty_dir: Some(source), ..Volume::default() }
}

fn program(read_only: bool) -> VolumeMount {
    mount("program", DIRECTORY, read_only)
}
