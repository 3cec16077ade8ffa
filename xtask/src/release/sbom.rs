//! The image's bill of materials, in `CycloneDX`: <https://cyclonedx.org/docs/1.6/json/>. It has no time and no serial
//! number, so that the same sources give the same bytes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::contents::{Crate, DebianPackage};
use super::native::Library;

/// The bill of the operator (which is the first of the crates), its linked libraries, and the packages with files in
/// its image.
pub fn of(crates: &[Crate], libraries: &[Library], packages: &BTreeSet<DebianPackage>) -> Value {
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
    let linked = libraries.iter().map(|it| {
        json!({
            "type": "library", "bom-ref": it.purl(), "name": it.name, "version": it.version, "purl": it.purl(),
            "licenses": [{ "expression": it.license }],
        })
    });
    // Libraries of the compiler are part of the program, whichever crate uses them.
    let owner = |library: &Library| match (&library.part_of, crates.first()) {
        (Some((name, version)), _) => cargo(name, version),
        (None, operator) => operator.map(|it| cargo(&it.name, &it.version)).unwrap_or_default(),
    };
    let dependencies = crates.iter().map(|it| {
        let reference = cargo(&it.name, &it.version);
        let mut on: Vec<String> = it.depends_on.iter().map(|(name, version)| cargo(name, version)).collect();
        on.extend(libraries.iter().filter(|library| owner(library) == reference).map(Library::purl));
        json!({ "ref": reference, "dependsOn": on })
    });
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "component": crates.first().map(|operator| component(operator, "application")) },
        "components":
            crates.iter().skip(1).map(|it| component(it, "library")).chain(linked).chain(debian).collect::<Vec<_>>(),
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
        let in_it = |name: &'static str, part_of: Option<(String, String)>| Library {
            name,
            version: "1.5.7".to_owned(),
            license: "BSD-3-Clause".to_owned(),
            home: "pkg:github/facebook/zstd",
            tag: "v",
            part_of,
        };
        let of_crate = in_it("zstd", Some(("zstd".to_owned(), "0.13.3".to_owned())));
        let of_compiler = Library { home: "pkg:github/rust-lang/rust", tag: "", ..in_it("std", None) };
        let libc = DebianPackage { name: "libc6".to_owned(), version: "2.36-9+deb12u13".to_owned() };
        let bill = of(&[operator, library], &[of_crate, of_compiler], &BTreeSet::from([libc]));
        assert_eq!(bill["components"][0]["purl"], "pkg:cargo/zstd@0.13.3");
        assert_eq!(bill["components"][0]["hashes"][0]["content"], "c0ffee");
        assert_eq!(bill["components"][1]["purl"], "pkg:github/facebook/zstd@v1.5.7");
        assert_eq!(bill["components"][1]["licenses"][0]["expression"], "BSD-3-Clause");
        assert_eq!(bill["components"][3]["purl"], "pkg:deb/debian/libc6@2.36-9%2Bdeb12u13");
        assert_eq!(bill["metadata"]["component"].get("hashes"), None);
        assert_eq!(
            bill["dependencies"][0]["dependsOn"],
            json!(["pkg:cargo/zstd@0.13.3", "pkg:github/rust-lang/rust@1.5.7"])
        );
        assert_eq!(bill["dependencies"][1]["dependsOn"], json!(["pkg:github/facebook/zstd@v1.5.7"]));
    }
}
