//! The namespace for which a task works. Namespaces take turns in using shared resources, such as the rate of calls to
//! AWS.

use tokio::task_local;

task_local! {
    static TENANT: String;
}

/// Runs `work` for a namespace.
pub async fn on_behalf_of<T>(namespace: &str, work: impl Future<Output = T>) -> T {
    TENANT.scope(namespace.to_owned(), work).await
}

/// Runs `work` for all namespaces, although one of them happens to wait for it.
pub async fn for_everybody<T>(work: impl Future<Output = T>) -> T {
    TENANT.scope(String::new(), work).await
}

/// The namespace for which the current task works; empty if it works for all.
pub fn tenant() -> String {
    TENANT.try_with(Clone::clone).unwrap_or_default()
}
