//! Names of balancers: at most 32 letters, digits and hyphens.
//!
//! <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateLoadBalancer.html>

use super::ownership::Owner;
use crate::api::myingress::Scheme;
use crate::runtime::fingerprint;

const LONGEST: usize = 32;

/// Names to try, in this order: `<name>-alb`; when that is not allowed or taken, one with a hash of the owner;
/// when the owner's own balancer of the other scheme has that, one with a hash of owner and scheme.
/// The same owner and scheme always give the same names, so that a balancer is found again after a crash.
pub fn candidates(owner: &Owner, scheme: Scheme) -> Vec<String> {
    let Owner { cluster, namespace, name, uid } = owner;
    let plain = format!("{name}-alb");
    let parts = [cluster, namespace, name, uid].map(String::as_bytes);
    let owner_hash = fingerprint(&parts, 8);
    let scheme_hash = fingerprint(&[&parts[..], &[scheme.as_str().as_bytes()]].concat(), 8);
    let hashed = [format!("{}-{owner_hash}", short(name)), format!("{}-{scheme_hash}", short(name))];
    std::iter::once(plain).filter(|plain| allowed(plain)).chain(hashed).collect()
}

fn allowed(name: &str) -> bool {
    name.len() <= LONGEST
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.starts_with("internal-")
}

/// What of the name fits before `-` and the hash, made of allowed characters.
fn short(name: &str) -> String {
    let name = name.strip_prefix("internal-").unwrap_or(name);
    let fitting: String =
        name.chars().take(LONGEST - 9).map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let trimmed = fitting.trim_matches('-');
    if trimmed.is_empty() || trimmed.starts_with("internal-") || trimmed == "internal" {
        "alb".into()
    } else {
        trimmed.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn owner(name: &str) -> Owner {
        Owner { cluster: "prod".into(), namespace: "shop".into(), name: name.into(), uid: "u-1".into() }
    }

    #[test]
    fn the_first_choice_is_the_plain_name() {
        assert_eq!(candidates(&owner("myapp"), Scheme::InternetFacing)[0], "myapp-alb");
    }

    #[test]
    fn a_name_that_aws_refuses_is_hashed() {
        for name in ["a-name-that-is-clearly-too-long-for-aws", "with.dots", "internal-tools"] {
            let names = candidates(&owner(name), Scheme::Internal);
            assert_eq!(names.len(), 2, "{names:?}");
            assert!(names.iter().all(|name| allowed(name)), "{names:?}");
        }
    }

    proptest! {
        #[test]
        fn every_candidate_is_allowed_and_no_two_are_alike(name in "[a-z0-9]([a-z0-9.-]{0,60}[a-z0-9])?") {
            for scheme in [Scheme::Internal, Scheme::InternetFacing] {
                let names = candidates(&owner(&name), scheme);
                prop_assert!(names.iter().all(|name| allowed(name)), "{names:?}");
                prop_assert_ne!(&names[names.len() - 1], &names[names.len() - 2]);
            }
        }

        #[test]
        fn owners_have_hashed_names_of_their_own(a in "[a-z]{1,5}", b in "[a-z]{1,5}") {
            prop_assume!(a != b);
            let one = candidates(&Owner { namespace: a.clone(), ..owner("x") }, Scheme::Internal);
            let other = candidates(&Owner { namespace: b, ..owner("x") }, Scheme::Internal);
            prop_assert!(one[1..].iter().all(|name| !other[1..].contains(name)));
        }
    }
}
