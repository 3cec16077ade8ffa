//! Reads objects from files.

use std::io::Read;
use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::{CustomResourceExt, Resource};
use serde_json::Value;

use causeway_api::MyIngress;

use super::report::Skipped;

/// The reason why a file cannot be planned with.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot read {file}: {source}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// It is not YAML.
    #[error("{file} is not YAML: {source}")]
    Yaml {
        /// The file.
        file: String,
        /// Why.
        source: Box<serde_saphyr::Error>,
    },
    /// A document is not a valid `MyIngress`.
    #[error("{file}: MyIngress {name} is not valid: {reason}")]
    Invalid {
        /// The file.
        file: String,
        /// The object.
        name: String,
        /// Why.
        reason: String,
    },
}

/// The contents of the files.
#[derive(Debug, Default)]
pub struct Documents {
    /// Objects of kind `MyIngress`.
    pub objects: Vec<MyIngress>,
    /// All other documents.
    pub skipped: Vec<Skipped>,
}

impl Documents {
    /// Adds the documents of a file; `-` is standard input.
    pub fn add(&mut self, path: &Path) -> Result<(), Error> {
        let file = path.display().to_string();
        let unreadable = |source| Error::Unreadable { file: file.clone(), source };
        let text = if file == "-" {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map_err(unreadable)?;
            text
        } else {
            std::fs::read_to_string(path).map_err(unreadable)?
        };
        self.parse(&file, &text)
    }

    fn parse(&mut self, file: &str, text: &str) -> Result<(), Error> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(text)
            .map_err(|source| Error::Yaml { file: file.to_owned(), source: Box::new(source) })?;
        for document in documents.into_iter().filter(|document| !document.is_null()) {
            self.document(file, document)?;
        }
        Ok(())
    }

    fn document(&mut self, file: &str, document: Value) -> Result<(), Error> {
        let text = |path: &str| document.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
        if kind == "List" {
            let items = document.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
            return items.into_iter().try_for_each(|item| self.document(file, item));
        }
        if version != MyIngress::api_version(&()) || kind != MyIngress::kind(&()) {
            self.skipped.push(Skipped { kind, name });
            return Ok(());
        }
        let invalid = |reason: String| Error::Invalid { file: file.to_owned(), name: name.clone(), reason };
        if name.is_empty() {
            return Err(invalid("metadata.name is missing".into()));
        }
        if let Some(field) = unknown_field(&document) {
            return Err(invalid(format!("there is no field {field}: correct its name, or remove it")));
        }
        let object = serde_json::from_value(document).map_err(|error| invalid(error.to_string()))?;
        self.objects.push(object);
        Ok(())
    }
}

/// A field of the spec that the definition does not have: Kubernetes would drop it.
fn unknown_field(document: &Value) -> Option<String> {
    let version = MyIngress::crd().spec.versions.into_iter().next()?;
    let schema = version.schema?.open_api_v3_schema?;
    let spec = schema.properties.as_ref()?.get("spec")?;
    below(document.get("spec")?, spec, "spec")
}

fn below(value: &Value, schema: &JSONSchemaProps, path: &str) -> Option<String> {
    match value {
        Value::Object(map) => map.iter().find_map(|(key, value)| {
            let path = format!("{path}.{key}");
            match schema.properties.as_ref().and_then(|properties| properties.get(key)) {
                Some(schema) => below(value, schema, &path),
                None => match &schema.additional_properties {
                    Some(JSONSchemaPropsOrBool::Schema(schema)) => below(value, schema, &path),
                    Some(JSONSchemaPropsOrBool::Bool(true)) => None,
                    _ => Some(path),
                },
            }
        }),
        Value::Array(items) => {
            let Some(JSONSchemaPropsOrArray::Schema(schema)) = &schema.items else { return None };
            items.iter().enumerate().find_map(|(index, item)| below(item, schema, &format!("{path}[{index}]")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::ResourceExt;

    fn parsed(text: &str) -> Result<Documents, Error> {
        let mut documents = Documents::default();
        documents.parse("file.yaml", text).map(|()| documents)
    }

    #[test]
    fn the_examples_are_read_and_other_kinds_are_named() {
        let full = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/myingress-full.yaml"));
        let text = format!("{full}\n---\napiVersion: v1\nkind: Service\nmetadata:\n  name: shop\n---\n");
        let documents = parsed(&text).unwrap();
        assert_eq!(documents.objects.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["shop"]);
        assert_eq!(documents.skipped, [Skipped { kind: "Service".into(), name: "shop".into() }]);
    }

    #[test]
    fn a_field_that_does_not_exist_is_named() {
        let text = "apiVersion: demo.rtfm.co.ua/v1\nkind: MyIngress\nmetadata: {name: web}\nspec:\n  tags: {team: a}\n  listeners: [{port: 80, rulez: []}]\n";
        let error = parsed(text).unwrap_err().to_string();
        assert!(error.contains("spec.listeners[0].rulez"), "{error}");
    }

    #[test]
    fn a_value_of_another_type_is_reported() {
        let text = "apiVersion: demo.rtfm.co.ua/v1\nkind: MyIngress\nmetadata: {name: web}\nspec: {scheme: outside}\n";
        let error = parsed(text).unwrap_err().to_string();
        assert!(error.contains("web") && error.contains("outside"), "{error}");
    }
}
