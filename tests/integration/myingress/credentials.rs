//! An operator that cannot sign its calls says so, and goes on when it can.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};
use causeway_api::MyIngress;
use serde_json::json;

use super::{ready, spec, stalled_by};
use crate::support::{Operator, Scene};

/// A service account that gets its role late.
#[derive(Clone, Debug)]
struct LateRole {
    account: String,
    user_provided: Arc<AtomicBool>,
}

impl ProvideCredentials for LateRole {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::ready(if self.user_provided.load(Ordering::Relaxed) {
            Ok(Credentials::new(&self.account, "test", None, None, "test"))
        } else {
            Err(CredentialsError::not_loaded_no_source())
        })
    }
}

#[tokio::test]
async fn an_operator_without_a_role_recovers_with_one() {
    let scene = Scene::new("credentials").await;
    let role = LateRole { account: scene.emulator.account().into(), user_provided: Arc::default() };
    let provider = SharedCredentialsProvider::new(role.clone());
    let aws = scene.aws.to_builder().credentials_provider(provider).build();
    let _operator = Operator::start_with(&scene, Operator::client().await, aws, Duration::from_secs(2));
    scene.create::<MyIngress>("app", spec(json!({}))).await;
    let message = stalled_by(&scene, "app", "CredentialsMissing").await;
    assert!(message.contains("IAM role") && message.contains("docs/operations.md"), "{message}");
    assert_eq!(scene.emulator.elb_operations().await, Vec::<String>::new());
    role.user_provided.store(true, Ordering::Relaxed);
    ready(&scene, "app").await;
}
