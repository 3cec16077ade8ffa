//! Images of Redis and Valkey, laid out like the official ones: the server in the `PATH`, `/data` as the working
//! directory, a user with the id 999, and an entry point that takes the server's own arguments.

use super::debian::Recipe;

/// The default version of a Redis.
pub const REDIS_7: Recipe = Recipe {
    name: "redis:7.0.15",
    suite: "bookworm",
    // The search module is not in the official image, but in images of others.
    packages: &["redis-server", "redis-redisearch", "base-files", "coreutils", "dash", "util-linux"],
    ..LAYOUT
};

/// The version to which tests upgrade.
pub const REDIS_8: Recipe = Recipe {
    name: "redis:8.0.2",
    suite: "trixie",
    packages: &["redis-server", "base-files", "coreutils", "dash", "util-linux"],
    ..LAYOUT
};

/// Valkey. As in the official image, its programs also have the names of Redis.
pub const VALKEY_8: Recipe = Recipe {
    name: "valkey/valkey:8.1.1",
    suite: "trixie",
    packages: &["valkey-server", "base-files", "coreutils", "dash", "util-linux"],
    links: &[("usr/bin/redis-server", "valkey-server"), ("usr/bin/redis-cli", "valkey-cli")],
    command: &["valkey-server"],
    ..LAYOUT
};

/// An exporter of a version that cannot restrict its targets: it reports its own node, and any other one that a request
/// names.
pub const OLD_EXPORTER: Recipe = Recipe {
    name: "prometheus-redis-exporter:old",
    suite: "bookworm",
    packages: &["prometheus-redis-exporter"],
    without: &[],
    links: &[("redis_exporter", "usr/bin/prometheus-redis-exporter")],
    files: &[],
    entrypoint: &["/redis_exporter"],
    command: &[],
    user: "59000:59000",
    stop_signal: "",
    working_directory: "",
};

/// The common part. As in the official images, the user is not set: the pod chooses it.
const LAYOUT: Recipe = Recipe {
    name: "",
    suite: "",
    packages: &[],
    without: &[],
    files: &[
        ("usr/local/bin/docker-entrypoint.sh", ENTRYPOINT),
        (
            "etc/passwd",
            "root:x:0:0:root:/root:/bin/sh\nredis:x:999:999::/data:/bin/false\n\
             nobody:x:65534:65534::/nonexistent:/bin/false\n",
        ),
        ("etc/group", "root:x:0:\nredis:x:999:\nnogroup:x:65534:\n"),
    ],
    links: &[],
    entrypoint: &["sh", "/usr/local/bin/docker-entrypoint.sh"],
    command: &["redis-server"],
    user: "",
    stop_signal: "",
    working_directory: "/data",
};

/// Arguments without a program are passed to the server.
const ENTRYPOINT: &str = r#"#!/bin/sh
set -e
case "$1" in
-* | *.conf) set -- redis-server "$@" ;;
esac
exec "$@"
"#;
