//! The parameters of a call of EC2.

use aws_smithy_query::QueryWriter;

use crate::elbv2::Pairs;

/// The parameters of a call, each with its name in EC2's notation: `Filter.1.Name`. Lists are numbered from 1.
/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/Query-Requests.html>
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters(Vec<(String, String)>);

/// Escapes `*` and `?` in a filter value, so they stand for themselves.
/// <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Filtering.html#Filtering_Resources_CLI>
pub fn literal(text: &str) -> String {
    text.chars().fold(String::new(), |mut literal, char| {
        if matches!(char, '*' | '?' | '\\') {
            literal.push('\\');
        }
        literal.push(char);
        literal
    })
}

/// A filter of a list: a name, and values of which one must match.
pub type Filter = (String, Vec<String>);

impl Parameters {
    /// Adds a parameter.
    #[must_use]
    pub fn add(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.push((name.into(), value.into()));
        self
    }

    /// Adds a parameter if it has a value.
    #[must_use]
    pub fn maybe(self, name: impl Into<String>, value: Option<impl Into<String>>) -> Self {
        match value {
            Some(value) => self.add(name, value),
            None => self,
        }
    }

    /// Adds a list of values.
    #[must_use]
    pub fn list(self, name: &str, values: impl IntoIterator<Item = impl Into<String>>) -> Self {
        values.into_iter().zip(1..).fold(self, |all, (value, at)| all.add(format!("{name}.{at}"), value))
    }

    /// Adds filters, which must all hold.
    #[must_use]
    pub fn filters(self, filters: &[Filter]) -> Self {
        filters.iter().zip(1..).fold(self, |all, ((name, values), at)| {
            all.add(format!("Filter.{at}.Name"), name).list(&format!("Filter.{at}.Value"), values)
        })
    }

    /// Adds tags, in a list of that name.
    #[must_use]
    pub fn tags(self, list: &str, tags: &Pairs) -> Self {
        tags.iter().zip(1..).fold(self, |all, ((key, value), at)| {
            all.add(format!("{list}.{at}.Key"), key).add(format!("{list}.{at}.Value"), value)
        })
    }

    /// The body of the request.
    pub(super) fn body(&self, action: &str, version: &str) -> String {
        let mut body = String::new();
        let mut writer = QueryWriter::new(&mut body, action, version);
        for (name, value) in &self.0 {
            writer.prefix(name).string(value);
        }
        writer.finish();
        body
    }
}
