//! Images of Redis and Valkey, laid out as the official ones: the server in the `PATH`, `/data` to work in, a user with
//! the id 999, and an entry point that takes the server's own arguments.

use super::debian::Recipe;

/// What a set begins with where nothing else is asked for.
pub const REDIS_7: Recipe = Recipe {
    name: "redis:7.0.15",
    suite: "bookworm",
    // The module is what makers of other images add.
    packages: &["redis-server", "redis-redisearch", "base-files", "coreutils", "dash", "util-linux"],
    ..LAYOUT
};

/// What it is upgraded to.
pub const REDIS_8: Recipe = Recipe {
    name: "redis:8.0.2",
    suite: "trixie",
    packages: &["redis-server", "base-files", "coreutils", "dash", "util-linux"],
    ..LAYOUT
};

/// Redis by another name. The official image knows its programs by the old names, too.
pub const VALKEY_8: Recipe = Recipe {
    name: "valkey/valkey:8.1.1",
    suite: "trixie",
    packages: &["valkey-server", "base-files", "coreutils", "dash", "util-linux"],
    links: &[("usr/bin/redis-server", "valkey-server"), ("usr/bin/redis-cli", "valkey-cli")],
    command: &["valkey-server"],
    ..LAYOUT
};

/// Tells Prometheus of a node beside it, and of whatever else it is asked about: from before that could be turned off.
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

/// What they have in common. As in the official images, nobody but the pod says who they run as.
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

/// Arguments alone are the server's.
const ENTRYPOINT: &str = r#"#!/bin/sh
set -e
case "$1" in
-* | *.conf) set -- redis-server "$@" ;;
esac
exec "$@"
"#;
