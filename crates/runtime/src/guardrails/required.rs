//! The demands of a namespace on its databases, by an annotation. Users who may only use objects in the namespace
//! cannot change its annotations. Pure.

/// The annotation of a namespace: `auth`, `tls` or both, separated by a comma.
pub const REQUIRE: &str = "causeway.example.com/require";

/// The demands of a namespace on its databases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Required {
    /// Clients must log in.
    pub auth: bool,
    /// Clients must speak TLS.
    pub tls: bool,
    /// The origin of the demand, for use in a sentence.
    pub by: String,
}

impl Required {
    /// Parses the annotation's value. An unknown word demands both, because its author may have meant either.
    pub fn parse(namespace: &str, value: Option<&str>) -> Self {
        let Some(value) = value else { return Self::default() };
        let words: Vec<&str> = value.split(',').map(str::trim).collect();
        let wrong = words.iter().any(|word| !["auth", "tls"].contains(word));
        let note = if wrong { "; its value must be auth, tls or auth,tls, and any other demands both" } else { "" };
        Self {
            auth: wrong || words.contains(&"auth"),
            tls: wrong || words.contains(&"tls"),
            by: format!("annotation {REQUIRE}: {value:?} of namespace {namespace}{note}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_annotation_demands_everything() {
        let demands = |value: &str| {
            let required = Required::parse("shop", Some(value));
            (required.auth, required.tls, required.by.contains("must be auth, tls or auth,tls"))
        };
        assert_eq!(Required::parse("shop", None), Required::default());
        assert_eq!(demands("auth"), (true, false, false));
        assert_eq!(demands("tls"), (false, true, false));
        assert_eq!(demands("auth, tls"), (true, true, false));
        for wrong in ["", "Auth", "auth,mtls", "auth tls", "none"] {
            assert_eq!(demands(wrong), (true, true, true), "{wrong}");
        }
    }
}
