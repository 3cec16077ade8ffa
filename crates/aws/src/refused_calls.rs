//! Tests of calls that AWS throttles, against a server that does so.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use aws_credential_types::Credentials;
use axum::Router;
use axum::http::StatusCode;
use tokio::net::TcpListener;

use causeway_runtime::Class;
use causeway_runtime::leader::Fence;
use causeway_runtime::metrics::Metrics;

use super::budget::Budget;
use super::connect;
use super::elbv2::Elbv2;

const REFUSED: &str = "<ErrorResponse><Error><Type>Sender</Type><Code>Throttling</Code>\
                       <Message>Rate exceeded</Message></Error></ErrorResponse>";
const ANSWERED: &str = "<DescribeLoadBalancersResponse><DescribeLoadBalancersResult><LoadBalancers/>\
                        </DescribeLoadBalancersResult></DescribeLoadBalancersResponse>";

/// A client of an AWS that throttles the calls whose numbers `refuses` selects, and the count of all calls.
async fn aws(refuses: fn(usize) -> bool) -> (Elbv2, Arc<AtomicUsize>) {
    let calls: Arc<AtomicUsize> = Arc::default();
    let counted = calls.clone();
    let answer = move || {
        let throttled = refuses(counted.fetch_add(1, Ordering::Relaxed));
        async move { if throttled { (StatusCode::BAD_REQUEST, REFUSED) } else { (StatusCode::OK, ANSWERED) } }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
    let credentials = Credentials::new("key", "secret", None, None, "test");
    let config = connect::aws().region("us-east-1").credentials_provider(credentials).endpoint_url(endpoint);
    let elb = Elbv2::new(&config.load().await, Metrics::new(), Fence::always_open(), Budget::without_limit());
    (elb, calls)
}

#[tokio::test]
async fn a_refused_call_is_made_again_until_it_passes() {
    let (elb, calls) = aws(|number| number < 3).await;
    assert_eq!(elb.balancers().await.expect("an answer"), []);
    assert_eq!(calls.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn many_callers_make_few_calls_while_all_are_refused() {
    let (elb, calls) = aws(|_| true).await;
    let begun = Instant::now();
    let outcomes = futures::future::join_all((0..50).map(|_| elb.balancers())).await;
    assert!(begun.elapsed() >= Duration::from_secs(5), "{:?}", begun.elapsed());
    for outcome in outcomes {
        let error = outcome.expect_err("it is refused");
        assert_eq!((error.class, error.operation), (Class::Throttled, "DescribeLoadBalancers"));
    }
    let calls = calls.load(Ordering::Relaxed);
    // The calls that were on their way when the first one was refused, and then one a second.
    assert!(calls <= 50 + 12, "{calls} calls");
}
