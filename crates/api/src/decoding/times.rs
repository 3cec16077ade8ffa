//! Tests: times as `format: date-time` takes them, which is not RFC 3339.
//! <https://github.com/kubernetes/kube-openapi/blob/f3f2b991d03b/pkg/validation/strfmt/time.go>

use super::patterns::fits;

/// Times in every form that comes to mind.
pub const TIMES: &[&str] = &[
    "2026-11-23T12:00:00Z",
    "2026-11-23t12:00:00z",
    "2026-11-23T12:00:00.5Z",
    "2026-11-23T12:00:00.123456789Z",
    "2026-11-23T12:00:00.1234567890123456789Z",
    "2026-11-23T12:00:00,5Z",
    "2026-11-23T12:00:00x5Z",
    "2026-11-23T12:00:00+00:00",
    "2026-11-23T12:00:00-00:00",
    "2026-11-23T12:00:00+14:00",
    "2026-11-23T12:00:00-23:59",
    "2026-11-23T12:00:00+24:00",
    "2026-11-23T12:00:00+99:99",
    "2026-11-23T12:00:00+23:60",
    "2026-11-23T23:59:59Z",
    "2026-11-23T23:59:60Z",
    "2026-11-23T24:00:00Z",
    "2026-11-23T12:00:00ZTrubbish",
    "2026-11-23T12:00:00Zt",
    "2026-11-23T12:00:00",
    "2026-11-23T12:00Z",
    "2026-11-23 12:00:00Z",
    "2026-11-23",
    "2024-02-29T00:00:00Z",
    "2026-02-29T00:00:00Z",
    "2026-02-30T00:00:00Z",
    "2026-13-01T00:00:00Z",
    "0000-01-01T00:00:00Z",
    "0000-01-01T00:00:00+23:59",
    "0001-01-01T00:00:00Z",
    "1969-12-31T23:59:59Z",
    "2038-01-19T03:14:08Z",
    "8999-12-31T23:59:59-23:59",
    "9998-12-31T23:59:59-23:59",
    "9999-12-30T22:00:00Z",
    "9999-12-30T22:00:01Z",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-23:59",
    "10000-01-01T00:00:00Z",
    "+002026-11-23T12:00:00Z",
    "-0001-01-01T00:00:00Z",
    "2026-11-23T12:00:00Z[UTC]",
    "2026-11-23T12:00:00.Z",
];

/// Reports whether the API server takes it for a time. It looks at what stands between the first and the second `t`.
pub fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let form = "^[0-9]{2}:[0-9]{2}:[0-9]{2}(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";
    fits(form, time) && is_date(date) && &time[..2] <= "23" && &time[3..5] <= "59" && &time[6..8] <= "59"
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.as_bytes()[0].is_ascii_digit() && text.parse::<jiff::civil::Date>().is_ok()
}

#[test]
fn the_api_server_takes_more_than_rfc_3339() {
    for odd in ["2026-11-23T12:00:00ZTrubbish", "2026-11-23T12:00:00+99:99", "2026-11-23T12:00:00x5Z"] {
        assert!(is_date_time(odd), "{odd}");
    }
    for wrong in ["2026-11-23", "2026-02-29T00:00:00Z", "2026-11-23T23:59:60Z", "2026-11-23T12:00:00"] {
        assert!(!is_date_time(wrong), "{wrong}");
    }
}
