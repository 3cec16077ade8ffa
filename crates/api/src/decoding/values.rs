//! Tests: values that a schema may take, and a narrower type may not.

use serde_json::{Value, json};

use super::objects::minimal;
use super::times::TIMES;

/// Values to try at a leaf, and what they are.
pub fn candidates(schema: &Value) -> Vec<(&'static str, Value)> {
    let mut all: Vec<(&'static str, Value)> = [
        json!(null),
        json!(true),
        json!(0),
        json!(1.5),
        json!(""),
        json!("x"),
        json!([]),
        json!([null]),
        json!({}),
        json!({ "": "" }),
        json!({ "key": null }),
        json!({ "key": 1 }),
        json!({ "key": "value" }),
        json!({ "key": ["value"] }),
        json!({ "key": { "key": "value" } }),
    ]
    .map(|value| ("of any type", value))
    .into();
    all.extend(numbers(schema).into_iter().map(|value| ("a number", value)));
    all.extend(texts(schema).into_iter().map(|value| ("a text", value)));
    if schema["items"].is_object() {
        let item = minimal(&schema["items"]);
        all.push(("one item", json!([item])));
        all.push(("items and a null", json!([item, null])));
    }
    all
}

/// Numbers at and beyond the bounds of Rust's types and of the schema, whole ones as fractions, too.
fn numbers(schema: &Value) -> Vec<Value> {
    let whole: [i128; 14] = [
        i8::MAX.into(),
        u8::MAX.into(),
        i16::MAX.into(),
        u16::MAX.into(),
        i32::MAX.into(),
        u32::MAX.into(),
        i64::MAX.into(),
        u64::MAX.into(),
        i8::MIN.into(),
        i16::MIN.into(),
        i32::MIN.into(),
        i64::MIN.into(),
        0,
        1 << 53,
    ];
    #[expect(clippy::cast_possible_truncation, reason = "bounds of schemas are small")]
    let bounds = ["minimum", "maximum"].into_iter().filter_map(|name| schema[name].as_f64()).map(|bound| bound as i128);
    let near = whole.into_iter().chain(bounds).flat_map(|bound| [bound - 1, bound, bound + 1]);
    let mut all = Vec::new();
    for number in near {
        let text = number.to_string();
        all.extend(serde_json::from_str(&text));
        all.extend(serde_json::from_str(&format!("{text}.0")));
        all.extend(serde_json::from_str(&format!("{text}.5")));
    }
    all.extend([json!(-0.0), json!(80.0), json!(1e3), json!(1e18), json!(1e30), json!(-1e30), json!(1e-9)]);
    all
}

fn texts(schema: &Value) -> Vec<Value> {
    let times = if schema["format"] == "date-time" { TIMES } else { &TIMES[..1] };
    let mut all: Vec<Value> = times.iter().map(|time| json!(time)).collect();
    let words = schema["enum"].as_array().into_iter().flatten();
    for word in words.filter_map(Value::as_str) {
        all.extend([word.to_owned(), word.to_uppercase(), word.to_lowercase(), format!("{word} ")].map(Value::from));
    }
    all.extend(
        ["0", "1", "-1", "80", "1.5", "1e3", "true", "null", "1Gi", "500m", "\u{0}", "\u{feff}", "🚀", "a\nb"]
            .map(Value::from),
    );
    let lengths = ["minLength", "maxLength"].into_iter().filter_map(|name| schema[name].as_u64());
    for length in lengths.filter_map(|length| usize::try_from(length).ok()) {
        all.extend(["x", "9"].map(|letter| json!(letter.repeat(length))));
    }
    all.push(json!("x".repeat(4096)));
    all
}
