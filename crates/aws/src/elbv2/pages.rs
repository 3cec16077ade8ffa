//! Limits of AWS for one call and one answer.

/// A page has at most this many entries.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_DescribeLoadBalancers.html>
pub(super) const PAGE: i32 = 400;

/// `DescribeTags` and `DescribeLoadBalancers` take at most this many ARNs.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_DescribeTags.html>
pub(super) const BATCH: usize = 20;

/// Returns the marker of the next page, if there is one.
pub(super) fn next_marker(marker: Option<String>) -> Option<String> {
    marker.filter(|marker| !marker.is_empty())
}
