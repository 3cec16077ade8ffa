//! Which parts of a backup are restored.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// Which part of a backup is restored.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Included {
    /// Names of databases in the backup that are restored, such as `["shop"]`. If the target has `database`, give only
    /// one name here: it is restored under the name that the target has. If the backup lacks a name, the restore fails.
    /// Left out, all are restored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 64)))]
    pub databases: Vec<String>,

    /// Schemas of a PostgreSQL that are restored with everything in them, such as `["sales"]`, in addition to `tables`.
    /// If the backup lacks one, the restore fails. Left out, all are restored, unless `tables` is given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 63)))]
    pub schemas: Vec<String>,

    /// Tables, views and sequences of a PostgreSQL that are restored, with their schema, such as `["public.orders"]`. A
    /// table is restored with its rows, indexes, constraints, triggers, policies, privileges, partitions and own
    /// sequences, and with the types, functions and other objects that it needs and the target lacks. A foreign key is
    /// restored if the table that it references is restored or exists. If the backup lacks a name, the restore fails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 3, max = 127)))]
    #[x_kube(validation = ("self.all(it, it.indexOf('.') > 0 && !it.endsWith('.'))", "spec.include.tables must have schema and table, such as public.orders"))]
    pub tables: Vec<String>,
}

/// Which part of a backup is not restored.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Excluded {
    /// Schemas of a PostgreSQL that are not restored, with everything in them, such as `["audit"]`. If the backup lacks
    /// one, the restore fails. Left out, none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 63)))]
    pub schemas: Vec<String>,

    /// Tables, views and sequences of a PostgreSQL that are not restored, with their schema, such as
    /// `["public.sessions"]`, and everything that belongs to them. You must also exclude what needs one of them, such
    /// as a view. If the backup lacks one, the restore fails. Left out, none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 3, max = 127)))]
    #[x_kube(validation = ("self.all(it, it.indexOf('.') > 0 && !it.endsWith('.'))", "spec.exclude.tables must have schema and table, such as public.sessions"))]
    pub tables: Vec<String>,
}

impl Included {
    /// Reports whether everything is restored.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.databases.is_empty() && self.schemas.is_empty() && self.tables.is_empty()
    }
}

impl Excluded {
    /// Reports whether nothing is left out.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.schemas.is_empty() && self.tables.is_empty()
    }
}
