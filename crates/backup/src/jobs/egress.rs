//! How the operator reaches AWS, as far as its environment says: Jobs must go the same way. The AWS SDK reads these variables
//! in both.
//! <https://docs.rs/aws-smithy-http-client/latest/aws_smithy_http_client/proxy/struct.ProxyConfig.html#method.from_env>

/// The variables, each with the names that count, the first one first.
const VARIABLES: [&[&str]; 3] =
    [&["HTTPS_PROXY", "https_proxy"], &["NO_PROXY", "no_proxy"], &["AWS_USE_FIPS_ENDPOINT"]];

/// The part of the operator's environment that Jobs get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Egress {
    /// Names and values of environment variables.
    pub variables: Vec<(&'static str, String)>,
    /// True if they do not get the proxy, because its URL has a login: who may read a Job would read that, too.
    pub has_login: bool,
}

impl Egress {
    /// Of the environment that `read` reads. An empty value counts as not set.
    #[must_use]
    pub fn of(read: impl Fn(&str) -> Option<String>) -> Self {
        let set = |names: &[&'static str]| {
            names.iter().find_map(|name| Some((*name, read(name).filter(|value| !value.is_empty())?)))
        };
        let all = VARIABLES.into_iter().filter_map(set);
        // No other part of a proxy's URL has this character.
        let (with_login, variables): (Vec<_>, Vec<_>) =
            all.partition(|(name, url)| VARIABLES[0].contains(name) && url.contains('@'));
        Self { variables, has_login: !with_login.is_empty() }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Container, PodSpec};

    use super::super::{PlanIn, Run, Scratch, Settings, backup_pod, restore_pod, slot_pod};
    use super::*;

    fn egress_of(variables: &[(&str, &str)]) -> Egress {
        Egress::of(|name| variables.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned()))
    }

    /// The containers of a pod that have the variable.
    fn who_has(pod: &PodSpec, variable: &str) -> Vec<String> {
        let all = pod.init_containers.iter().flatten().chain(&pod.containers);
        let has = |it: &&Container| it.env.iter().flatten().any(|other| other.name == variable);
        all.filter(has).map(|it| it.name.clone()).collect()
    }

    #[test]
    fn only_the_container_for_aws_gets_the_operators_proxy() {
        let proxy = "http://proxy.example.com:3128";
        let egress = egress_of(&[("HTTPS_PROXY", proxy), ("no_proxy", ".svc"), ("AWS_USE_FIPS_ENDPOINT", "true")]);
        let names: Vec<&str> = egress.variables.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["HTTPS_PROXY", "no_proxy", "AWS_USE_FIPS_ENDPOINT"]);
        let settings = Settings { egress, ..Settings::default() };
        let run = Run {
            namespace: "shop",
            settings: &settings,
            plan: PlanIn::ConfigMap("nightly-plan"),
            plan_sha256: "",
            mounts: &[],
            identity: None,
            resources: None,
            image: Some("postgres:15"),
            wal: false,
        };
        let scratch = Scratch::Sql { image: "postgres:15".into() };
        for name in names {
            assert_eq!(who_has(&backup_pod(run, None), name), ["causeway"], "{name}");
            assert_eq!(who_has(&restore_pod(run, "restore", "uid-1", &scratch, 1), name), ["fetch"], "{name}");
            assert_eq!(who_has(&slot_pod(run, "postgres:15"), name), [""; 0], "{name}");
        }
    }

    #[test]
    fn a_job_does_not_contain_the_login_of_a_proxy() {
        for url in ["http://user:secret@proxy.example.com:3128", "user:secret@proxy.example.com:3128"] {
            for name in ["HTTPS_PROXY", "https_proxy"] {
                let egress = egress_of(&[(name, url), ("NO_PROXY", ".svc")]);
                assert_eq!(egress, Egress { variables: vec![("NO_PROXY", ".svc".into())], has_login: true });
            }
        }
        assert_eq!(egress_of(&[("HTTPS_PROXY", ""), ("AWS_USE_FIPS_ENDPOINT", "")]), Egress::default());
    }
}
