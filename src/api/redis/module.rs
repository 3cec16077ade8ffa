//! Modules that nodes load.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// A library that Redis loads when it starts. <https://redis.io/docs/latest/develop/reference/modules/>
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Module {
    /// Its file in the image, such as `/usr/local/lib/redis/modules/rejson.so`. It must be executable, and cannot be where
    /// data are or devices, such as `/data`: what runs in a node comes with its image.
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(
        validation = (r"self.matches('^(/[A-Za-z0-9_+@-][A-Za-z0-9._+@-]*)+[.]so$')", "spec.modules[].path must be the whole path of a library in the image, such as /usr/local/lib/redis/modules/rejson.so"),
        validation = (r"!self.matches('^/(data|dev|proc|sys|tmp|etc/redis[a-z-]*)/')", "spec.modules[].path must be part of the image, not of a volume: what runs in a node comes with its image")
    )]
    pub path: String,

    /// What it is told when it is loaded, word by word, such as `[TIMEOUT, "500"]`. Nothing unless given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 256)))]
    #[x_kube(validation = (r"self.all(it, it.matches('^[ -~]*$') && !it.startsWith('--'))", "spec.modules[].args must be printable ASCII text that does not begin with --"))]
    pub args: Vec<String>,
}
