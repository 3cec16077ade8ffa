//! Crashes: the controllers die at every single call that they make, in three ways. Fresh controllers must finish the
//! work, and in the end all must be as if nothing had happened: nothing missing, nothing left over, nothing twice.

mod apps;
mod backups;
mod buckets;
mod children;
mod etcd;
mod full;
mod harness;
mod ingresses;
mod scenes;
mod sets;
mod state;
