//! Quantities of Kubernetes, such as `500m` and `10Gi`, as numbers. Pure.
//!
//! `k8s-openapi` has them as text, and the one crate that compares them, `kube_quantity`, rests since March 2025.
//! <https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/>

/// Billionths in one. Kubernetes keeps nothing smaller, and rounds away from zero.
const NANOS: i128 = 1_000_000_000;
/// The digits of a fraction that count. Kubernetes keeps nine of the result.
const FRACTION: usize = 18;
/// The largest quantity with a binary suffix. The API server writes it in place of a larger one (`ParseQuantity` in
/// <https://github.com/kubernetes/apimachinery/blob/v0.34.1/pkg/api/resource/quantity.go>).
const LARGEST_BINARY: i128 = i64::MAX as i128 * NANOS;

/// Parses a quantity into thousandths; `None` if it is none. An amount that is too large for the type is its largest
/// value.
pub fn amount(quantity: &str) -> Option<i128> {
    nanos(quantity).map(|nanos| nanos / 1_000_000)
}

/// Reports whether two quantities are equal, as the API server rewrites them: `5e-1` is `500e-3`, and `8Ei` is
/// `9223372036854775807`.
pub fn same_amount(one: &str, other: &str) -> bool {
    nanos(one).is_some_and(|one| nanos(other) == Some(one))
}

/// A quantity in the form that all quantities of the same amount have: the shortest one, so that what people usually write
/// stays as it is. Text that is no quantity stays too.
pub fn canonical(quantity: &str) -> String {
    let Some(size) = nanos(quantity).filter(|size| size.unsigned_abs() < LARGEST_BINARY.unsigned_abs()) else {
        return quantity.to_owned();
    };
    if size == 0 {
        return "0".to_owned();
    }
    let decimal = DECIMAL.iter().rev().find_map(|(suffix, power)| {
        let unit = 10_i128.pow(*power);
        (size % unit == 0).then(|| format!("{}{suffix}", size / unit))
    });
    let binary = BINARY.iter().rev().find_map(|(suffix, power)| {
        let unit = NANOS << power;
        (size % unit == 0).then(|| format!("{}{suffix}", size / unit))
    });
    decimal.into_iter().chain(binary).min_by_key(String::len).unwrap_or_else(|| quantity.to_owned())
}

/// Decimal suffixes, with their powers of ten in billionths.
const DECIMAL: [(&str, u32); 10] =
    [("n", 0), ("u", 3), ("m", 6), ("", 9), ("k", 12), ("M", 15), ("G", 18), ("T", 21), ("P", 24), ("E", 27)];
/// Binary suffixes, with their powers of two.
const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

fn nanos(quantity: &str) -> Option<i128> {
    let text = quantity.trim();
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = text.find(|it: char| !(it.is_ascii_digit() || it == '.')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let fraction = &fraction[..fraction.len().min(FRACTION)];
    let size = match suffix {
        "Ki" => binary(whole, fraction, 10),
        "Mi" => binary(whole, fraction, 20),
        "Gi" => binary(whole, fraction, 30),
        "Ti" => binary(whole, fraction, 40),
        "Pi" => binary(whole, fraction, 50),
        "Ei" => binary(whole, fraction, 60),
        decimal => decimals(whole, fraction, power_of_ten(decimal)?),
    };
    Some(if negative { -size } else { size })
}

/// The power of ten that a decimal suffix or an exponent stands for.
fn power_of_ten(suffix: &str) -> Option<i32> {
    Some(match suffix {
        "n" => -9,
        "u" => -6,
        "m" => -3,
        "" => 0,
        "k" => 3,
        "M" => 6,
        "G" => 9,
        "T" => 12,
        "P" => 15,
        "E" => 18,
        exponent => exponent.strip_prefix(['e', 'E'])?.parse().ok()?,
    })
}

/// Digits before and behind the point, times a power of ten.
fn decimals(whole: &str, fraction: &str, power: i32) -> i128 {
    let digits = number(&format!("{whole}{fraction}"));
    let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    let power = power.saturating_sub(places).saturating_add(9);
    let by = 10_i128.checked_pow(power.unsigned_abs());
    match by {
        _ if digits == 0 => 0,
        Some(by) if power >= 0 => digits.saturating_mul(by),
        None if power >= 0 => i128::MAX,
        Some(by) => rounded_up(digits, by),
        None => 1,
    }
}

/// Digits before and behind the point, times a power of two.
fn binary(whole: &str, fraction: &str, power: u32) -> i128 {
    let unit = 1_i128 << power;
    // At most 18 digits, so that no product below is too large.
    let scale = 10_i128.pow(u32::try_from(fraction.len()).unwrap_or(0));
    let part = number(fraction).saturating_mul(unit);
    let part = (part / scale).saturating_mul(NANOS) + rounded_up((part % scale) * NANOS, scale);
    number(whole).saturating_mul(unit).saturating_mul(NANOS).saturating_add(part).min(LARGEST_BINARY)
}

fn rounded_up(dividend: i128, divisor: i128) -> i128 {
    dividend / divisor + i128::from(dividend % divisor != 0)
}

/// A number of digits only, which may be missing.
fn number(digits: &str) -> i128 {
    if digits.is_empty() { 0 } else { digits.parse().unwrap_or(i128::MAX) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantities_are_amounts() {
        for (one, other) in [
            ("1", "1000m"),
            ("1024Mi", "1Gi"),
            ("0.5", "500m"),
            ("1e3", "1k"),
            ("1.5Gi", "1536Mi"),
            // As the API server writes them.
            ("8Ei", "9223372036854775807"),
            ("16Ei", "9223372036854775807"),
            ("5e-1", "500e-3"),
            ("1e19", "10e18"),
            ("1.0000000000Gi", "1Gi"),
            ("0.1Gi", "107374182400m"),
            ("5000000000e-1", "500M"),
            ("+1", "1"),
            (".5", "500m"),
            ("1.", "1"),
            ("1e-99", "1n"),
            ("0e99", "0"),
            ("0.0000000001", "1n"),
        ] {
            assert!(same_amount(one, other), "{one} {other}");
        }
        for (one, other) in [
            ("1", "2"),
            ("1Gi", "1G"),
            ("abc", "abd"),
            ("", "0"),
            ("1x", "1y"),
            ("1n", "2n"),
            ("-1", "1"),
            ("1.1.1", "1.1.1"),
            (".", "."),
            ("1e", "1e"),
        ] {
            assert!(!same_amount(one, other), "{one} {other}");
        }
        assert_eq!(amount("1e99"), Some(i128::MAX / 1_000_000));
        assert_eq!(amount("-500m"), Some(-500));
    }

    #[test]
    fn equal_amounts_have_one_form_and_usual_ones_keep_theirs() {
        for (given, expected) in [
            ("1", "1"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("50m", "50m"),
            ("2048Mi", "2Gi"),
            ("2147483648", "2Gi"),
            ("64Mi", "64Mi"),
            ("1500Mi", "1500Mi"),
            ("500M", "500M"),
            ("1G", "1G"),
            ("1e3", "1k"),
            ("0", "0"),
            ("0m", "0"),
            ("-1000m", "-1"),
            ("8Ei", "8Ei"),
            ("many", "many"),
        ] {
            assert_eq!(canonical(given), expected, "{given}");
        }
    }

    proptest! {
        #[test]
        fn the_form_of_an_amount_is_the_same_amount(
            text in "[0-9]{1,6}([.][0-9]{0,4})?([KMG]i|[numkMG]|[eE][+-]?[0-5])?",
        ) {
            let form = canonical(&text);
            prop_assert!(same_amount(&text, &form), "{text} {form}");
            prop_assert_eq!(canonical(&form), form.clone());
        }

        /// Whatever definitions accept has an amount, and it is no less than that of the digits before the point.
        #[test]
        fn what_definitions_accept_has_an_amount(
            text in "([0-9]{1,16}([.][0-9]{0,9})?|[.][0-9]{1,9})([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?",
        ) {
            prop_assert!(amount(&text).is_some_and(|amount| amount >= 0), "{text}");
            prop_assert!(same_amount(&text, &text));
        }
    }
}
