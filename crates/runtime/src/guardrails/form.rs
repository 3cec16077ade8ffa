//! Tells whether a pattern in a list of a policy can match any value that a field may have. Pure.

/// The form that all values of a field have.
pub struct Form {
    /// Their beginning, or their parts.
    pub shape: Shape,
    /// Their characters besides letters and digits of ASCII.
    pub within: &'static str,
    /// An example, for messages.
    pub such_as: &'static str,
}

/// The beginning of all values of a field, or their parts.
pub enum Shape {
    /// With one of these words, followed by more.
    Begins(&'static [&'static str]),
    /// With any text of at least so many characters.
    Long(usize),
    /// The key of a label or annotation: at most one slash.
    Key,
    /// The ARN of such a resource of one of these services of AWS: `arn:PARTITION:SERVICE:REGION:ACCOUNT:RESOURCE`.
    /// <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html>
    Arn(&'static [&'static str], &'static str),
}

impl Form {
    /// Returns true if a value can match the pattern, in which `*` stands for any text. Only what comes before the
    /// first `*` is compared with the shape, so that a pattern may pass that matches nothing.
    pub fn can_match(&self, pattern: &str) -> bool {
        let (first, is_whole) = pattern.split_once('*').map_or((pattern, true), |(first, _)| (first, false));
        let known = |c: char| c == '*' || c.is_ascii_alphanumeric() || self.within.contains(c);
        let fits = match &self.shape {
            Shape::Begins(words) => words.iter().any(|word| can_begin(word, first, is_whole)),
            Shape::Long(least) => !is_whole || first.len() >= *least,
            Shape::Key => pattern.matches('/').count() <= 1,
            Shape::Arn(services, resource) => arn(services, resource, first, is_whole),
        };
        !pattern.is_empty() && pattern.chars().all(known) && fits
    }
}

/// Returns true if a value that begins with `word` and goes on can begin with `text`, or be that text if it is whole.
fn can_begin(word: &str, text: &str, is_whole: bool) -> bool {
    if is_whole {
        text.len() > word.len() && text.starts_with(word)
    } else {
        text.starts_with(word) || word.starts_with(text)
    }
}

/// Returns true if such an ARN can begin with `text`, or be that text if it is whole.
fn arn(services: &[&str], resource: &str, text: &str, is_whole: bool) -> bool {
    let parts: Vec<&str> = text.splitn(6, ':').collect();
    if is_whole && parts.len() < 6 {
        return false;
    }
    parts.iter().enumerate().all(|(place, part)| {
        // The text after the last part is not known, unless the text is whole.
        let is_open = place + 1 == parts.len() && !is_whole;
        let is_one = |words: &[&str]| words.iter().any(|word| word == part || is_open && word.starts_with(part));
        match place {
            0 => is_one(&["arn"]),
            1 => is_open || !part.is_empty(),
            2 => is_one(services),
            4 => part.bytes().all(|c| c.is_ascii_digit()) && (part.len() == 12 || is_open && part.len() < 12),
            5 => can_begin(resource, part, !is_open),
            _ => true,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arn_is_compared_part_by_part() {
        let form = Form { shape: Shape::Arn(&["kms"], "key/"), within: ":/-", such_as: "" };
        for good in [
            "*",
            "a*",
            "arn:*",
            "arn:aws*",
            "arn:aws:k*",
            "arn:aws:kms:*",
            "arn:*:kms:*",
            "arn:aws:kms:eu-west-1:1111*",
            "arn:aws-cn:kms:eu-west-1:111122223333:k*",
            "arn:aws:kms:eu-west-1:111122223333:key/*",
            "*:key/a",
            "arn:aws:kms:eu-west-1:111122223333:key/a",
        ] {
            assert!(form.can_match(good), "{good}");
        }
        for bad in [
            "",
            "aws*",
            "arn",
            "arn::kms:*",
            "arn:aws:s3:*",
            "arn:aws:kmsx*",
            "arn:aws:kms",
            "arn:aws:kms:eu-west-1:11:*",
            "arn:aws:kms:eu-west-1:11112222333x*",
            "arn:aws:kms:eu-west-1:1111222233334*",
            "arn:aws:kms:eu-west-1:111122223333:key/",
            "arn:aws:kms:eu-west-1:111122223333:alias/*",
            "arn:aws:kms:eu west-1:*",
        ] {
            assert!(!form.can_match(bad), "{bad}");
        }
    }
}
