//! Which parts of a backup are restored.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// What of a backup is restored.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Included {
    /// Databases of the backup, by name, such as `["shop"]`. With `database` of the target it is one, which gets the name that the
    /// target has. A name that the backup lacks ends the restore. Left out, all are restored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 63)))]
    pub databases: Vec<String>,

    /// Schemas of a PostgreSQL with all that is in them, such as `["sales"]`, beside `tables`. One that the backup lacks ends
    /// the restore. Left out, all are restored, unless there are `tables`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 63)))]
    pub schemas: Vec<String>,

    /// Tables, views and sequences of a PostgreSQL with their schema, such as `["public.orders"]`. A table comes with its rows,
    /// indexes, constraints, triggers, policies, rights, partitions and own sequences, and with types, functions and other things that it
    /// needs and the target lacks. A foreign key comes if the table that it names is restored or there. A name that the backup
    /// lacks ends the restore.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 3, max = 127)))]
    #[x_kube(validation = ("self.all(it, it.indexOf('.') > 0 && !it.endsWith('.'))", "spec.include.tables must have schema and table, such as public.orders"))]
    pub tables: Vec<String>,
}

/// What of a backup is not restored.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Excluded {
    /// Schemas of a PostgreSQL with all that is in them, such as `["audit"]`. One that the backup lacks ends the restore. Left
    /// out, none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 63)))]
    pub schemas: Vec<String>,

    /// Tables, views and sequences of a PostgreSQL with their schema, such as `["public.sessions"]`, with all that belongs to
    /// them. What needs one of them, such as a view, has to be excluded, too. One that the backup lacks ends the restore. Left out, none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 3, max = 127)))]
    #[x_kube(validation = ("self.all(it, it.indexOf('.') > 0 && !it.endsWith('.'))", "spec.exclude.tables must have schema and table, such as public.sessions"))]
    pub tables: Vec<String>,
}

impl Included {
    /// Whether everything is restored.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.databases.is_empty() && self.schemas.is_empty() && self.tables.is_empty()
    }
}

impl Excluded {
    /// Whether nothing is left out.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.schemas.is_empty() && self.tables.is_empty()
    }
}
