//! Reads the API server's audit log: one line of JSON for each answered request of an operator.
//! <https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/>

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::roles;

/// The part of a cluster's log that begins at some moment.
pub struct Log {
    path: PathBuf,
    from: u64,
}

impl Log {
    /// The part that is written from now on.
    pub fn from_now(path: &Path) -> Self {
        // The file does not exist before the first request of an operator.
        Self { path: path.to_owned(), from: path.metadata().map_or(0, |file| file.len()) }
    }

    /// Reads the log from its start.
    pub fn whole(path: &Path) -> Self {
        Self { path: path.to_owned(), from: 0 }
    }

    /// Copies it into a file.
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

    /// Calls `see` for each request about objects.
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

/// A request of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub verb: String,
    /// As in a manifest of a role: `pods/status`, `statefulsets.apps`.
    pub resource: String,
    pub namespace: String,
    /// Empty if the request was for all of them.
    pub name: String,
    /// True if it was refused for lack of rights.
    pub refused: bool,
    /// True if it created an object.
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

/// Parses a line. Requests about no object, such as those for the list of kinds, are allowed to all users and left out.
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
