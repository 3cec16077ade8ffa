//! Certificates of AWS Certificate Manager.
//!
//! <https://docs.aws.amazon.com/acm/latest/APIReference/Welcome.html>

mod certificate;

use std::collections::BTreeSet;

use aws_config::SdkConfig;
use aws_sdk_acm::Client;
use aws_sdk_acm::config::Builder;
use aws_sdk_acm::types::{CertificateStatus, CertificateSummary, Filters, KeyAlgorithm};
use jiff::Timestamp;

use causeway_runtime::Class;
use causeway_runtime::leader::Fence;
use causeway_runtime::metrics::Metrics;

use super::aws::{AwsError, Caller, FenceGuard, timeouts};
use super::budget::Budget;

pub use certificate::Certificate;

/// A page of `ListCertificates` has at most this many certificates.
const PAGE: i32 = 1000;

/// The API of one region and account.
#[derive(Clone, Debug)]
pub struct Acm {
    client: Client,
    caller: Caller,
}

impl Acm {
    /// A client that counts into `metrics` and changes things only while `fence` is open.
    pub fn new(config: &SdkConfig, metrics: Metrics, fence: Fence) -> Self {
        Self {
            client: Client::from_conf(
                Builder::from(config).timeout_config(timeouts()).interceptor(FenceGuard(fence)).build(),
            ),
            caller: Caller { service: "acm", metrics, class_of, budget: Budget::without_limit() },
        }
    }

    /// Every certificate of the region that is issued, whatever its key.
    pub async fn issued_certificates(&self) -> Result<Vec<Certificate>, AwsError> {
        let mut certificates = Vec::new();
        let mut token = None;
        loop {
            let call = self
                .client
                .list_certificates()
                .certificate_statuses(CertificateStatus::Issued)
                .includes(any_key())
                .max_items(PAGE)
                .set_next_token(token);
            let page = self.caller.call_again("ListCertificates", || call.clone().send()).await?;
            let listed = page.certificate_summary_list.unwrap_or_default().into_iter();
            certificates.extend(listed.filter_map(Certificate::from_aws));
            token = page.next_token.filter(|token| !token.is_empty());
            if token.is_none() {
                return Ok(certificates);
            }
        }
    }
}

/// Without this filter AWS lists only certificates with some RSA keys.
/// <https://docs.aws.amazon.com/acm/latest/APIReference/API_Filters.html>
fn any_key() -> Filters {
    Filters::builder().set_key_types(Some(KeyAlgorithm::values().iter().map(|&it| it.into()).collect())).build()
}

impl Certificate {
    fn from_aws(summary: CertificateSummary) -> Option<Self> {
        let mut names: BTreeSet<String> =
            summary.subject_alternative_name_summaries.unwrap_or_default().into_iter().collect();
        names.extend(summary.domain_name);
        Some(Self {
            arn: summary.certificate_arn?,
            names,
            expires: summary.not_after.and_then(|end| Timestamp::from_second(end.secs()).ok()),
        })
    }
}

/// Classes of the service's own codes.
/// <https://docs.aws.amazon.com/acm/latest/APIReference/API_ListCertificates.html#API_ListCertificates_Errors>
fn class_of(code: &str) -> Option<Class> {
    Some(match code {
        "InvalidArgsException" | "ValidationException" => Class::Invalid,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_domain_is_one_of_the_names() {
        let summary = CertificateSummary::builder()
            .certificate_arn("arn")
            .domain_name("example.com")
            .subject_alternative_name_summaries("*.example.com")
            .not_after(aws_sdk_acm::primitives::DateTime::from_secs(0));
        let expected = Certificate {
            arn: "arn".into(),
            names: ["*.example.com", "example.com"].map(Into::into).into(),
            expires: Some(Timestamp::UNIX_EPOCH),
        };
        assert_eq!(Certificate::from_aws(summary.build()), Some(expected));
    }

    #[test]
    fn elliptic_curves_are_asked_for_as_well() {
        assert!(any_key().key_types().contains(&KeyAlgorithm::EcPrime256v1));
    }
}
