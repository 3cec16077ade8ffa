//! Tests: what the API server makes of an object before it is stored: unknown fields go, nulls go, defaults come; then the
//! schema is checked. Rules in CEL are left out, so that more passes here than there.
//! <https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#defaulting>

use serde_json::{Map, Value};

use super::patterns::fits;
use super::times::is_date_time;

/// Greatest whole number that a fraction may stand for: it has no exact neighbours above.
const EXACT: f64 = 9_007_199_254_740_991.0;

/// The object as it is stored, or nothing where it is refused.
pub fn stored(schema: &Value, sent: Value) -> Option<Value> {
    let Value::Object(mut object) = sent else { return None };
    // The schema is not asked about these.
    let own: Vec<_> = ["apiVersion", "kind", "metadata"].map(|name| (name, object.remove(name))).into();
    let mut object = Value::Object(object);
    normalize(schema, &mut object);
    if !accepts(schema, &object) {
        return None;
    }
    whole(&mut object);
    for (name, value) in own {
        object[name] = value?;
    }
    Some(object)
}

/// A value as it is stored where its schema takes it.
pub fn alone(schema: &Value, value: &Value) -> Option<Value> {
    let mut value = value.clone();
    normalize(schema, &mut value);
    accepts(schema, &value).then_some(value)
}

fn is_missing(schema: &Value, value: &Value) -> bool {
    value.is_null() && schema["nullable"] != true
}

fn normalize(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(properties) = schema["properties"].as_object() {
                fields.retain(|name, _| properties.contains_key(name));
                for (name, property) in properties {
                    complete(fields, name, property);
                }
            } else {
                let values = &schema["additionalProperties"];
                fields.retain(|_, value| values.is_object() && !is_missing(values, value));
                fields.values_mut().for_each(|value| normalize(values, value));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| normalize(&schema["items"], item)),
        _ => {}
    }
}

fn complete(fields: &mut Map<String, Value>, name: &str, property: &Value) {
    if fields.get(name).is_none_or(|value| is_missing(property, value)) {
        fields.remove(name);
        if let Some(default) = property.get("default") {
            fields.insert(name.to_owned(), default.clone());
        }
    }
    if let Some(value) = fields.get_mut(name) {
        normalize(property, value);
    }
}

/// Reports whether a value is as its schema says.
/// <https://github.com/kubernetes/kube-openapi/tree/master/pkg/validation/validate>
pub fn accepts(schema: &Value, value: &Value) -> bool {
    if value.is_null() {
        return schema["nullable"] == true;
    }
    let is_enumerated = schema["enum"].as_array().is_none_or(|words| words.iter().any(|word| same(word, value)));
    let has_type = match schema["type"].as_str() {
        _ if schema["x-kubernetes-int-or-string"] == true => value.is_string() || is_whole(value),
        Some("string") => value.is_string(),
        Some("integer") => is_whole(value),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => panic!("a schema without a type: {schema}"),
    };
    is_enumerated
        && has_type
        && match value {
            Value::String(text) => is_text(schema, text),
            Value::Number(number) => is_within(schema, "minimum", "maximum", number.as_f64().unwrap_or(f64::NAN)),
            Value::Array(items) => {
                counted(schema, "minItems", "maxItems", items.len())
                    && items.iter().all(|item| accepts(&schema["items"], item))
            }
            Value::Object(fields) => has_fields(schema, fields),
            _ => true,
        }
}

fn has_fields(schema: &Value, fields: &Map<String, Value>) -> bool {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let of = |name: &str| match schema["properties"].as_object() {
        Some(properties) => properties[name].clone(),
        None => schema["additionalProperties"].clone(),
    };
    counted(schema, "minProperties", "maxProperties", fields.len())
        && required.into_iter().all(|name| fields.contains_key(name))
        && fields.iter().all(|(name, value)| accepts(&of(name), value))
}

fn is_text(schema: &Value, text: &str) -> bool {
    counted(schema, "minLength", "maxLength", text.chars().count())
        && (schema["format"] != "date-time" || is_date_time(text))
        && schema["pattern"].as_str().is_none_or(|pattern| fits(pattern, text))
}

fn is_whole(value: &Value) -> bool {
    value.is_i64() || value.as_f64().is_some_and(|number| number.fract() == 0.0 && number.abs() <= EXACT)
}

fn same(word: &Value, value: &Value) -> bool {
    word == value || (word.is_number() && word.as_f64() == value.as_f64())
}

fn is_within(schema: &Value, least: &str, most: &str, value: f64) -> bool {
    schema[least].as_f64().is_none_or(|least| value >= least) && schema[most].as_f64().is_none_or(|most| value <= most)
}

fn counted(schema: &Value, least: &str, most: &str, count: usize) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    is_within(schema, least, most, count as f64)
}

/// Go writes a fraction that is a whole number without its point.
fn whole(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let exact = number.as_f64().filter(|it| it.fract() == 0.0 && it.abs() <= EXACT);
            #[expect(clippy::cast_possible_truncation, reason = "it is exact")]
            if let Some(exact) = exact {
                *value = Value::from(exact as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole),
        Value::Object(fields) => fields.values_mut().for_each(whole),
        _ => {}
    }
}
