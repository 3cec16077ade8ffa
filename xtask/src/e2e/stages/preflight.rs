//! Checks the preconditions before anything is created: the account, the cluster, subnets, volumes and the operator.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::super::aws::Subnet;
use super::super::scene::{Scene, Watch, require};
use super::super::{cost, objects, operator, place};
use crate::demo::install::NAMESPACE;

/// The kinds of objects that a run creates.
const KINDS: [&str; 5] = [
    "myingresses.demo.rtfm.co.ua",
    "etcdclusters.mycompany.com",
    "redises.example.com",
    "databasebackups.example.com",
    "databaserestores.example.com",
];

/// The annotation that makes a storage class the cluster's default.
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// Checks without changing anything. Says what will be created, and what that costs.
pub fn look(scene: &Scene<'_>, watch: &Watch<'_>) -> Result<Vec<String>> {
    let (place, named) = (scene.place, scene.place.names());
    place.programs(scene.values.as_ref())?;
    watch.step().note(format!("asking {} for its version", place.name()));
    let cluster = kubernetes(scene)?;
    if scene.values.is_none() {
        let options = operator::options(&scene.kubectl())
            .context("the operator is not installed: docs/install.md, or --values FILE")?;
        operator::must_be_of(&options, &named)?;
    }
    let aws = place.aws();
    let program = aws.version()?;
    watch.step().note(format!("{program} sts get-caller-identity"));
    let caller = aws.caller().context("who are you in AWS?")?;
    let subnets = aws.subnets(&scene.wishes.subnets, scene.wishes.subnet_tag())?;
    fit_for_a_balancer(&subnets, scene.wishes.subnet_tag())?;
    let class = storage_class(scene)?;

    let estimate = cost::estimate(objects::quantities(&scene.wishes, subnets.len()));
    let charged = if place.asks() { "" } else { " on a real account; here nothing is charged" };
    let mut seen = vec![
        format!("Kubernetes {cluster}, {}", place.name()),
        format!("account {} of {}, region {}, by {program}", caller.account, caller.arn, named.region),
        format!(
            "subnets {} of {}",
            subnets.iter().map(|it| format!("{} ({})", it.id, it.zone)).collect::<Vec<_>>().join(", "),
            subnets[0].vpc
        ),
        format!("volumes of class {class}"),
    ];
    if place.asks() && scene.wishes.let_in.is_empty() {
        seen.push("no --let-in: pods must let the balancer in by themselves, or its targets stay unhealthy".to_owned());
    }
    seen.push(format!("This run makes {}", objects::summary(&scene.run).replace("\n  ", "\n      ")));
    seen.push(format!("It costs{charged}:\n{}", estimate.text()).replace('\n', "\n      "));
    scene.account.set(caller.account).ok();
    Ok(seen)
}

fn kubernetes(scene: &Scene<'_>) -> Result<String> {
    let version = scene.kubectl().run(&["get", "--raw", "/version"])?;
    let version: Value = serde_json::from_str(&version)?;
    Ok(version["gitVersion"].as_str().unwrap_or("of an unknown version").to_owned())
}

fn fit_for_a_balancer(subnets: &[Subnet], tag: &str) -> Result<()> {
    let zones: BTreeSet<_> = subnets.iter().map(|it| &it.zone).collect();
    let vpcs: BTreeSet<_> = subnets.iter().map(|it| it.vpc.as_str()).collect();
    if zones.len() < 2 {
        bail!(
            "a balancer needs subnets in two zones, and {} with the tag {tag} are in {}: name yours by --subnets",
            subnets.len(),
            zones.len()
        );
    }
    if vpcs.len() > 1 {
        let vpcs: Vec<_> = vpcs.into_iter().collect();
        bail!("the subnets are of several VPCs ({}): name those of one by --subnets", vpcs.join(", "));
    }
    Ok(())
}

/// The storage class of the volumes.
fn storage_class(scene: &Scene<'_>) -> Result<String> {
    let listed = scene.kubectl().run(&["get", "storageclasses", "-o", "json"])?;
    let listed: Value = serde_json::from_str(&listed)?;
    chosen_class(&listed, scene.wishes.storage_class.as_deref())
}

fn chosen_class(listed: &Value, wanted: Option<&str>) -> Result<String> {
    let classes = listed["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let name = |class: &Value| class["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let all = || classes.iter().map(name).collect::<Vec<_>>().join(", ");
    let fits = |class: &&Value| match wanted {
        Some(wanted) => name(class) == wanted,
        None => class["metadata"]["annotations"][DEFAULT_CLASS] == "true",
    };
    let class = classes.iter().find(fits).with_context(|| match wanted {
        Some(wanted) => format!("there is no StorageClass {wanted}, but: {}", all()),
        None => format!("no StorageClass is the default: name one by --storage-class, of: {}", all()),
    })?;
    Ok(format!("{} ({})", name(class), class["provisioner"].as_str().unwrap_or_default()))
}

/// The operator must run, and must be the one of the named cluster.
pub fn operator(scene: &Scene<'_>, watch: &Watch<'_>) -> Result<Vec<String>> {
    let (kubectl, place) = (scene.kubectl(), scene.place);
    place.install(scene.values.as_ref(), watch.step())?;
    let limit = format!("--timeout={}s", watch.remaining().as_secs());
    let mut wait = vec!["wait", "crd"];
    wait.extend(KINDS);
    wait.extend(["--for=condition=Established", &limit]);
    watch.step().note(format!("kubectl {}", wait.join(" ")));
    kubectl.run(&wait).context("the definitions are not installed: docs/install.md, or --values FILE")?;
    kubectl
        .run(&["-n", NAMESPACE, "rollout", "status", "deployment/causeway", &limit])
        .context("the operator is not ready: docs/install.md, or --values FILE")?;
    operator::must_be_ready(&kubectl)?;
    let version = operator::version(&kubectl)?;
    let (options, named) = (operator::options(&kubectl)?, place.names());
    operator::must_be_of(&options, &named)?;

    let namespace = scene.run.namespace();
    place.let_back_up(&namespace)?;
    let backups = may_back_up(scene, &options)?;
    let account = require(&scene.account, "the account")?;
    scene.bucket.set(operator::bucket(&options, &named, account)).ok();
    Ok(vec![format!("{version}, ready, for cluster {} in {}", named.cluster, named.region), backups])
}

/// Says how backup Jobs get their rights. If they have none, fails with what to do.
fn may_back_up(scene: &Scene<'_>, options: &BTreeMap<String, String>) -> Result<String> {
    let (aws, namespace) = (scene.place.aws(), scene.run.namespace());
    let option = |name: &str| options.get(name).map(String::as_str).filter(|it| !it.is_empty() && *it != "false");
    if option("BACKUP_POD_IDENTITY").is_some() {
        let cluster = scene.place.names().cluster;
        let list = ["eks", "list-pod-identity-associations", "--cluster-name", &cluster, "--namespace", &namespace];
        let answer = aws.call(&list)?;
        if answer["associations"].as_array().is_none_or(Vec::is_empty) {
            bail!(
                "Jobs of backups in {namespace} have no role. Choose a name for the run (--run NAME), and before it:\n\
                 aws eks create-pod-identity-association --cluster-name {cluster} --namespace {namespace} \
                 --service-account causeway-backup --role-arn ROLE    (iam/README.md, Backups)"
            );
        }
        return Ok("Jobs of backups have a role by EKS Pod Identity".to_owned());
    }
    let arn = option("BACKUP_ROLE_ARN").context("the operator takes no backups: set backups.roleArn of the chart")?;
    let role = place::role_of(arn, &scene.run);
    aws.call(&["iam", "get-role", "--role-name", &role]).with_context(|| {
        format!(
            "Jobs of backups in {namespace} have no role {role}. Choose a name for the run (--run NAME), and make the role for \
             its namespace: iam/README.md, Backups, with NAMESPACE=causeway-e2e-NAME"
        )
    })?;
    Ok(format!("Jobs of backups assume {role}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn subnet(zone: &str, vpc: &str) -> Subnet {
        Subnet { id: format!("subnet-{zone}"), zone: zone.to_owned(), vpc: vpc.to_owned() }
    }

    #[test]
    fn a_balancer_stands_in_two_zones_of_one_vpc() {
        let said = |subnets: &[Subnet]| fit_for_a_balancer(subnets, "t").map_err(|it| it.to_string());
        assert_eq!(said(&[subnet("a", "v"), subnet("b", "v")]), Ok(()));
        assert!(said(&[]).unwrap_err().contains("--subnets"));
        assert!(said(&[subnet("a", "v"), subnet("a", "v")]).unwrap_err().contains("two zones"));
        assert!(said(&[subnet("a", "v"), subnet("b", "w")]).unwrap_err().contains("several VPCs (v, w)"));
    }

    #[test]
    fn volumes_are_of_the_given_or_the_default_class() {
        let class = |name: &str, default: &str| json!({ "metadata": { "name": name, "annotations": { DEFAULT_CLASS: default } }, "provisioner": "p" });
        let two = json!({ "items": [class("gp2", "false"), class("gp3", "true")] });
        assert_eq!(chosen_class(&two, None).unwrap(), "gp3 (p)");
        assert_eq!(chosen_class(&two, Some("gp2")).unwrap(), "gp2 (p)");
        assert!(
            chosen_class(&two, Some("io2")).unwrap_err().to_string().contains("no StorageClass io2, but: gp2, gp3")
        );
        let none = json!({ "items": [class("gp2", "false")] });
        assert!(chosen_class(&none, None).unwrap_err().to_string().contains("--storage-class, of: gp2"));
    }
}
