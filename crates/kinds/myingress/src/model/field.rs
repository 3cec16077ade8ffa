//! The place of a field in a spec, for messages. It costs nothing unless there is a message.

use std::fmt::{self, Display, Formatter};

use super::Complaint;

/// A field of a spec, by its path from the root.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    parent: Option<&'a Field<'a>>,
    step: Step<'a>,
    reason: &'static str,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Name(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Field<'a> {
    /// The spec itself.
    pub fn spec() -> Field<'static> {
        Field { parent: None, step: Step::Name("spec"), reason: "SpecInvalid" }
    }

    /// The field of this name.
    pub fn name(&'a self, name: &'a str) -> Field<'a> {
        Field { parent: Some(self), step: Step::Name(name), reason: self.reason }
    }

    /// The item at this index of a list.
    pub fn item(&'a self, index: usize) -> Field<'a> {
        Field { parent: Some(self), step: Step::Index(index), reason: self.reason }
    }

    /// The entry of a map with this key.
    pub fn key(&'a self, key: &'a str) -> Field<'a> {
        Field { parent: Some(self), step: Step::Key(key), reason: self.reason }
    }

    /// The same field, with another reason for complaints about it and its parts.
    pub fn with_reason(self, reason: &'static str) -> Self {
        Field { reason, ..self }
    }

    /// A complaint about this field. The text follows the field's path.
    pub fn wrong(&self, text: impl Display) -> Complaint {
        Complaint { reason: self.reason, message: format!("{self} {text}") }
    }

    /// Complains about this field.
    pub fn complain<T>(&self, text: impl Display) -> Result<T, Complaint> {
        Err(self.wrong(text))
    }
}

impl Display for Field<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(formatter)?;
        }
        match self.step {
            Step::Name(name) if self.parent.is_none() => formatter.write_str(name),
            Step::Name(name) => write!(formatter, ".{name}"),
            Step::Index(index) => write!(formatter, "[{index}]"),
            Step::Key(key) => write!(formatter, "[{}]", key.escape_debug()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_names_the_whole_way() {
        let spec = Field::spec();
        let listeners = spec.name("listeners").with_reason("ListenerInvalid");
        let complaint = listeners.item(2).name("attributes").key("a.b\n").wrong("must be a number");
        assert_eq!(complaint.message, r"spec.listeners[2].attributes[a.b\n] must be a number");
        assert_eq!(complaint.reason, "ListenerInvalid");
    }
}
