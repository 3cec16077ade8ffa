//! Quotas of the account in this region.

use std::collections::BTreeMap;

use super::pages::next_marker;
use super::{Elbv2, Outcome};

impl Elbv2 {
    /// Lists how much of each kind the account may have, by AWS's names of the quotas.
    /// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_DescribeAccountLimits.html>
    pub async fn account_limits(&self) -> Outcome<BTreeMap<String, usize>> {
        let mut limits = BTreeMap::new();
        let mut marker = None;
        loop {
            let call = self.client.describe_account_limits().set_marker(marker);
            let page = self.caller.call("DescribeAccountLimits", call.send()).await?;
            let answer = page.limits.unwrap_or_default().into_iter();
            limits.extend(answer.filter_map(|limit| Some((limit.name?, limit.max?.parse().ok()?))));
            marker = next_marker(page.next_marker);
            if marker.is_none() {
                return Ok(limits);
            }
        }
    }
}
