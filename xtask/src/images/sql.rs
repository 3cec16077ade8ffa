//! Images of PostgreSQL, MariaDB and MySQL: servers and clients in the `PATH` as in the official images, and a shell.
//! They have no entry point, so a pod has to name the program.

use super::debian::Recipe;

/// PostgreSQL. The links bypass Debian's own wrappers, which choose between several installed versions.
pub const POSTGRES_15: Recipe = Recipe {
    name: "postgres:15",
    suite: "bookworm",
    packages: &["postgresql-15", "postgresql-client-15", "tzdata", "base-files", "coreutils", "dash", "tar"],
    without: &[
        // Just-in-time compilation, without which the server works as well.
        "/usr/lib/postgresql/15/lib/bitcode/*",
        "/usr/lib/postgresql/15/lib/llvmjit*",
        "/usr/lib/*/libLLVM*",
        "/usr/lib/*/libz3*",
        "/usr/lib/*/perl*",
        "/usr/share/perl*",
        "/usr/share/i18n/*",
    ],
    links: &[
        ("usr/local/bin/initdb", "/usr/lib/postgresql/15/bin/initdb"),
        ("usr/local/bin/pg_basebackup", "/usr/lib/postgresql/15/bin/pg_basebackup"),
        ("usr/local/bin/pg_ctl", "/usr/lib/postgresql/15/bin/pg_ctl"),
        ("usr/local/bin/pg_dump", "/usr/lib/postgresql/15/bin/pg_dump"),
        ("usr/local/bin/pg_dumpall", "/usr/lib/postgresql/15/bin/pg_dumpall"),
        ("usr/local/bin/pg_receivewal", "/usr/lib/postgresql/15/bin/pg_receivewal"),
        ("usr/local/bin/pg_restore", "/usr/lib/postgresql/15/bin/pg_restore"),
        ("usr/local/bin/postgres", "/usr/lib/postgresql/15/bin/postgres"),
        ("usr/local/bin/psql", "/usr/lib/postgresql/15/bin/psql"),
    ],
    ..LAYOUT
};
pub const MARIADB_10: Recipe = Recipe {
    name: "mariadb:10.11",
    suite: "bookworm",
    packages: &[
        "mariadb-server-core",
        "mariadb-client-core",
        "mariadb-client",
        "tzdata",
        "base-files",
        "coreutils",
        "dash",
        "grep",
        "hostname",
        "sed",
    ],
    without: &["/usr/lib/*/perl*", "/usr/share/perl*"],
    ..LAYOUT
};

/// MySQL, which is in no stable release of Debian. Only `--thorough` tests use it, because the packages in sid may
/// become inconsistent at any time.
pub const MYSQL_9: Recipe = Recipe {
    name: "mysql:9",
    suite: "sid",
    packages: &[
        "mysql-server-core",
        "mysql-client-core",
        "mysql-client",
        "tzdata",
        "base-files",
        "coreutils",
        "dash",
        "sed",
    ],
    without: &["/usr/lib/*/perl*", "/usr/share/perl*"],
    ..LAYOUT
};

/// The common part. The user is for pods without privileges: neither `initdb` nor Debian's scripts work for a user
/// without a name.
const LAYOUT: Recipe = Recipe {
    name: "",
    suite: "",
    packages: &[],
    files: &[
        ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nserver:x:999:999::/tmp:/bin/sh\n"),
        ("etc/group", "root:x:0:\nserver:x:999:\n"),
    ],
    without: &[],
    links: &[],
    entrypoint: &[],
    command: &[],
    user: "",
    stop_signal: "",
    working_directory: "",
};
