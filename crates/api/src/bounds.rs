//! Bounds that follow from Rust's types: whatever the API server stores must be read again, for one object that cannot be
//! decoded fails every list of its kind.
//!
//! The API server checks no format of integers, not even `int32`, and takes more for a `date-time` than RFC 3339 does.
//! <https://github.com/kubernetes/apiextensions-apiserver/blob/v0.34.4/pkg/apiserver/validation/formats.go>
//! <https://github.com/kubernetes/kube-openapi/blob/f3f2b991d03b/pkg/validation/strfmt/time.go>

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

/// RFC 3339 with the years, fractions and offsets that fit into a [`jiff::Timestamp`]; that the day exists is checked by
/// the format. `T` and `Z` are capitals: the format takes small ones, and rules that compare the field with its former
/// value cannot read these, so that they would refuse every later write, of the status too.
/// <https://github.com/kubernetes/apiserver/blob/v0.34.1/pkg/cel/common/values.go>
const TIME: &str = r"^[0-8][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$";

/// Bytes of the longest text of that form.
const LONGEST_TIME: i64 = 35;

/// Gives every integer and every time of a definition the bounds of its type.
#[must_use]
pub fn bounded(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    let versions = definition.spec.versions.iter_mut();
    for schema in versions.filter_map(|version| version.schema.as_mut()?.open_api_v3_schema.as_mut()) {
        bound(schema);
    }
    definition
}

fn bound(schema: &mut JSONSchemaProps) {
    if let Some((least, most)) = range(schema) {
        schema.minimum = Some(schema.minimum.map_or(least, |minimum| minimum.max(least)));
        schema.maximum = Some(schema.maximum.map_or(most, |maximum| maximum.min(most)));
    }
    if schema.format.as_deref() == Some("date-time") {
        schema.pattern.get_or_insert_with(|| TIME.to_owned());
        schema.max_length.get_or_insert(LONGEST_TIME);
    }
    schema.properties.iter_mut().flat_map(|properties| properties.values_mut()).for_each(bound);
    match schema.items.as_mut() {
        Some(JSONSchemaPropsOrArray::Schema(items)) => bound(items),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(bound),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = schema.additional_properties.as_mut() {
        bound(values);
    }
}

/// Returns what fits into the type of an integer. Any integer that the API server takes fits into 64 bits.
fn range(schema: &JSONSchemaProps) -> Option<(f64, f64)> {
    match schema.format.as_deref() {
        // Quantities have bounds of their own.
        _ if schema.x_kubernetes_int_or_string == Some(true) => {
            schema.maximum.is_none().then_some((i32::MIN.into(), i32::MAX.into()))
        }
        Some("int8") => Some((i8::MIN.into(), i8::MAX.into())),
        Some("uint8") => Some((0.0, u8::MAX.into())),
        Some("int16") => Some((i16::MIN.into(), i16::MAX.into())),
        Some("uint16") => Some((0.0, u16::MAX.into())),
        Some("int32") => Some((i32::MIN.into(), i32::MAX.into())),
        Some("uint32") => Some((0.0, u32::MAX.into())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex_lite::Regex;

    use super::*;
    use crate::decoding::{TIMES, is_date_time};

    /// The times that Go's `time.Parse` reads with the layout `time.RFC3339`. The API server gives times to rules through it.
    /// <https://pkg.go.dev/time#pkg-constants>
    const GO: &str = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.,][0-9]+)?(Z|[+-]([01][0-9]|2[0-4]):([0-5][0-9]|60))$";

    fn is_read_by_rules(text: &str) -> bool {
        Regex::new(GO).unwrap().is_match(text)
    }

    #[test]
    fn rules_can_read_every_time_that_is_accepted() {
        let pattern = Regex::new(TIME).unwrap();
        let accepted: Vec<&&str> = TIMES.iter().filter(|it| is_date_time(it) && pattern.is_match(it)).collect();
        assert!(accepted.len() > 10, "{accepted:?}");
        let unread: Vec<_> = accepted.into_iter().filter(|it| !is_read_by_rules(it)).collect();
        assert!(unread.is_empty(), "{unread:?}");
    }

    /// Times of which many fit the pattern, and others nearly.
    const LIKE_TIMES: &str = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\
                              ([.,][0-9]{1,10})?([Zz]|[+-][0-2][0-9]:[0-5][0-9])";

    proptest! {
        #[test]
        fn an_accepted_time_is_read_by_rules_and_by_rust(text in LIKE_TIMES) {
            if is_date_time(&text) && Regex::new(TIME).unwrap().is_match(&text) {
                prop_assert!(is_read_by_rules(&text), "{}", text);
                prop_assert!(text.parse::<jiff::Timestamp>().is_ok(), "{}", text);
            }
        }
    }
}
