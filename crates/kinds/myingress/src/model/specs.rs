//! Arbitrary objects. Tame ones are valid by themselves and may contradict each other; wild ones are anything that the
//! types can hold.

use proptest::collection::{btree_map, vec};
use proptest::option::{of, weighted};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use causeway_api::MyIngress;

use super::fixtures::born;

/// An object called `name`. One in five is wild.
pub fn member(name: &'static str) -> impl Strategy<Value = MyIngress> {
    (prop_oneof![4 => spec(false), 1 => spec(true)], 0..3_i64).prop_map(move |(spec, second)| born(name, second, spec))
}

/// The values to draw: the usual ones, or wild ones as well.
#[derive(Clone, Copy)]
struct Taste {
    wild: bool,
}

impl Taste {
    fn one_of(self, words: &'static [&'static str]) -> BoxedStrategy<Value> {
        let word = prop::sample::select(words).prop_map(|it| json!(it));
        if self.wild { prop_oneof![3 => word, 1 => text()].boxed() } else { word.boxed() }
    }

    fn number(self, tame: std::ops::RangeInclusive<u16>) -> BoxedStrategy<Value> {
        let number = tame.prop_map(|it| json!(it));
        if self.wild {
            prop_oneof![3 => number, 1 => any::<u16>().prop_map(|it| json!(it))].boxed()
        } else {
            number.boxed()
        }
    }

    /// An odd value, but only where things are wild.
    fn oddity(self, odd: impl Strategy<Value = Value>) -> impl Strategy<Value = Option<Value>> {
        weighted(0.2, odd).prop_map(move |odd| odd.filter(|_| self.wild))
    }

    fn pairs(self, key: &'static str, values: &'static [&'static str]) -> impl Strategy<Value = Option<Value>> {
        let key = if self.wild {
            prop_oneof![2 => Just(key.to_owned()), 1 => "\\PC{0,5}"].boxed()
        } else {
            Just(key.to_owned()).boxed()
        };
        weighted(0.2, btree_map(key, self.one_of(values), 0..3).prop_map(|it| Value::Object(it.into_iter().collect())))
    }

    fn listener(self, port: u16) -> BoxedStrategy<Value> {
        let arns = weighted(0.3, self.one_of(&["arn:aws:acm:eu-west-1:000000000000:certificate/a"]));
        let arns = arns.prop_map(move |arn| arn.filter(|_| port == 443));
        let odd = (self.oddity(self.number(0..=9)), self.oddity(self.one_of(&["HTTP", "HTTPS"])));
        let attributes = self.pairs("routing.http.response.server.enabled", &["true", "false"]);
        let rules = vec(self.rule(), 1..5);
        (odd, arns, weighted(0.2, self.action()), rules, attributes)
            .prop_map(move |((other_port, protocol), arn, default, rules, attributes)| {
                object([
                    ("port", Some(other_port.unwrap_or(json!(port)))),
                    ("protocol", protocol.filter(|it| it == "HTTP" || it == "HTTPS")),
                    ("certificateArns", arn.map(|arn| json!([arn]))),
                    ("defaultAction", default),
                    ("rules", Some(Value::Array(rules))),
                    ("attributes", attributes),
                ])
            })
            .boxed()
    }

    fn rule(self) -> BoxedStrategy<Value> {
        let hosts = vec(self.one_of(&["a.example.com", "*.example.org"]), 1..=2);
        let paths = of(self.one_of(&["/", "/a", "/b/"]));
        let kind = self.oddity(prop::sample::select(&["Exact", "Pattern", "Regex"]).prop_map(|it| json!(it)));
        let headers = self.oddity((text(), text(), text()).prop_map(
            |(name, value, regex)| json!([{ "name": name, "values": [value] }, { "name": "x", "regexes": [regex] }]),
        ));
        let query = self.oddity(text().prop_map(|value| json!([{ "key": value, "value": value }])));
        let rewrite = self.oddity(text().prop_map(|it| json!({ "url": { "regex": it, "replace": it } })));
        let networks = of(self.one_of(&["10.0.0.0/8", "10.1.2.3/8", "::/0"]));
        let priority = weighted(0.1, self.number(1..=12));
        (hosts, (paths, kind), (headers, query), networks, (priority, rewrite), self.action())
            .prop_map(|(hosts, (path, kind), (headers, query), network, (priority, rewrite), action)| {
                let kind = kind.unwrap_or(json!("Prefix"));
                object([
                    ("hosts", Some(Value::Array(hosts))),
                    ("paths", path.map(|path| json!([{ "type": kind, "value": path }]))),
                    ("headers", headers),
                    ("query", query),
                    ("sourceCidrs", network.map(|network| json!([network]))),
                    ("priority", priority),
                    ("rewrite", rewrite),
                    ("action", Some(action)),
                ])
            })
            .boxed()
    }

    fn action(self) -> BoxedStrategy<Value> {
        let forward = (self.one_of(&["app", "api"]), of(self.number(0..=999))).prop_map(
            |(name, weight)| json!({ "forward": { "backends": [object([("name", Some(name)), ("weight", weight)])] } }),
        );
        let response = (self.number(400..=599), of(self.one_of(&["sorry"])))
            .prop_map(|(status, body)| json!({ "fixedResponse": { "statusCode": status, "body": body } }));
        let redirect =
            self.one_of(&["example.org"]).prop_map(|host| json!({ "redirect": { "host": host, "path": "/#{path}" } }));
        let token =
            self.oddity(text().prop_map(|it| json!({ "issuer": it, "jwksEndpoint": "https://i.example.com/k" })));
        (prop_oneof![3 => forward, 2 => response, 1 => redirect], token)
            .prop_map(|(mut action, token)| {
                if let Some(token) = token {
                    action["validateJwt"] = token;
                }
                action
            })
            .boxed()
    }

    fn backend(self, name: &'static str) -> BoxedStrategy<Value> {
        let name = self.one_of(if name == "app" { &["app"] } else { &["api"] });
        let check = of((self.number(6..=300), self.one_of(&["200", "200-299"])));
        let version = self.oddity(prop::sample::select(&["HTTP2", "GRPC"]).prop_map(|it| json!(it)));
        let attributes = self.pairs("slow_start.duration_seconds", &["0", "30"]);
        (name, self.one_of(&["http", "8080"]), check, version, attributes)
            .prop_map(|(name, port, check, version, attributes)| {
                object([
                    ("name", Some(name)),
                    ("port", Some(port)),
                    (
                        "healthCheck",
                        check.map(
                            |(interval, codes)| json!({ "interval": format!("{interval}s"), "successCodes": codes }),
                        ),
                    ),
                    ("protocolVersion", version),
                    ("attributes", attributes),
                ])
            })
            .boxed()
    }
}

fn spec(wild: bool) -> BoxedStrategy<Value> {
    let taste = Taste { wild };
    let subnets = weighted(0.7, taste.one_of(&["subnet-b", "subnet-b", "subnet-b", "subnet-c"]));
    let scheme = weighted(0.1, Just(json!("internal")));
    let networks = weighted(0.2, taste.one_of(&["10.0.0.0/8", "::/0"]));
    let tags = taste.pairs("team", &["shop", "shop", "cart"]);
    let attributes = taste.pairs("idle_timeout.timeout_seconds", &["60", "90"]);
    let listeners = (weighted(0.7, taste.listener(80)), weighted(0.5, taste.listener(443)));
    let backends = (taste.backend("app"), taste.backend("api"));
    let order = of(0..3_u16);
    ((subnets, scheme, networks), tags, attributes, listeners, backends, order)
        .prop_map(|((subnet, scheme, network), tags, attributes, (http, https), (app, api), order)| {
            object([
                ("group", Some(json!({ "name": "all", "order": order }))),
                ("subnets", subnet.map(|subnet| json!(["subnet-a", subnet]))),
                ("scheme", scheme),
                ("inboundCidrs", network.map(|network| json!([network]))),
                ("tags", tags),
                ("attributes", attributes),
                ("listeners", Some([http, https].into_iter().flatten().collect())),
                ("backends", Some(json!([app, api]))),
            ])
        })
        .boxed()
}

/// Anything at all.
fn text() -> impl Strategy<Value = Value> {
    prop_oneof![3 => "[a-z/*?.(#{}\\\\]{1,9}", 1 => any::<String>(), 1 => "[ -~\n]{120,130}"].prop_map(Value::String)
}

fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let user_provided =
        fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value.filter(|it| !it.is_null())?)));
    Value::Object(user_provided.collect::<Map<_, _>>())
}
