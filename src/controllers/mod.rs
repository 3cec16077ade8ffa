//! One folder per kind; none knows of another. A new kind is a folder here, its types under `api/`, and a line in
//! [`run`].

pub mod myapp;
pub mod myingress;

use aws_config::SdkConfig;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};

use crate::leader::Fence;
use crate::runtime::Environment;

/// What controllers are made from.
#[derive(Clone)]
pub struct World {
    /// The cluster side.
    pub environment: Environment,
    /// The AWS side.
    pub aws: SdkConfig,
    /// Lets changes of AWS pass only while this process leads.
    pub fence: Fence,
    /// Name of this cluster in ownership tags.
    pub cluster_name: String,
}

/// Runs every controller until `world.environment.stop`; then the calls in hand are finished.
pub async fn run(world: World) {
    let controllers: Vec<BoxFuture<()>> =
        vec![myapp::controller(world.clone()).boxed(), myingress::controller(world.clone()).boxed()];
    join_all(controllers).await;
}
