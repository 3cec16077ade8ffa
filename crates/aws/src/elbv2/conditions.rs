//! The conditions of a rule, and how AWS writes them.

use std::collections::BTreeSet;

use aws_sdk_elasticloadbalancingv2::types::{
    HostHeaderConditionConfig, HttpHeaderConditionConfig, HttpRequestMethodConditionConfig, PathPatternConditionConfig,
    QueryStringConditionConfig, QueryStringKeyValuePair, RuleCondition, SourceIpConditionConfig,
};

/// A condition holds when one of its values matches.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_RuleCondition.html>
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// A condition on the `Host` header.
    Host(Match),
    /// A condition on the path.
    Path(Match),
    /// A condition on a header.
    Header {
        /// Name of the header.
        name: String,
        /// The values of which the header must match one.
        values: Match,
    },
    /// A condition on the query. A pair without key matches the value of any key.
    Query(BTreeSet<(Option<String>, String)>),
    /// A condition on the method.
    Method(BTreeSet<String>),
    /// A condition on the client's address.
    SourceIp(BTreeSet<String>),
    /// A condition that this program does not know, by AWS's name. It never equals a wanted condition.
    Unknown(String),
}

/// The way in which text is matched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Match {
    /// Patterns with `*` and `?`.
    Wildcards(BTreeSet<String>),
    /// Regular expressions, of which one must match.
    Regex(BTreeSet<String>),
}

impl Condition {
    /// Converts into AWS's form, with the values in the newer of AWS's two places.
    pub(super) fn to_aws(&self) -> RuleCondition {
        let condition = RuleCondition::builder();
        match self {
            Self::Host(values) => {
                let (values, regex) = values.to_aws();
                let config = HostHeaderConditionConfig::builder().set_values(values).set_regex_values(regex);
                condition.field("host-header").host_header_config(config.build())
            }
            Self::Path(values) => {
                let (values, regex) = values.to_aws();
                let config = PathPatternConditionConfig::builder().set_values(values).set_regex_values(regex);
                condition.field("path-pattern").path_pattern_config(config.build())
            }
            Self::Header { name, values } => {
                let (values, regex) = values.to_aws();
                let config = HttpHeaderConditionConfig::builder().http_header_name(name);
                let config = config.set_values(values).set_regex_values(regex);
                condition.field("http-header").http_header_config(config.build())
            }
            Self::Query(pairs) => {
                let pairs = pairs
                    .iter()
                    .map(|(key, value)| QueryStringKeyValuePair::builder().set_key(key.clone()).value(value).build());
                let config = QueryStringConditionConfig::builder().set_values(Some(pairs.collect()));
                condition.field("query-string").query_string_config(config.build())
            }
            Self::Method(methods) => {
                let config = HttpRequestMethodConditionConfig::builder().set_values(Some(list(methods)));
                condition.field("http-request-method").http_request_method_config(config.build())
            }
            Self::SourceIp(networks) => {
                let config = SourceIpConditionConfig::builder().set_values(Some(list(networks)));
                condition.field("source-ip").source_ip_config(config.build())
            }
            Self::Unknown(field) => condition.field(field),
        }
        .build()
    }

    /// Converts from AWS's form. The values for a host or a path may be in either of two places, or in both.
    pub(super) fn from_aws(condition: RuleCondition) -> Self {
        let outer = (condition.values, condition.regex_values);
        match condition.field.unwrap_or_default().as_str() {
            "host-header" => {
                let inner = condition.host_header_config.map(|it| (it.values, it.regex_values));
                Self::Host(Match::from_aws([inner.unwrap_or_default(), outer]))
            }
            "path-pattern" => {
                let inner = condition.path_pattern_config.map(|it| (it.values, it.regex_values));
                Self::Path(Match::from_aws([inner.unwrap_or_default(), outer]))
            }
            "http-header" => {
                let config = condition.http_header_config;
                let name = config.as_ref().and_then(|it| it.http_header_name.clone()).unwrap_or_default();
                let inner = config.map(|it| (it.values, it.regex_values)).unwrap_or_default();
                Self::Header { name, values: Match::from_aws([inner, outer]) }
            }
            "query-string" => {
                let pairs = condition.query_string_config.and_then(|it| it.values).unwrap_or_default().into_iter();
                let pair =
                    |it: QueryStringKeyValuePair| (it.key.filter(|key| !key.is_empty()), it.value.unwrap_or_default());
                Self::Query(pairs.map(pair).collect())
            }
            "http-request-method" => Self::Method(set(condition.http_request_method_config.and_then(|it| it.values))),
            "source-ip" => Self::SourceIp(set(condition.source_ip_config.and_then(|it| it.values))),
            other => Self::Unknown(other.to_owned()),
        }
    }
}

/// Patterns and regular expressions, of which AWS takes only one kind in a condition.
type Values = (Option<Vec<String>>, Option<Vec<String>>);

impl Match {
    fn to_aws(&self) -> Values {
        match self {
            Self::Wildcards(values) => (Some(list(values)), None),
            Self::Regex(values) => (None, Some(list(values))),
        }
    }

    fn from_aws(places: [Values; 2]) -> Self {
        let (mut patterns, mut expressions) = (BTreeSet::new(), BTreeSet::new());
        for (values, regex) in places {
            patterns.extend(values.unwrap_or_default());
            expressions.extend(regex.unwrap_or_default());
        }
        if expressions.is_empty() { Self::Wildcards(patterns) } else { Self::Regex(expressions) }
    }
}

fn list(values: &BTreeSet<String>) -> Vec<String> {
    values.iter().cloned().collect()
}

fn set(values: Option<Vec<String>>) -> BTreeSet<String> {
    values.unwrap_or_default().into_iter().collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::collection::btree_set;
    use proptest::option;
    use proptest::prelude::*;

    /// Every kind of condition.
    pub fn any_condition() -> impl Strategy<Value = Condition> {
        prop_oneof![
            any_match().prop_map(Condition::Host),
            any_match().prop_map(Condition::Path),
            ("[A-Za-z-]{1,8}", any_match()).prop_map(|(name, values)| Condition::Header { name, values }),
            btree_set((option::of("[a-z]{1,4}"), "[a-z*]{1,4}"), 1..4).prop_map(Condition::Query),
            btree_set("GET|POST|PURGE", 1..3).prop_map(Condition::Method),
            btree_set("10\\.[0-9]\\.0\\.0/16|2001:db8::/32", 1..4).prop_map(Condition::SourceIp),
        ]
    }

    fn any_match() -> impl Strategy<Value = Match> {
        let values = btree_set("[a-z/*?.]{1,6}", 1..4);
        (any::<bool>(), values).prop_map(|(regex, it)| if regex { Match::Regex(it) } else { Match::Wildcards(it) })
    }

    proptest! {
        #[test]
        fn what_was_written_reads_back_equal(condition in any_condition()) {
            prop_assert_eq!(Condition::from_aws(condition.to_aws()), condition);
        }

        #[test]
        fn both_of_awss_places_read_alike(values in any_match(), beside in any::<bool>()) {
            for condition in [Condition::Host(values.clone()), Condition::Path(values)] {
                let mut described = condition.to_aws();
                let inner = described.host_header_config.clone().map(|it| (it.values, it.regex_values));
                let path = described.path_pattern_config.clone().map(|it| (it.values, it.regex_values));
                (described.values, described.regex_values) = inner.or(path).unwrap();
                if !beside {
                    (described.host_header_config, described.path_pattern_config) = (None, None);
                }
                prop_assert_eq!(Condition::from_aws(described), condition);
            }
        }
    }

    #[test]
    fn a_pair_without_key_has_an_empty_one_or_none() {
        let pair = QueryStringKeyValuePair::builder().key("").value("v").build();
        let config = QueryStringConditionConfig::builder().values(pair).build();
        let described = RuleCondition::builder().field("query-string").query_string_config(config).build();
        assert_eq!(Condition::from_aws(described), Condition::Query(BTreeSet::from([(None, "v".into())])));
    }

    #[test]
    fn a_condition_of_the_future_equals_none_of_ours() {
        let described = RuleCondition::builder().field("moon-phase").build();
        assert_eq!(Condition::from_aws(described), Condition::Unknown("moon-phase".into()));
    }
}
