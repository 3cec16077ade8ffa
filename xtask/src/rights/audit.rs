//! What the API server wrote down: a line of JSON for each request of an operator that it has answered.
//! <https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/>

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::roles;

/// A cluster's log from some moment on.
pub struct Log {
    path: PathBuf,
    from: u64,
}

impl Log {
    /// What is written from now on.
    pub fn from_now(path: &Path) -> Self {
        // A cluster in which no operator asked for anything has none yet.
        Self { path: path.to_owned(), from: path.metadata().map_or(0, |file| file.len()) }
    }

    /// All of it.
    pub fn whole(path: &Path) -> Self {
        Self { path: path.to_owned(), from: 0 }
    }

    /// Keeps it in a file.
    pub fn copy(&self, to: &Path) -> Result<()> {
        let what = || format!("cannot copy {} to {}", self.path.display(), to.display());
        std::io::copy(&mut self.open()?, &mut File::create(to).with_context(what)?).map(drop).with_context(what)
    }

    fn open(&self) -> Result<File> {
        let what = || format!("cannot read {}", self.path.display());
        let mut file = File::open(&self.path).with_context(what)?;
        file.seek(SeekFrom::Start(self.from)).with_context(what)?;
        Ok(file)
    }

    /// Shows each request about objects.
    pub fn read(&self, mut see: impl FnMut(Request)) -> Result<()> {
        let what = || format!("cannot read {}", self.path.display());
        for line in BufReader::new(self.open()?).lines() {
            if let Some(request) = parse(&line.with_context(what)?).with_context(what)? {
                see(request);
            }
        }
        Ok(())
    }
}

/// What an operator asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub verb: String,
    /// As people write it: `pods/status`, `statefulsets.apps`.
    pub resource: String,
    pub namespace: String,
    /// Empty where it asked for all of them.
    pub name: String,
    /// Whether its rights did not suffice.
    pub refused: bool,
    /// Whether something was made that was not there.
    pub created: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    verb: &'a str,
    object_ref: Option<Object>,
    response_status: Option<Status>,
    #[serde(default)]
    annotations: Annotations,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Object {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    code: u16,
}

#[derive(Default, Deserialize)]
struct Annotations {
    #[serde(rename = "authorization.k8s.io/decision", default)]
    decision: String,
}

/// Requests about no object, as those that ask which kinds there are, everybody may make.
fn parse(line: &str) -> Result<Option<Request>> {
    let event: Event = serde_json::from_str(line).with_context(|| format!("this is no event: {line}"))?;
    let Some(object) = event.object_ref else { return Ok(None) };
    let resource = match object.subresource.as_str() {
        "" => object.resource,
        subresource => format!("{}/{subresource}", object.resource),
    };
    Ok(Some(Request {
        verb: event.verb.to_owned(),
        resource: roles::resource(&object.api_group, &resource),
        namespace: object.namespace,
        name: object.name,
        refused: event.annotations.decision == "forbid",
        created: event.response_status.is_some_and(|status| status.code == 201),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_was_asked_for() {
        let line = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","stage":"ResponseComplete",
            "requestURI":"/apis/apps/v1/namespaces/shop/statefulsets/cache?","verb":"patch","user":{"username":"u"},
            "objectRef":{"resource":"statefulsets","namespace":"shop","name":"cache","apiGroup":"apps","apiVersion":"v1"},
            "responseStatus":{"metadata":{},"code":201},
            "annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"RBAC: …"}}"#;
        let request = parse(line).unwrap().unwrap();
        assert_eq!((request.verb.as_str(), request.resource.as_str()), ("patch", "statefulsets.apps"));
        assert!(request.created && !request.refused);
        let line = r#"{"verb":"get","requestURI":"/version","responseStatus":{"code":200}}"#;
        assert_eq!(parse(line).unwrap(), None);
        let line = r#"{"verb":"patch","objectRef":{"resource":"pods","subresource":"status"},"annotations":{"authorization.k8s.io/decision":"forbid"}}"#;
        let request = parse(line).unwrap().unwrap();
        assert_eq!((request.resource.as_str(), request.refused), ("pods/status", true));
    }
}
