//! The programs that Jobs run: streams of databases to S3 and back. The operator writes the [`plan`], Kubernetes starts the
//! Job, and the Job writes its result into a [`report`]. The [`manifest`] of each backup describes what is in S3. The operator
//! keeps a [`record`] of the backups that count.
//!
//! One container of a pod talks to databases, another one to S3.
//!
//! ```text
//! source ─▶ checked ─▶ zstd (─▶ age) ─▶ parts with SHA-256 ─▶ data, and at last manifest.json
//! manifest.json ─▶ data ─▶ checked ─▶ a scratch server ─▶ target, or compared with the manifest
//! ```

pub mod age;
mod archive;
pub mod backup_id;
pub mod chain;
pub mod command;
mod data_directory;
mod error;
mod fetch;
pub mod instant;
pub mod jobs;
pub mod ls;
pub mod manifest;
pub mod options;
mod outlook;
pub mod plan;
mod progress;
pub mod record;
pub mod recover;
mod relay;
pub mod report;
mod restore;
mod restored;
mod root_certificate;
mod run;
mod secrets;
pub mod signature;
mod source;
mod sql;
mod store;
mod stream;
pub mod transfer;

pub use error::{Error, MOUNTED, shortened};
pub use outlook::Outlook;
