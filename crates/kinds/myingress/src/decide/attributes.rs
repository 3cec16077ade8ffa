//! Which attributes are not as they should be.

use causeway_aws::elbv2::Pairs;

/// The part of `wanted` that differs from `present`. AWS may leave out of its answer what still has the default of a
/// new resource. So an absent attribute counts as its default, and is no change.
pub fn drifted<'a>(wanted: &Pairs, present: &Pairs, default: impl Fn(&str) -> Option<&'a str>) -> Pairs {
    let differs = |(key, value): &(&String, &String)| match present.get(*key) {
        Some(present) => present != *value,
        None => default(key) != Some(value.as_str()),
    };
    wanted.iter().filter(differs).map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Pairs {
        pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    #[test]
    fn what_is_absent_has_its_default() {
        let default = |key: &str| (key == "known").then_some("off");
        let wanted = pairs(&[("known", "off"), ("other", "on")]);
        assert_eq!(drifted(&wanted, &pairs(&[("other", "on")]), default), pairs(&[]));
        assert_eq!(drifted(&pairs(&[("known", "on")]), &pairs(&[]), default), pairs(&[("known", "on")]));
    }

    #[test]
    fn what_is_there_counts_whatever_the_default_is() {
        let default = |_: &str| Some("off");
        assert_eq!(drifted(&pairs(&[("a", "off")]), &pairs(&[("a", "on")]), default), pairs(&[("a", "off")]));
        assert_eq!(drifted(&pairs(&[("a", "on")]), &pairs(&[("a", "on")]), default), pairs(&[]));
    }

    #[test]
    fn what_is_absent_and_has_no_known_default_is_set() {
        assert_eq!(drifted(&pairs(&[("new", "1")]), &pairs(&[]), |_| None), pairs(&[("new", "1")]));
    }
}
