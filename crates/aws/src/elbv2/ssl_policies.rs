//! Security policies of HTTPS listeners.

use std::collections::BTreeSet;

use super::pages::{PAGE, next_marker};
use super::{Elbv2, Outcome};

impl Elbv2 {
    /// The names of all policies that AWS has.
    /// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_DescribeSSLPolicies.html>
    pub async fn ssl_policies(&self) -> Outcome<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        let mut marker = None;
        loop {
            let call = self.client.describe_ssl_policies().page_size(PAGE).set_marker(marker);
            let page = self.caller.call("DescribeSSLPolicies", call.send()).await?;
            names.extend(page.ssl_policies.unwrap_or_default().into_iter().filter_map(|policy| policy.name));
            marker = next_marker(page.next_marker);
            if marker.is_none() {
                return Ok(names);
            }
        }
    }
}
