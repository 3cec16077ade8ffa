//! For whom something is done: the namespace of an object. What all namespaces share, such as the rate of calls to AWS, goes
//! to them in turn.

use tokio::task_local;

task_local! {
    static TENANT: String;
}

/// Does something for a namespace.
pub async fn on_behalf_of<T>(namespace: &str, work: impl Future<Output = T>) -> T {
    TENANT.scope(namespace.to_owned(), work).await
}

/// Does something for everybody, though one namespace happens to wait for it.
pub async fn for_everybody<T>(work: impl Future<Output = T>) -> T {
    TENANT.scope(String::new(), work).await
}

/// For whom the present task works; nothing where that is everybody.
pub fn tenant() -> String {
    TENANT.try_with(Clone::clone).unwrap_or_default()
}
