//! Lets clients read metrics whose token the apiserver knows and that may `get` the path `/metrics`. This is what
//! kube-rbac-proxy does. <https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access>

use std::collections::HashMap;
use std::time::Duration;

use http::StatusCode;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use crate::api_message;

/// The path in the review.
const PATH: &str = "/metrics";
/// The time that an answer is cached. A client that loses the right can read metrics for that long.
const HOLDS: Duration = Duration::from_mins(1);
/// The number of answers that are cached. Each is about a token that the apiserver knows.
const MOST: usize = 256;
/// About how many tokens the apiserver is asked at the same time.
const AT_ONCE: usize = 4;
/// The delay for an unknown token. It also delays other tokens that are not cached, which limits the rate of guesses.
const PENALTY: Duration = Duration::from_millis(100);
/// The longest wait for a verdict.
const DEADLINE: Duration = Duration::from_secs(5);
/// The longest token. Tokens of service accounts have about a thousand bytes.
const LONGEST: usize = 16_384;

/// The verdict about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The client may read metrics.
    Allowed,
    /// The apiserver does not know the token, or there is none.
    Unknown,
    /// The client is known, but may not read metrics.
    Forbidden,
    /// The apiserver did not answer.
    Unanswered,
}

impl Verdict {
    /// The status and text of a refusal; `None` if the request is allowed.
    pub fn refusal(self) -> Option<(StatusCode, &'static str)> {
        match self {
            Self::Allowed => None,
            Self::Unknown => {
                Some((StatusCode::UNAUTHORIZED, "metrics need a Kubernetes token: Authorization: Bearer TOKEN\n"))
            }
            Self::Forbidden => Some((
                StatusCode::FORBIDDEN,
                "this account may not read metrics: bind the ClusterRole causeway-metrics-reader to it\n",
            )),
            Self::Unanswered => Some((
                StatusCode::SERVICE_UNAVAILABLE,
                "the Kubernetes API did not say whether this account may read metrics\n",
            )),
        }
    }
}

pub struct Access {
    client: Client,
    /// Verdicts by the hash of the token. Tokens themselves are not stored.
    known: Mutex<HashMap<[u8; 32], (Instant, Verdict)>>,
    asking: Semaphore,
}

impl Access {
    /// Asks through `client`, whose account must be allowed to create reviews.
    pub fn new(client: Client) -> Self {
        Self { client, known: Mutex::default(), asking: Semaphore::new(AT_ONCE) }
    }

    /// The verdict about a request with that `Authorization` header.
    pub async fn verdict_on(&self, header: Option<&str>) -> Verdict {
        let Some(token) = header.and_then(token_in) else { return Verdict::Unknown };
        let key: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if let Some(verdict) = self.cached_verdict(&key) {
            return verdict;
        }
        let asked = timeout(DEADLINE, async {
            let _turn = self.asking.acquire().await;
            // Another request with the same token may have been answered meanwhile.
            if let Some(verdict) = self.cached_verdict(&key) {
                return Ok(verdict);
            }
            let verdict = self.ask(token).await;
            if matches!(verdict, Ok(Verdict::Unknown)) {
                sleep(PENALTY).await;
            }
            verdict
        });
        match asked.await {
            Ok(Ok(verdict)) => {
                if verdict != Verdict::Unknown {
                    self.remember(key, verdict);
                }
                verdict
            }
            Ok(Err(problem)) => {
                warn!(problem = %api_message(&problem), "cannot check who may read metrics; the ClusterRole causeway needs tokenreviews and subjectaccessreviews");
                Verdict::Unanswered
            }
            Err(_) => Verdict::Unanswered,
        }
    }

    async fn ask(&self, token: &str) -> Result<Verdict, kube::Error> {
        let review = TokenReview {
            spec: TokenReviewSpec { token: Some(token.to_owned()), audiences: None },
            ..TokenReview::default()
        };
        let review = Api::all(self.client.clone()).create(&PostParams::default(), &review).await?;
        let status = review.status.unwrap_or_default();
        let Some(user) = status.user.filter(|_| status.authenticated == Some(true)) else {
            return Ok(Verdict::Unknown);
        };
        let review = Api::all(self.client.clone()).create(&PostParams::default(), &review_of(user)).await?;
        let allowed = review.status.is_some_and(|status| status.allowed);
        Ok(if allowed { Verdict::Allowed } else { Verdict::Forbidden })
    }

    fn cached_verdict(&self, key: &[u8; 32]) -> Option<Verdict> {
        let known = self.known.lock();
        known.get(key).filter(|(at, _)| at.elapsed() < HOLDS).map(|(_, verdict)| *verdict)
    }

    fn remember(&self, key: [u8; 32], verdict: Verdict) {
        let mut known = self.known.lock();
        known.retain(|_, (at, _)| at.elapsed() < HOLDS);
        if known.len() < MOST {
            known.insert(key, (Instant::now(), verdict));
        }
    }
}

/// Asks whether that user may `get` the path.
fn review_of(user: UserInfo) -> SubjectAccessReview {
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            non_resource_attributes: Some(NonResourceAttributes { path: Some(PATH.into()), verb: Some("get".into()) }),
            resource_attributes: None,
        },
        ..SubjectAccessReview::default()
    }
}

/// The bearer token in a header. The scheme before it is case-insensitive.
/// <https://www.rfc-editor.org/rfc/rfc9110#section-11.1>
fn token_in(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.len() <= LONGEST).then_some(token)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use http_body_util::BodyExt;
    use kube::client::Body;
    use serde_json::{Value, json};
    use tower::service_fn;

    use super::*;

    /// An apiserver that knows the tokens `reader` and `other`, and lets the first one read; and how often it was
    /// asked.
    fn apiserver() -> (Access, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let answer = move |request: Request<Body>| {
            count.fetch_add(1, Ordering::SeqCst);
            async move {
                let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap();
                let mut review: Value = serde_json::from_slice(&body).unwrap();
                review["status"] = if review["kind"] == "TokenReview" {
                    let token = review["spec"]["token"].as_str().unwrap();
                    let known = ["reader", "other"].contains(&token);
                    json!({ "authenticated": known, "user": { "username": token } })
                } else {
                    let asked = &review["spec"]["nonResourceAttributes"];
                    assert_eq!(*asked, json!({ "path": "/metrics", "verb": "get" }));
                    json!({ "allowed": review["spec"]["user"] == "reader" })
                };
                Ok::<_, kube::Error>(Response::new(Body::from(serde_json::to_vec(&review).unwrap())))
            }
        };
        (Access::new(Client::new(service_fn(answer), "default")), asked)
    }

    #[tokio::test(start_paused = true)]
    async fn whom_the_apiserver_lets_read_reads() {
        let (access, asked) = apiserver();
        for (header, verdict, calls) in [
            (None, Verdict::Unknown, 0),
            (Some("Basic cmVhZGVy"), Verdict::Unknown, 0),
            (Some("Bearer "), Verdict::Unknown, 0),
            (Some("Bearer guess"), Verdict::Unknown, 1),
            (Some("Bearer guess"), Verdict::Unknown, 1),
            (Some("Bearer other"), Verdict::Forbidden, 2),
            (Some("Bearer reader"), Verdict::Allowed, 2),
            (Some("bearer  reader"), Verdict::Allowed, 0),
            (Some("Bearer other"), Verdict::Forbidden, 0),
        ] {
            let before = asked.load(Ordering::SeqCst);
            assert_eq!(access.verdict_on(header).await, verdict, "{header:?}");
            assert_eq!(asked.load(Ordering::SeqCst) - before, calls, "{header:?}");
        }
        tokio::time::advance(HOLDS).await;
        assert_eq!(access.verdict_on(Some("Bearer reader")).await, Verdict::Allowed);
        assert_eq!(asked.load(Ordering::SeqCst), 8, "an answer does not count for ever");
    }

    #[tokio::test(start_paused = true)]
    async fn guesses_are_slow_and_hold_up_nobody_who_is_known() {
        let (access, asked) = apiserver();
        assert_eq!(access.verdict_on(Some("Bearer reader")).await, Verdict::Allowed);
        let (access, begun) = (Arc::new(access), Instant::now());
        let guesses = (0..40).map(|guess| {
            let access = access.clone();
            tokio::spawn(async move { access.verdict_on(Some(&format!("Bearer {guess}"))).await })
        });
        let guesses: Vec<_> = guesses.collect();
        assert_eq!(access.verdict_on(Some("Bearer reader")).await, Verdict::Allowed);
        assert_eq!(begun.elapsed(), Duration::ZERO);
        for guess in guesses {
            assert_eq!(guess.await.unwrap(), Verdict::Unknown);
        }
        assert!(begun.elapsed() >= PENALTY * 10, "{:?}", begun.elapsed());
        assert_eq!(asked.load(Ordering::SeqCst), 42);
    }

    #[tokio::test]
    async fn without_an_answer_nobody_is_let_in() {
        let broken =
            |_: Request<Body>| async { Err::<Response<Body>, _>(kube::Error::LinesCodecMaxLineLengthExceeded) };
        let access = Access::new(Client::new(service_fn(broken), "default"));
        assert_eq!(access.verdict_on(Some("Bearer reader")).await, Verdict::Unanswered);
    }
}
