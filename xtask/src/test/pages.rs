//! Tests objects on pages of the documentation, because users must be able to copy and apply them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::site::markdown;
use crate::{crds, host};

/// The namespace in which they are tested.
pub const NAMESPACE: &str = "causeway-system";

/// Writes all complete objects of our kinds in the pages of `docs/`, into one file for each page that has some.
pub fn objects(into: &Path) -> Result<Vec<PathBuf>> {
    let known: Vec<(String, String)> = crds::parsed()?.iter().map(crds::api_of).collect();
    let mut files = Vec::new();
    for entry in fs::read_dir(host::repo_root()?.join("docs"))? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_none_or(|it| it != "md") {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let found = complete_objects(&text, &known).with_context(|| format!("docs/{name}.md"))?;
        if !found.is_empty() {
            let file = into.join(format!("page-{name}.yaml"));
            let list = json!({ "apiVersion": "v1", "kind": "List", "items": found });
            fs::write(&file, list.to_string()).with_context(|| format!("cannot write {}", file.display()))?;
            files.push(file);
        }
    }
    ensure!(!files.is_empty(), "no page of docs/ shows an object");
    files.sort();
    Ok(files)
}

/// The complete objects of those kinds in blocks of YAML: those with a name and a spec. Each gets a unique name,
/// because a page may show several versions of one object.
fn complete_objects(page: &str, known: &[(String, String)]) -> Result<Vec<Value>> {
    let mut found: Vec<Value> = Vec::new();
    for block in markdown::blocks(page, "yaml") {
        for document in block.split("\n---\n") {
            let is_ours = |(api, kind): &(String, String)| {
                document.contains(&format!("apiVersion: {api}\n")) && document.contains(&format!("kind: {kind}\n"))
            };
            if !document.contains("\nspec:") || !document.contains("name:") || !known.iter().any(is_ours) {
                continue;
            }
            let mut object: Value =
                serde_saphyr::from_str(document).with_context(|| format!("not YAML:\n{document}"))?;
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            object["metadata"]["name"] = json!(format!("{name}-{}", found.len()));
            object["metadata"]["namespace"] = json!(NAMESPACE);
            found.push(object);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_objects_of_our_kinds_are_found() {
        let page = "```yaml\napiVersion: example.com/v1\nkind: Redis\nmetadata:\n  name: cache\n  namespace: shop\nspec: {}\n---\n\
                    apiVersion: v1\nkind: Secret\nmetadata: { name: x }\n```\n- as here:\n  ```yaml\n  apiVersion: \
                    example.com/v1\n  kind: Redis\n  metadata:\n    name: cache\n  spec:\n    replicas: 2\n  ```\n\
                    ```yaml\nspec:\n  replicas: 3\n```\n";
        let found = complete_objects(page, &[("example.com/v1".into(), "Redis".into())]).unwrap();
        let expected = json!([
            { "apiVersion": "example.com/v1", "kind": "Redis", "metadata": { "name": "cache-0", "namespace": NAMESPACE }, "spec": {} },
            { "apiVersion": "example.com/v1", "kind": "Redis", "metadata": { "name": "cache-1", "namespace": NAMESPACE }, "spec": { "replicas": 2 } },
        ]);
        assert_eq!(Value::Array(found), expected);
    }

    #[test]
    fn pages_show_objects_that_can_be_read() {
        let folder = host::repo_root().unwrap().join(format!("target/tmp/pages-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let files = objects(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert!(files.iter().any(|file| file.ends_with("page-databasebackup.yaml")), "{files:?}");
    }
}
