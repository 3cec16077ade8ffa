//! Answers of the AWS SDK as JSON. They cannot be serialized, but all of them have a `Debug` form, which says everything.

use std::fmt::Debug;
use std::iter::Peekable;
use std::str::Chars;

use serde_json::{Map, Value};

/// The answer as JSON, without what is absent.
pub fn from_debug(answer: &impl Debug) -> Value {
    let text = format!("{answer:?}");
    let mut rest = Reader(text.chars().peekable());
    rest.value()
}

struct Reader<'a>(Peekable<Chars<'a>>);

impl Reader<'_> {
    fn value(&mut self) -> Value {
        self.blank();
        match self.0.peek() {
            Some('"') => self.text(),
            Some('[') => self.list(),
            _ => self.named_value(),
        }
    }

    /// `Name`, `Name { field: value, … }`, `Some(value)`, `None`, a number.
    fn named_value(&mut self) -> Value {
        let mut word = String::new();
        while let Some(next) = self.0.next_if(|next| !"{(,)]}".contains(*next)) {
            word.push(next);
        }
        match self.0.peek() {
            Some('{') => self.fields(),
            Some('(') => {
                self.0.next();
                let inner = self.value();
                self.blank();
                self.0.next();
                inner
            }
            _ => match word.trim() {
                "None" => Value::Null,
                word => serde_json::from_str(word).unwrap_or_else(|_| word.into()),
            },
        }
    }

    fn fields(&mut self) -> Value {
        self.0.next();
        let mut fields = Map::new();
        loop {
            self.separator();
            if self.0.next_if_eq(&'}').is_some() || self.0.peek().is_none() {
                return Value::Object(fields);
            }
            let mut name = String::new();
            while let Some(next) = self.0.next_if(|next| *next != ':') {
                name.push(next);
            }
            self.0.next();
            let value = self.value();
            if !value.is_null() {
                fields.insert(name, value);
            }
        }
    }

    fn list(&mut self) -> Value {
        self.0.next();
        let mut items = Vec::new();
        loop {
            self.separator();
            if self.0.next_if_eq(&']').is_some() || self.0.peek().is_none() {
                return Value::Array(items);
            }
            items.push(self.value());
        }
    }

    fn text(&mut self) -> Value {
        self.0.next();
        let mut text = String::new();
        while let Some(next) = self.0.next().filter(|next| *next != '"') {
            text.push(if next == '\\' { self.0.next().unwrap_or_default() } else { next });
        }
        Value::String(text)
    }

    fn blank(&mut self) {
        while self.0.next_if_eq(&' ').is_some() {}
    }

    fn separator(&mut self) {
        while self.0.next_if(|next| [' ', ','].contains(next)).is_some() {}
    }
}

#[test]
fn a_debug_text_becomes_json() {
    #[derive(Debug)]
    #[expect(dead_code, reason = "they are read through Debug")]
    struct Answer {
        name: Option<&'static str>,
        absent: Option<u8>,
        list: Option<Vec<Answer>>,
        number: Option<i32>,
        text: &'static str,
    }
    let inner = Answer { name: None, absent: None, list: Some(Vec::new()), number: None, text: r#"^/a"b\.c{1}$"# };
    let answer = Answer { name: Some("a, b"), absent: None, list: Some(vec![inner]), number: Some(-7), text: "" };
    let expected = serde_json::json!({
        "name": "a, b", "number": -7, "text": "", "list": [{ "list": [], "text": r#"^/a"b\.c{1}$"# }],
    });
    assert_eq!(from_debug(&answer), expected);
}
