//! Modules that nodes load.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// A library that Redis loads when it starts. <https://redis.io/docs/latest/develop/reference/modules/>
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Module {
    /// File of the module in the image, such as `/usr/local/lib/redis/modules/rejson.so`. It must be executable. It
    /// cannot be in a directory for data or devices, such as `/data`: what a node executes must come from its image.
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(
        validation = (r"self.matches('^(/[A-Za-z0-9_+@-][A-Za-z0-9._+@-]*)+[.]so$')", "spec.modules[].path must be the whole path of a library in the image, such as /usr/local/lib/redis/modules/rejson.so"),
        validation = (r"!self.matches('^/(data|dev|proc|sys|tmp|etc/redis[a-z-]*)/')", "spec.modules[].path must be part of the image, not of a volume: what runs in a node comes with its image")
    )]
    pub path: String,

    /// Arguments with which Redis loads the module, such as `[TIMEOUT, "500"]`. Left out, none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 256)))]
    #[x_kube(validation = (r"self.all(it, it.matches('^[ -~]*$') && !it.startsWith('--'))", "spec.modules[].args must be printable ASCII text that does not begin with --"))]
    pub args: Vec<String>,
}
