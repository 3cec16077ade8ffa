//! The rewrites of a rule, and how AWS writes them.

use aws_sdk_elasticloadbalancingv2::types::{
    HostHeaderRewriteConfig, RewriteConfig, RuleTransform, TransformTypeEnum, UrlRewriteConfig,
};

/// A rewrite of a part of a request.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_RuleTransform.html>
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transform {
    /// The part that is rewritten.
    pub part: TransformedPart,
    /// Regular expression, with capture groups.
    pub regex: String,
    /// The replacement; `$1` is the first capture group.
    pub replacement: String,
}

/// The part that a [`Transform`] rewrites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TransformedPart {
    /// The path and the query.
    Url,
    /// The value of the `Host` header.
    Host,
    /// A part that this program does not know.
    Unknown,
}

impl Transform {
    /// Returns the rewrite in AWS's form.
    pub(super) fn to_aws(&self) -> RuleTransform {
        let rewrite = RewriteConfig::builder().regex(&self.regex).replace(&self.replacement).build();
        let transform = RuleTransform::builder();
        match self.part {
            TransformedPart::Url => transform
                .r#type(TransformTypeEnum::UrlRewrite)
                .url_rewrite_config(UrlRewriteConfig::builder().rewrites(rewrite).build()),
            TransformedPart::Host => transform
                .r#type(TransformTypeEnum::HostHeaderRewrite)
                .host_header_rewrite_config(HostHeaderRewriteConfig::builder().rewrites(rewrite).build()),
            TransformedPart::Unknown => transform.r#type(TransformTypeEnum::from("unknown")),
        }
        .build()
    }

    /// Converts from AWS's form, sorted by part. A rule has at most one of each, and AWS promises no order.
    pub(super) fn from_aws(transforms: Vec<RuleTransform>) -> Vec<Self> {
        let mut read: Vec<Self> = transforms.into_iter().flat_map(one_from_aws).collect();
        read.sort_by_key(|transform| transform.part);
        read
    }
}

fn one_from_aws(transform: RuleTransform) -> Vec<Transform> {
    let (part, rewrites) = match transform.r#type {
        Some(TransformTypeEnum::UrlRewrite) => {
            (TransformedPart::Url, transform.url_rewrite_config.and_then(|it| it.rewrites))
        }
        Some(TransformTypeEnum::HostHeaderRewrite) => {
            (TransformedPart::Host, transform.host_header_rewrite_config.and_then(|it| it.rewrites))
        }
        _ => (TransformedPart::Unknown, Some(vec![RewriteConfig::builder().build()])),
    };
    let rewrite = |it: RewriteConfig| Transform {
        part,
        regex: it.regex.unwrap_or_default(),
        replacement: it.replace.unwrap_or_default(),
    };
    rewrites.unwrap_or_default().into_iter().map(rewrite).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::option;
    use proptest::prelude::*;

    /// At most one of each part, in their order.
    pub fn any_transforms() -> impl Strategy<Value = Vec<Transform>> {
        let one = || option::of(("[a-z^$()]{1,6}", "[a-z$1]{0,6}"));
        (one(), one()).prop_map(|(url, host)| {
            let parts = [(TransformedPart::Url, url), (TransformedPart::Host, host)].into_iter();
            let transform = |part, (regex, replacement)| Transform { part, regex, replacement };
            parts.filter_map(|(part, rewrite)| Some(transform(part, rewrite?))).collect()
        })
    }

    proptest! {
        #[test]
        fn what_was_written_reads_back_equal_in_any_order(transforms in any_transforms()) {
            let mut described: Vec<RuleTransform> = transforms.iter().map(Transform::to_aws).collect();
            described.reverse();
            prop_assert_eq!(Transform::from_aws(described), transforms);
        }
    }

    #[test]
    fn a_transform_of_the_future_is_not_overlooked() {
        let described = RuleTransform::builder().r#type(TransformTypeEnum::from("body-rewrite")).build();
        assert_eq!(Transform::from_aws(vec![described])[0].part, TransformedPart::Unknown);
    }
}
