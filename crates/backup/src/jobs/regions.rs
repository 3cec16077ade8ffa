//! Regions of AWS. Pure.

/// The regions in the data of botocore 1.40.40 (`botocore/data/endpoints.json`, September 2025), of all partitions. The
/// option `BACKUP_REGIONS` adds newer ones.
pub const REGIONS: [&str; 45] = [
    "af-south-1",
    "ap-east-1",
    "ap-east-2",
    "ap-northeast-1",
    "ap-northeast-2",
    "ap-northeast-3",
    "ap-south-1",
    "ap-south-2",
    "ap-southeast-1",
    "ap-southeast-2",
    "ap-southeast-3",
    "ap-southeast-4",
    "ap-southeast-5",
    "ap-southeast-6",
    "ap-southeast-7",
    "ca-central-1",
    "ca-west-1",
    "eu-central-1",
    "eu-central-2",
    "eu-north-1",
    "eu-south-1",
    "eu-south-2",
    "eu-west-1",
    "eu-west-2",
    "eu-west-3",
    "il-central-1",
    "me-central-1",
    "me-south-1",
    "mx-central-1",
    "sa-east-1",
    "us-east-1",
    "us-east-2",
    "us-west-1",
    "us-west-2",
    "cn-north-1",
    "cn-northwest-1",
    "us-gov-east-1",
    "us-gov-west-1",
    "us-iso-east-1",
    "us-iso-west-1",
    "us-isob-east-1",
    "eu-isoe-west-1",
    "us-isof-east-1",
    "us-isof-south-1",
    "eusc-de-east-1",
];

#[cfg(test)]
mod tests {
    use regex_lite::Regex;
    use serde_json::Value;

    use super::*;
    use causeway_api::definitions::definitions;

    /// The chart's schema of values.
    const SCHEMA: &str =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/helm/causeway/values.schema.json"));

    /// The expressions of all rules below `value` that check a region.
    fn rules(value: &Value, found: &mut Vec<String>) {
        let is_about_regions = value["message"].as_str().is_some_and(|text| text.starts_with("region must be"));
        let rule = value["rule"].as_str().and_then(|rule| rule.strip_prefix("self.matches('")?.strip_suffix("')"));
        found.extend(rule.filter(|_| is_about_regions).map(str::to_owned));
        match value {
            Value::Array(items) => items.iter().for_each(|item| rules(item, found)),
            Value::Object(fields) => fields.values().for_each(|field| rules(field, found)),
            _ => {}
        }
    }

    #[test]
    fn the_chart_and_the_definitions_take_every_region() {
        let schema: Value = serde_json::from_str(SCHEMA).expect("JSON");
        let of = |path: &str| schema.pointer(path).and_then(Value::as_str).expect("a pattern").to_owned();
        let mut patterns = vec![
            of("/properties/aws/properties/region/pattern"),
            of("/properties/backups/properties/regions/items/pattern"),
        ];
        rules(&serde_json::to_value(definitions()).expect("JSON"), &mut patterns);
        assert!(patterns.len() > 2, "no definition checks a region");
        for pattern in patterns {
            let known = Regex::new(&pattern).expect("an expression");
            for region in REGIONS {
                assert!(known.is_match(region), "{pattern} refuses {region}");
            }
        }
    }
}
