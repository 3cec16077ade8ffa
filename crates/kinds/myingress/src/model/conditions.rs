//! The conditions that decide which requests a rule takes.
//!
//! <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/rule-condition-types.html>

use std::collections::BTreeSet;

use causeway_api::myingress::{HeaderMatch, PathMatch, PathType, QueryMatch, RuleSpec};
use causeway_aws::elbv2::{Condition, Match};

use super::field::Field;
use super::regexes::regex;
use super::text;
use super::{Complaint, Limits};

/// AWS takes any source but this one.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/rule-condition-types.html#source-ip-conditions>
const NO_SOURCE: &str = "255.255.255.255/32";

const LONGEST: usize = 128;
const LONGEST_NAME: usize = 40;

/// The conditions of a rule. Names that AWS compares without regard to case are in lower case, and no value is twice.
pub fn conditions(rule: &RuleSpec, limits: &Limits, field: &Field<'_>) -> Result<BTreeSet<Condition>, Complaint> {
    let mut found = BTreeSet::new();
    found.extend(hosts(rule, field)?);
    found.extend(paths(&rule.paths, &field.name("paths"))?);
    for (index, header) in rule.headers.iter().enumerate() {
        found.insert(condition_of_header(header, &field.name("headers").item(index))?);
    }
    if !rule.query.is_empty() {
        found.insert(query(&rule.query, &field.name("query"))?);
    }
    let all = field.name("queryAll");
    for (index, pair) in rule.query_all.iter().enumerate() {
        found.insert(Condition::Query(BTreeSet::from([query_pair(pair, &all.item(index))?])));
    }
    if !rule.methods.is_empty() {
        found.insert(methods(&rule.methods, &field.name("methods"))?);
    }
    if !rule.source_cidrs.is_empty() {
        let list = field.name("sourceCidrs");
        let networks = rule.source_cidrs.iter().enumerate().map(|(index, it)| source(it, &list.item(index)));
        found.insert(Condition::SourceIp(networks.collect::<Result<_, _>>()?));
    }
    within_limits(&found, limits, field)?;
    Ok(found)
}

/// The conditions of a rule that was valid once, however many AWS takes now.
pub fn conditions_of(rule: &RuleSpec) -> Option<BTreeSet<Condition>> {
    let limits = Limits { values: usize::MAX, wildcards: usize::MAX, ..Limits::default() };
    conditions(rule, &limits, &Field::spec()).ok()
}

fn within_limits(found: &BTreeSet<Condition>, limits: &Limits, field: &Field<'_>) -> Result<(), Complaint> {
    if found.is_empty() {
        return field.complain("needs a condition: for all requests, use the listener's defaultAction");
    }
    let values: usize = found.iter().map(values).sum();
    if values > limits.values {
        return field.complain(format_args!(
            "has {values} condition values, and AWS takes {} (a Prefix path counts as two): make two rules",
            limits.values
        ));
    }
    let wildcards: usize = found.iter().map(wildcards).sum();
    if wildcards > limits.wildcards {
        return field.complain(format_args!(
            "has {wildcards} wildcards, and AWS takes {}: make two rules, or use a regular expression",
            limits.wildcards
        ));
    }
    Ok(())
}

fn hosts(rule: &RuleSpec, field: &Field<'_>) -> Result<Option<Condition>, Complaint> {
    if rule.hosts.is_empty() {
        return Ok(regexes(&rule.host_regexes, &field.name("hostRegexes"))?.map(Condition::Host));
    }
    if !rule.host_regexes.is_empty() {
        return field.complain("has hosts and hostRegexes: make two rules");
    }
    let list = field.name("hosts");
    let hosts = rule.hosts.iter().enumerate().map(|(index, it)| host(it, &list.item(index)));
    Ok(Some(Condition::Host(Match::Wildcards(hosts.collect::<Result<_, _>>()?))))
}

fn source(cidr: &str, field: &Field<'_>) -> Result<String, Complaint> {
    let network = text::network(cidr, field)?;
    if network == NO_SOURCE {
        return field
            .complain("is the address of a broadcast, which AWS does not take: take it out, or use a larger network");
    }
    Ok(network)
}

/// A host. It has a dot and ends in letters; wildcards may stand anywhere.
fn host(host: &str, field: &Field<'_>) -> Result<String, Complaint> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-.*?".contains(c);
    text::of_characters(host, 1, LONGEST, field, allowed, "letters, digits, - and ., and * and ? as wildcards")?;
    let ends_well = |end: &str| !end.is_empty() && end.chars().all(|c| c.is_ascii_alphabetic() || "*?".contains(c));
    match host.rsplit_once('.') {
        Some((start, end)) if !start.is_empty() && !start.starts_with('.') && ends_well(end) => {
            Ok(host.to_ascii_lowercase())
        }
        _ => field.complain("must be a host with a dot, and only letters after the last one, such as shop.example.com"),
    }
}

fn paths(paths: &[PathMatch], field: &Field<'_>) -> Result<Option<Condition>, Complaint> {
    let (mut patterns, mut expressions) = (BTreeSet::new(), BTreeSet::new());
    for (index, path) in paths.iter().enumerate() {
        let item = field.item(index);
        let (value, text) = (item.name("value"), path.value.as_str());
        match path.kind {
            PathType::Regex => {
                regex(text, LONGEST, &value)?;
                expressions.insert(text.to_owned());
            }
            PathType::Pattern => {
                pattern(text, &value)?;
                patterns.insert(text.to_owned());
            }
            PathType::Exact => {
                literal(text, &value)?;
                patterns.insert(text.to_owned());
            }
            PathType::Prefix => {
                literal(text, &value)?;
                patterns.extend(prefix(text, &value)?);
            }
        }
    }
    match (patterns.is_empty(), expressions.is_empty()) {
        (true, true) => Ok(None),
        (false, true) => Ok(Some(Condition::Path(Match::Wildcards(patterns)))),
        (true, false) => Ok(Some(Condition::Path(Match::Regex(expressions)))),
        (false, false) => field.complain("has type Regex beside other types, which AWS cannot mix: make two rules"),
    }
}

/// The path and everything below it; a slash at its end changes nothing.
fn prefix(path: &str, field: &Field<'_>) -> Result<Vec<String>, Complaint> {
    let path = path.trim_end_matches('/');
    let below = format!("{path}/*");
    if below.len() > LONGEST {
        return field.complain(format_args!("is too long for type Prefix: use at most {} characters", LONGEST - 2));
    }
    Ok(if path.is_empty() { vec![below] } else { vec![path.to_owned(), below] })
}

/// Checks a path without wildcards.
fn literal(path: &str, field: &Field<'_>) -> Result<(), Complaint> {
    if path.contains(['*', '?']) {
        return field.complain("has * or ?, which are wildcards to AWS: use type Pattern, or Regex with \\* or \\?");
    }
    pattern(path, field)
}

fn pattern(path: &str, field: &Field<'_>) -> Result<(), Complaint> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.$/~\"'@:+&*?".contains(c);
    let kind = "letters, digits and _ - . $ / ~ \" ' @ : + &, or type Regex";
    text::of_characters(path, 1, LONGEST, field, allowed, kind)?;
    if path.starts_with(['/', '*', '?']) {
        Ok(())
    } else {
        field.complain(format_args!("must begin with /: write /{path}"))
    }
}

fn condition_of_header(header: &HeaderMatch, field: &Field<'_>) -> Result<Condition, Complaint> {
    let name = field.name("name");
    let allowed = |c: char| c.is_ascii_alphanumeric() || "!#$%&'+.^_`|~-".contains(c);
    text::of_characters(&header.name, 1, LONGEST_NAME, &name, allowed, "letters, digits and hyphens, no wildcards")?;
    if header.name.eq_ignore_ascii_case("host") {
        return name.complain("must not be host: use the rule's hosts");
    }
    let list = field.name("values");
    for (index, value) in header.values.iter().enumerate() {
        text::printable(value, 1, LONGEST, &list.item(index))?;
    }
    let expressions = regexes(&header.regexes, &field.name("regexes"))?;
    let values = match (header.values.is_empty(), expressions) {
        (true, Some(expressions)) => expressions,
        (false, None) => Match::Wildcards(header.values.iter().cloned().collect()),
        _ => return field.complain("needs values or regexes, and not both"),
    };
    Ok(Condition::Header { name: header.name.to_ascii_lowercase(), values })
}

fn regexes(expressions: &[String], field: &Field<'_>) -> Result<Option<Match>, Complaint> {
    for (index, expression) in expressions.iter().enumerate() {
        regex(expression, LONGEST, &field.item(index))?;
    }
    Ok((!expressions.is_empty()).then(|| Match::Regex(expressions.iter().cloned().collect())))
}

fn query(pairs: &[QueryMatch], field: &Field<'_>) -> Result<Condition, Complaint> {
    let pairs = pairs.iter().enumerate().map(|(index, pair)| query_pair(pair, &field.item(index)));
    Ok(Condition::Query(pairs.collect::<Result<_, _>>()?))
}

fn query_pair(pair: &QueryMatch, field: &Field<'_>) -> Result<(Option<String>, String), Complaint> {
    if let Some(key) = &pair.key {
        text::printable(key, 1, LONGEST, &field.name("key"))?;
    }
    text::printable(&pair.value, 1, LONGEST, &field.name("value"))?;
    Ok((pair.key.clone(), pair.value.clone()))
}

fn methods(methods: &[String], field: &Field<'_>) -> Result<Condition, Complaint> {
    let allowed = |c: char| c.is_ascii_uppercase() || c == '-' || c == '_';
    for (index, method) in methods.iter().enumerate() {
        text::of_characters(method, 1, LONGEST_NAME, &field.item(index), allowed, "capital letters, such as GET")?;
    }
    Ok(Condition::Method(methods.iter().cloned().collect()))
}

/// The number of values, as AWS counts them.
fn values(condition: &Condition) -> usize {
    match condition {
        Condition::Host(it) | Condition::Path(it) | Condition::Header { values: it, .. } => match it {
            Match::Wildcards(texts) | Match::Regex(texts) => texts.len(),
        },
        Condition::Query(pairs) => pairs.len(),
        Condition::Method(texts) | Condition::SourceIp(texts) => texts.len(),
        Condition::Unknown(_) => 0,
    }
}

/// The number of wildcards, as AWS counts them. A backslash before a wildcard takes its meaning away.
fn wildcards(condition: &Condition) -> usize {
    match condition {
        Condition::Host(Match::Wildcards(texts))
        | Condition::Path(Match::Wildcards(texts))
        | Condition::Header { values: Match::Wildcards(texts), .. } => texts.iter().map(|it| stars(it)).sum(),
        Condition::Query(pairs) => {
            pairs.iter().map(|(key, value)| key.as_deref().map_or(0, stars) + stars(value)).sum()
        }
        _ => 0,
    }
}

fn stars(text: &str) -> usize {
    let mut before = ' ';
    text.chars().filter(|&c| std::mem::replace(&mut before, c) != '\\' && (c == '*' || c == '?')).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixtures;
    use serde_json::{Value, json};

    fn parse_rule(rule: Value) -> Result<Vec<Condition>, String> {
        let mut rule = rule;
        rule["action"] = json!({ "fixedResponse": { "statusCode": 200 } });
        let rule: RuleSpec = serde_json::from_value(rule).unwrap();
        conditions(&rule, &Limits::default(), &Field::spec())
            .map(|it| it.into_iter().collect())
            .map_err(|complaint| complaint.message)
    }

    fn texts(values: &[&str]) -> BTreeSet<String> {
        values.iter().map(|it| (*it).to_owned()).collect()
    }

    #[test]
    fn a_prefix_is_the_path_and_everything_below_it() {
        for (prefix, patterns) in
            [("/shop", vec!["/shop", "/shop/*"]), ("/shop/", vec!["/shop", "/shop/*"]), ("/", vec!["/*"])]
        {
            let wanted = vec![Condition::Path(Match::Wildcards(texts(&patterns)))];
            assert_eq!(parse_rule(json!({ "paths": [{ "value": prefix }] })).unwrap(), wanted);
        }
    }

    #[test]
    fn names_are_in_lower_case_and_values_are_unique() {
        let rule = json!({
            "hosts": ["Shop.Example.com", "shop.example.com"],
            "headers": [{ "name": "X-Tenant", "values": ["Gold"] }, { "name": "x-tenant", "values": ["Gold"] }],
            "sourceCidrs": ["10.1.2.3/8", "10.0.0.0/8"],
        });
        let wanted = vec![
            Condition::Host(Match::Wildcards(texts(&["shop.example.com"]))),
            Condition::Header { name: "x-tenant".into(), values: Match::Wildcards(texts(&["Gold"])) },
            Condition::SourceIp(texts(&["10.0.0.0/8"])),
        ];
        assert_eq!(parse_rule(rule).unwrap(), wanted);
    }

    #[test]
    fn every_kind_is_converted() {
        let rule = json!({
            "hostRegexes": ["^a"], "paths": [{ "type": "Regex", "value": "^/v[0-9]" }],
            "headers": [{ "name": "X", "regexes": ["b+"] }],
            "query": [{ "value": "v" }], "methods": ["GET"],
        });
        let wanted = vec![
            Condition::Host(Match::Regex(texts(&["^a"]))),
            Condition::Path(Match::Regex(texts(&["^/v[0-9]"]))),
            Condition::Header { name: "x".into(), values: Match::Regex(texts(&["b+"])) },
            Condition::Query(BTreeSet::from([(None, "v".into())])),
            Condition::Method(texts(&["GET"])),
        ];
        assert_eq!(parse_rule(rule).unwrap(), wanted);
    }

    #[test]
    fn query_needs_one_match_and_query_all_needs_each() {
        let pair = |key: &str| json!({ "key": key, "value": "1" });
        let one = |keys: &[&str]| Condition::Query(keys.iter().map(|key| (Some((*key).into()), "1".into())).collect());
        let rule = json!({ "query": [pair("a"), pair("b")], "queryAll": [pair("c"), pair("d")] });
        assert_eq!(parse_rule(rule).unwrap(), [one(&["a", "b"]), one(&["c"]), one(&["d"])]);
        let message = parse_rule(json!({ "queryAll": [{ "key": "a", "value": "é" }] })).unwrap_err();
        assert!(message.starts_with("spec.queryAll[0].value has"), "{message}");
    }

    #[test]
    fn two_conditions_on_one_header_both_hold() {
        let rule = json!({ "headers": [{ "name": "a", "values": ["*x*"] }, { "name": "a", "values": ["*y*"] }] });
        assert_eq!(parse_rule(rule).unwrap().len(), 2);
    }

    #[test]
    fn what_aws_would_refuse_is_named_with_field_and_fix() {
        let path = |kind: &str, value: &str| json!({ "paths": [{ "type": kind, "value": value }] });
        let header = |name: &str| json!({ "headers": [{ "name": name, "values": ["v"] }] });
        for (rule, words) in [
            (json!({}), "spec needs a condition: for all requests, use the listener's defaultAction"),
            (json!({ "hosts": ["a.b"], "hostRegexes": ["a"] }), "spec has hosts and hostRegexes: make two rules"),
            (json!({ "hosts": ["localhost"] }), "spec.hosts[0] must be a host with a dot"),
            (json!({ "hosts": ["a.b", "10.0.0.1"] }), "spec.hosts[1] must be a host with a dot"),
            (json!({ "hosts": ["a_b.com"] }), "spec.hosts[0] has '_', which AWS does not take"),
            (
                path("Exact", "/a*"),
                r"spec.paths[0].value has * or ?, which are wildcards to AWS: use type Pattern, or Regex",
            ),
            (path("Prefix", "/a?"), "spec.paths[0].value has * or ?"),
            (path("Prefix", "shop"), "spec.paths[0].value must begin with /: write /shop"),
            (path("Pattern", "/a b"), "spec.paths[0].value has ' ', which AWS does not take"),
            (path("Exact", "/a\n"), r"spec.paths[0].value has '\n', which AWS does not take"),
            (
                path("Prefix", &format!("/{}", "x".repeat(126))),
                "spec.paths[0].value is too long for type Prefix: use at most 126",
            ),
            (path("Regex", "("), "spec.paths[0].value is no regular expression that AWS takes: unclosed group"),
            (
                json!({ "paths": [{ "value": "/a" }, { "type": "Regex", "value": "b" }] }),
                "spec.paths has type Regex beside",
            ),
            (header("a*"), "spec.headers[0].name has '*'"),
            (header("Host"), "spec.headers[0].name must not be host: use the rule's hosts"),
            (json!({ "headers": [{ "name": "a" }] }), "spec.headers[0] needs values or regexes, and not both"),
            (json!({ "query": [{ "key": "", "value": "v" }] }), "spec.query[0].key has 0 characters: use 1 to 128"),
            (json!({ "query": [{ "value": "é" }] }), "spec.query[0].value has 'é'"),
            (json!({ "methods": ["get"] }), "spec.methods[0] has 'g', which AWS does not take: use capital letters"),
            (
                json!({ "sourceCidrs": ["10.0.0.0"] }),
                "spec.sourceCidrs[0] must be a network: for this one address write 10.0.0.0/32",
            ),
            (json!({ "sourceCidrs": ["255.255.255.255/32"] }), "spec.sourceCidrs[0] is the address of a broadcast"),
        ] {
            let message = parse_rule(rule).unwrap_err();
            assert!(message.contains(words), "{message}\nshould say: {words}");
        }
    }

    #[test]
    fn values_and_wildcards_are_counted_as_aws_counts_them() {
        let paths = |number: usize, kind: &str| -> Value {
            (0..number).map(|it| json!({ "type": kind, "value": format!("/{it}") })).collect()
        };
        assert!(parse_rule(json!({ "paths": paths(5, "Exact") })).is_ok());
        assert!(parse_rule(json!({ "paths": paths(2, "Prefix"), "methods": ["GET"] })).is_ok());
        let message = parse_rule(json!({ "paths": paths(3, "Prefix") })).unwrap_err();
        assert_eq!(
            message,
            "spec has 6 condition values, and AWS takes 5 (a Prefix path counts as two): make two rules"
        );
        let stars = |text: &str| parse_rule(json!({ "query": [{ "key": "a", "value": text }] }));
        assert!(stars("*****").is_ok());
        assert!(stars(r"*****\*").is_ok());
        assert!(stars("******").unwrap_err().contains("has 6 wildcards, and AWS takes 5"));
    }

    #[test]
    fn a_complaint_says_which_rule() {
        let rule = json!({ "hosts": ["x"], "action": { "fixedResponse": { "statusCode": 200 } } });
        let spec = json!({ "listeners": [{ "port": 80, "rules": [rule] }] });
        let (reason, message) = fixtures::complaint(spec);
        assert_eq!(reason, "RuleInvalid");
        assert!(message.starts_with("spec.listeners[0].rules[0].hosts[0] must be a host"), "{message}");
    }
}
