//! The URL of EC2 in a region, by the rules of AWS's own clients. They keep their list of partitions to themselves: a
//! test compares it with the list here.
//!
//! <https://docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html>

use aws_config::SdkConfig;
use aws_types::service_config::ServiceConfigKey;

/// Where regions of a partition begin alike, and the suffixes of the names of services there: the usual one, and the one
/// of names that have IPv6 addresses, too.
const PARTITIONS: [(&str, &str, &str); 6] = [
    ("cn-", "amazonaws.com.cn", "api.amazonwebservices.com.cn"),
    ("eusc-", "amazonaws.eu", "api.amazonwebservices.eu"),
    ("us-iso-", "c2s.ic.gov", "api.aws.ic.gov"),
    ("us-isob-", "sc2s.sgov.gov", "api.aws.scloud"),
    ("us-isof-", "csp.hci.ic.gov", "api.aws.hci.ic.gov"),
    ("eu-isoe-", "cloud.adc-e.uk", "api.cloud-aws.adc-e.uk"),
];

/// The suffixes in all other regions, those of `GovCloud` too.
const USUAL: (&str, &str) = ("amazonaws.com", "api.aws");

/// The URL as configured for EC2 or for all services, or else AWS's own.
pub fn endpoint(config: &SdkConfig) -> String {
    let key = ServiceConfigKey::builder().service_id("EC2").env("AWS_ENDPOINT_URL").profile("endpoint_url").build();
    let own = config.service_config().zip(key.ok()).and_then(|(settings, key)| settings.load_config(key));
    own.or_else(|| config.endpoint_url().map(str::to_owned)).unwrap_or_else(|| {
        let region = config.region().map(AsRef::as_ref).unwrap_or_default();
        aws_url(region, config.use_fips().unwrap_or_default(), config.use_dual_stack().unwrap_or_default())
    })
}

/// AWS's own URL: the rules of botocore's data/ec2/2016-11-15/endpoint-rule-set-1.json.
fn aws_url(region: &str, fips: bool, dual_stack: bool) -> String {
    let partition = PARTITIONS.iter().find(|(regions, ..)| region.starts_with(regions));
    let (usual, both) = partition.map_or(USUAL, |(_, usual, both)| (usual, both));
    // GovCloud's usual name is the one with FIPS.
    let host = if fips && (dual_stack || !region.starts_with("us-gov-")) { "ec2-fips" } else { "ec2" };
    format!("https://{host}.{region}.{}", if dual_stack { both } else { usual })
}

#[cfg(test)]
mod tests {
    use aws_config::Region;
    use aws_sdk_elasticloadbalancingv2::config::endpoint::{DefaultResolver, Params, ResolveEndpoint};
    use aws_types::service_config::LoadServiceConfig;
    use futures::FutureExt;

    use super::*;

    fn sdk_config(region: &'static str) -> aws_types::sdk_config::Builder {
        SdkConfig::builder().region(Region::new(region))
    }

    #[test]
    fn ec2_answers_where_awss_own_list_has_it() {
        // <https://docs.aws.amazon.com/general/latest/gr/ec2-service.html>, and the rules of botocore's
        // data/ec2/2016-11-15/endpoint-rule-set-1.json.gz, read in November 2026.
        for (config, url) in [
            (sdk_config("eu-west-1"), "https://ec2.eu-west-1.amazonaws.com"),
            (sdk_config("us-east-1").use_fips(true), "https://ec2-fips.us-east-1.amazonaws.com"),
            (sdk_config("eu-west-1").use_dual_stack(true), "https://ec2.eu-west-1.api.aws"),
            (sdk_config("us-east-1").use_fips(true).use_dual_stack(true), "https://ec2-fips.us-east-1.api.aws"),
            (sdk_config("cn-north-1"), "https://ec2.cn-north-1.amazonaws.com.cn"),
            (sdk_config("us-gov-west-1"), "https://ec2.us-gov-west-1.amazonaws.com"),
            (sdk_config("us-gov-west-1").use_fips(true), "https://ec2.us-gov-west-1.amazonaws.com"),
            (sdk_config("us-iso-east-1"), "https://ec2.us-iso-east-1.c2s.ic.gov"),
            (sdk_config("eu-west-1").endpoint_url("http://127.0.0.1:4566"), "http://127.0.0.1:4566"),
        ] {
            assert_eq!(endpoint(&config.build()), url);
        }
    }

    /// The environment with `AWS_ENDPOINT_URL_EC2`.
    #[derive(Debug)]
    struct OwnUrl;

    impl LoadServiceConfig for OwnUrl {
        fn load_config(&self, key: ServiceConfigKey<'_>) -> Option<String> {
            let ours = ("EC2", "AWS_ENDPOINT_URL", "endpoint_url");
            ((key.service_id(), key.env(), key.profile()) == ours).then(|| "http://127.0.0.1:1".into())
        }
    }

    #[test]
    fn the_url_for_ec2_comes_before_the_general_one() {
        let config = sdk_config("eu-west-1").endpoint_url("http://127.0.0.1:4566").service_config(OwnUrl).build();
        assert_eq!(endpoint(&config), "http://127.0.0.1:1");
    }

    #[test]
    fn partitions_are_those_of_awss_clients() {
        // The names of load balancing differ from those of EC2 in the service alone, GovCloud's exception included.
        let regions = "af-south-1 ap-southeast-7 ca-west-1 cn-northwest-1 eu-central-1 eu-isoe-west-1 eusc-de-east-1 \
             il-central-1 me-central-1 mx-central-1 sa-east-1 us-gov-east-1 us-iso-west-1 us-isob-east-1 \
             us-isof-south-1 us-west-2";
        for region in regions.split_whitespace() {
            for (fips, dual_stack) in [(false, false), (false, true), (true, false), (true, true)] {
                let wanted =
                    Params::builder().region(region).use_fips(fips).use_dual_stack(dual_stack).build().unwrap();
                let theirs = DefaultResolver::new().resolve_endpoint(&wanted).now_or_never().unwrap().unwrap();
                let expected = theirs.url().replacen("elasticloadbalancing", "ec2", 1);
                assert_eq!(aws_url(region, fips, dual_stack), expected);
            }
        }
    }
}
