//! The custom resource definitions as files.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResourceExt, ResourceExt};

use super::bounds::bounded;
use super::causewaypolicy::CausewayPolicy;
use super::names::with_name_rules;
use super::{DatabaseBackup, DatabaseRestore, EtcdCluster, MyApp, MyIngress, Redis};

/// The reasons why the definitions could not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A definition cannot be expressed as YAML.
    #[error("cannot express {name} as YAML: {source}")]
    Yaml {
        /// Name of the `CustomResourceDefinition`.
        name: String,
        /// The underlying error.
        source: serde_saphyr::ser::Error,
    },
    /// A file could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// The underlying error.
        source: io::Error,
    },
}

/// The definition of every kind, in the order in which they are installed.
#[must_use]
pub fn definitions() -> Vec<CustomResourceDefinition> {
    let all = [
        MyApp::crd(),
        MyIngress::crd(),
        EtcdCluster::crd(),
        Redis::crd(),
        DatabaseBackup::crd(),
        DatabaseRestore::crd(),
        CausewayPolicy::crd(),
    ];
    all.map(bounded).map(with_name_rules).into()
}

/// Writes a file a definition into `directory`, or all of them to standard output.
pub fn write(directory: Option<&Path>) -> Result<(), Error> {
    for definition in definitions() {
        let name = definition.name_any();
        let text = serde_saphyr::to_string(&definition).map_err(|source| Error::Yaml { name: name.clone(), source })?;
        match directory {
            Some(directory) => {
                let path = directory.join(format!("{name}.yaml"));
                std::fs::write(&path, text).map_err(|source| Error::Write { path, source })?;
            }
            None => io::stdout()
                .write_all(format!("---\n{text}").as_bytes())
                .map_err(|source| Error::Write { path: "standard output".into(), source })?,
        }
    }
    Ok(())
}
