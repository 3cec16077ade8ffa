//! Masks the parts of an output that change with each run. docs/tutorial.md explains the same rules to its readers.
//!
//! Outputs are compared word by word, so any number of blanks counts as one. Two words of the same form are equal;
//! everything else is literal. The forms are: an age (`5s`, `2m10s`), a time (RFC 3339, a backup's ID, or the date that
//! helm prints), a size in bytes, the DNS name of a balancer, and a name with a random ending of five characters. In a
//! path, a part that begins like a uid also counts as one.

/// The characters of Kubernetes' random endings: <https://pkg.go.dev/k8s.io/apimachinery/pkg/util/rand#String>
const RANDOM: &str = "bcdfghjklmnpqrstvwxz2456789";
/// helm prints this before a date of several words.
const DATE: &str = "LAST DEPLOYED:";

/// The output with changing words masked, and with single blanks between words.
pub fn masked(output: &str) -> String {
    let lines: Vec<String> = output.trim_end().lines().map(line).collect();
    lines.join("\n")
}

fn line(line: &str) -> String {
    if line.starts_with(DATE) {
        return format!("{DATE} <time>");
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_size = |at: usize| {
        let unit =
            words.get(at + 1).is_some_and(|next| ["bytes", "B", "KiB", "MiB"].contains(&next.trim_end_matches(',')));
        unit && words[at].starts_with(|first: char| first.is_ascii_digit())
    };
    let masked = (0..words.len()).map(|at| if is_size(at) { "<size>".to_owned() } else { mask_word(words[at]) });
    masked.collect::<Vec<_>>().join(" ")
}

fn mask_word(word: &str) -> String {
    let bare = word.trim_end_matches([',', '.', ':', ';', ')']).trim_start_matches('(');
    let mask = if is_age(bare) {
        "<age>".to_owned()
    } else if is_time(bare) {
        "<time>".to_owned()
    } else if bare.ends_with(".elb.amazonaws.com") {
        "<balancer>".to_owned()
    } else if let Some((name, _)) = bare.rsplit_once('-').filter(|(_, ending)| is_random(ending)) {
        format!("{name}-<random>")
    } else {
        let part = |part: &str| if begins_as_uid(part) { "<uid>".to_owned() } else { part.to_owned() };
        return word.split('/').map(part).collect::<Vec<_>>().join("/");
    };
    word.replace(bare, &mask)
}

/// For example `8f303030-9358-46…`: a table cuts off long values.
fn begins_as_uid(part: &str) -> bool {
    let mut groups = part.split('-');
    let mut is_group = |length| {
        groups.next().is_some_and(|group| group.len() == length && group.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    is_group(8) && is_group(4) && is_group(4)
}

/// For example `2m10s`: numbers, each with a unit.
fn is_age(word: &str) -> bool {
    let mut after_digit = false;
    for letter in word.chars() {
        match letter {
            '0'..='9' => after_digit = true,
            's' | 'm' | 'h' | 'd' if after_digit => after_digit = false,
            _ => return false,
        }
    }
    !word.is_empty() && !after_digit
}

/// `20261122T063836Z` or `2026-11-22T06:38:36Z`, possibly with fractions of a second.
fn is_time(word: &str) -> bool {
    let digits = word.chars().filter(char::is_ascii_digit).count();
    digits >= 14 && word.ends_with('Z') && word.chars().all(|it| it.is_ascii_digit() || "-:.TZ".contains(it))
}

fn is_random(ending: &str) -> bool {
    ending.len() == 5 && ending.chars().all(|letter| RANDOM.contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_with_each_run_is_masked() {
        let one = "NAME  AGE\nweb   5s   2.0 KiB  web-alb-12.us-east-1.elb.amazonaws.com web-x7k2p 20261122T063836Z\n\
                   LAST DEPLOYED: Wed Nov 25 20:58:04 2026\n";
        let other = "NAME   AGE\nweb   2m10s   512 B  web-alb-3.us-east-1.elb.amazonaws.com web-bc45d 2026-11-22T06:38:36Z\n\
                     LAST DEPLOYED: Thu Nov 26 20:58:04 2026";
        assert_ne!(masked(one), masked(other), "units of sizes are literal");
        assert_eq!(masked(&one.replace("KiB", "B")), masked(other));
        let backups = |uid: &str| masked(&format!("Redis cache to s3://causeway-prod/shop/backup/{uid}"));
        assert_eq!(backups("8f303030-9358-460f-9e8b-67e9d…"), backups("0a1b2c3d-0000-4fff-8abc-12345…"));
        assert_ne!(backups("8f303030-9358"), backups("8f303030-9359"));
    }

    #[test]
    fn what_says_how_things_are_is_literal() {
        for (one, other) in
            [("3/3", "2/3"), ("True", "False"), ("web-hello", "web-world"), ("Succeeded", "Failed"), ("1", "2")]
        {
            assert_ne!(masked(one), masked(other));
        }
    }
}
