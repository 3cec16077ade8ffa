//! The bill of materials of the image, in `CycloneDX`: <https://cyclonedx.org/docs/1.6/json/>. The same sources give the same
//! bytes: it has neither a time nor a serial number.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::contents::{Crate, DebianPackage};

/// The bill of the operator, which is the first of the crates, and of the packages of which files are in its image.
pub fn of(crates: &[Crate], packages: &BTreeSet<DebianPackage>) -> Value {
    let cargo = |name: &str, version: &str| format!("pkg:cargo/{name}@{version}");
    let component = |it: &Crate, kind: &str| {
        let purl = cargo(&it.name, &it.version);
        let mut component = json!({
            "type": kind, "bom-ref": purl, "name": it.name, "version": it.version, "purl": purl,
            "licenses": [{ "expression": it.license }],
        });
        if !it.checksum.is_empty() {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": it.checksum }]);
        }
        component
    };
    let debian = packages.iter().map(|it| {
        // <https://github.com/package-url/purl-spec/blob/main/types-doc/deb-definition.md>
        let purl = format!("pkg:deb/debian/{}@{}", it.name, it.version.replace('+', "%2B").replace('~', "%7E"));
        json!({ "type": "library", "bom-ref": purl, "name": it.name, "version": it.version, "purl": purl })
    });
    let dependencies = crates.iter().map(|it| {
        let on: Vec<String> = it.depends_on.iter().map(|(name, version)| cargo(name, version)).collect();
        json!({ "ref": cargo(&it.name, &it.version), "dependsOn": on })
    });
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "component": crates.first().map(|operator| component(operator, "application")) },
        "components": crates.iter().skip(1).map(|it| component(it, "library")).chain(debian).collect::<Vec<_>>(),
        "dependencies": dependencies.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn every_part_is_named_by_its_package_url() {
        let library = Crate {
            name: "zstd".to_owned(),
            version: "0.13.3".to_owned(),
            license: "MIT".to_owned(),
            folder: PathBuf::new(),
            checksum: "c0ffee".to_owned(),
            depends_on: BTreeSet::new(),
        };
        let operator = Crate {
            name: "causeway".to_owned(),
            checksum: String::new(),
            depends_on: BTreeSet::from([("zstd".to_owned(), "0.13.3".to_owned())]),
            ..library.clone()
        };
        let libc = DebianPackage { name: "libc6".to_owned(), version: "2.36-9+deb12u13".to_owned() };
        let bill = of(&[operator, library], &BTreeSet::from([libc]));
        assert_eq!(bill["components"][0]["purl"], "pkg:cargo/zstd@0.13.3");
        assert_eq!(bill["components"][0]["hashes"][0]["content"], "c0ffee");
        assert_eq!(bill["components"][1]["purl"], "pkg:deb/debian/libc6@2.36-9%2Bdeb12u13");
        assert_eq!(bill["metadata"]["component"].get("hashes"), None);
        assert_eq!(bill["dependencies"][0]["dependsOn"], json!(["pkg:cargo/zstd@0.13.3"]));
    }
}
