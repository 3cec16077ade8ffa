//! Backups in the real cluster: Jobs that stream real databases to LocalStack's S3 and back.

mod auth;
mod control;
mod control_bucket;
mod control_refusals;
pub mod control_restore;
mod control_restore_from;
mod control_ticks;
mod disaster;
mod encryption;
mod instant;
mod modules;
mod plane;
mod plane_faults;
mod plane_restore;
mod plane_verify;
mod point_in_time;
mod second_region;
mod slots;
mod sql_accounts;
mod sql_locks;
mod sql_mariadb;
pub mod sql_postgres;
mod sql_size;
pub mod sql_stage;
mod sql_tls;
pub mod stage;
mod tls;
