//! `install.yaml` and `crds.yaml`, for `kubectl apply`.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::chart::{self, Helm};
use crate::{crds, host};

/// Placeholders that users fill in by envsubst, and what replaces them while the chart is rendered, because the chart
/// does not accept `$`.
const PLACEHOLDERS: [(&str, &str, &str); 4] = [
    ("clusterName", "name-of-the-cluster", "${CLUSTER_NAME}"),
    ("aws.region", "aa-region-1", "${AWS_REGION}"),
    ("aws.roleArn", "arn:aws:iam::000000000000:role/of-the-operator", "${ROLE_ARN}"),
    ("image.repository", "registry.invalid/image:none", "${IMAGE}"),
];

const HEAD: &str = "# Causeway for `kubectl apply --server-side`, made from its chart. Fill in what begins with a dollar:\n\
                    #   envsubst '$CLUSTER_NAME $AWS_REGION $ROLE_ARN $IMAGE' < install.yaml | kubectl apply --server-side -f -\n";

/// All of `deploy/base` in one file.
pub fn install(helm: &Helm, image: Option<&str>) -> Result<String> {
    let mut sets = vec!["networkPolicy.isolateNamespace=true".to_owned(), "crds.keep=false".to_owned()];
    for (value, stand_in, _) in PLACEHOLDERS {
        // Without an image, the chart appends its own tag to the repository.
        match (value, image) {
            ("image.repository", None) => {
                sets.push("image.repository=registry.invalid/image,image.tag=none".to_owned());
            }
            ("image.repository", Some(image)) => sets.push(chart::image_values(image)),
            _ => sets.push(format!("{value}={stand_in}")),
        }
    }
    let options: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let rendered = helm.render(&chart::directory()?, "causeway", &options)?;
    // Leave out labels that only a helm release has.
    let kept = rendered.lines().filter(|line| !chart::OF_HELM.iter().any(|start| line.trim_start().starts_with(start)));
    let mut text = kept.collect::<Vec<_>>().join("\n") + "\n";
    for (value, stand_in, placeholder) in PLACEHOLDERS {
        let known = value == "image.repository" && image.is_some();
        if !known && !text.contains(stand_in) {
            bail!("install.yaml would not say {placeholder}");
        }
        text = text.replace(stand_in, placeholder);
    }
    let path = host::repo_root()?.join("deploy/base/namespace.yaml");
    let namespace = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(format!("{HEAD}---\n{namespace}{text}"))
}

/// All definitions in one file.
pub fn crds() -> Result<String> {
    let mut text = String::new();
    for definition in crds::all()?.values() {
        text.push_str("---\n");
        text.push_str(definition);
    }
    Ok(text)
}
