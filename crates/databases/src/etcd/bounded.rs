//! Channels that bound the length of an answer. Users choose the image that answers, and what is decoded takes many times
//! its length in memory: an empty member of a list has 2 bytes and becomes 88.

use std::time::Duration;

use etcd_client::{Channel, Error};
use http::{Response, Uri};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::sync::mpsc::Sender;
use tonic::Status;
use tonic::body::Body;
use tonic::transport::channel::Change;
use tower::BoxError;
use tower::util::{BoxCloneSyncService, MapErr, MapResponse};

use super::Endpoint;

/// Bytes that are read of an answer. A status has less than a kilobyte, a list of nine members a few.
const LONGEST: usize = 64 * 1024;

/// Bytes that a member may send before we have read them. <https://httpwg.org/specs/rfc9113.html#FlowControl>
const AHEAD: u32 = 64 * 1024;

/// The number of changes of a route that may wait. No caller makes more than three.
const CHANGES: usize = 4;

/// The member that answers over a channel.
pub struct Route(Sender<Change<Uri, tonic::transport::Endpoint>>);

/// Creates a channel, and its route, which leads nowhere yet.
pub fn channel() -> (Channel, Route) {
    // One that is balanced: the member behind it can be replaced by another one.
    let (channel, changes) = tonic::transport::Channel::balance_channel(CHANGES);
    let bounded = MapErr::new(MapResponse::new(channel, bound), box_error);
    (Channel::Custom(BoxCloneSyncService::new(bounded)), Route(changes))
}

impl Route {
    /// Lets `member` answer. Connecting to it may take as long as `connect_timeout`.
    pub async fn add(&self, member: &Endpoint, connect_timeout: Duration) -> Result<(), Error> {
        let mut endpoint = tonic::transport::Channel::from_shared(member.url.clone())?
            .connect_timeout(connect_timeout)
            .initial_stream_window_size(AHEAD)
            .initial_connection_window_size(AHEAD);
        if let Some(credentials) = &member.tls {
            endpoint = endpoint.tls_config(credentials.options())?;
        }
        self.send(Change::Insert(endpoint.uri().clone(), endpoint)).await
    }

    /// Lets `member` answer no more.
    pub async fn remove(&self, member: &Endpoint) -> Result<(), Error> {
        let uri: Uri = member.url.parse()?;
        self.send(Change::Remove(uri)).await
    }

    async fn send(&self, change: Change<Uri, tonic::transport::Endpoint>) -> Result<(), Error> {
        self.0.send(change).await.map_err(|_| Error::EndpointError("the channel is closed".into()))
    }
}

/// Describes an answer that no etcd gives.
pub fn refusal(what: &str) -> Error {
    Error::GRpcStatus(no_etcd(what))
}

fn no_etcd(what: &str) -> Status {
    Status::resource_exhausted(format!("{what}, which no etcd does: see spec.image"))
}

fn bound(response: Response<Body>) -> Response<Body> {
    response.map(|body| Body::new(Limited::new(body, LONGEST).map_err(status_of)))
}

fn status_of(error: BoxError) -> Status {
    if error.is::<LengthLimitError>() {
        return no_etcd(&format!("it answers with more than {} KiB", LONGEST / 1024));
    }
    Status::from_error(error)
}

fn box_error(error: tonic::transport::Error) -> BoxError {
    error.into()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use h2::RecvStream;
    use h2::server::SendResponse;
    use http::{HeaderMap, HeaderValue, Request as HttpRequest};
    use tokio::net::{TcpListener, TcpStream};

    use super::super::{EtcdError, Grpc, Reply, Request, Transport, Trouble};
    use super::*;

    /// The field `members` of the answer to a request for the members, with the length that follows it.
    const NO_NAME: [u8; 2] = [0x12, 0];
    /// The field `errors` of a status, with the length that follows it.
    const NO_WORDS: [u8; 2] = [0x42, 0];

    /// A server that gives this answer to every call.
    async fn serve_answer(content: &[u8]) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        // <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md#responses>
        let length = u32::try_from(content.len()).expect("a length").to_be_bytes();
        let message = Bytes::from([&[0][..], &length[..], content].concat());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, message.clone()));
            }
        });
        Endpoint { url, ..Endpoint::default() }
    }

    async fn serve(stream: TcpStream, message: Bytes) {
        let mut connection = h2::server::handshake(stream).await.expect("a client that speaks HTTP/2");
        while let Some(Ok((request, respond))) = connection.accept().await {
            tokio::spawn(answer(request, respond, message.clone()));
        }
    }

    async fn answer(request: HttpRequest<RecvStream>, mut respond: SendResponse<Bytes>, message: Bytes) {
        let mut question = request.into_body();
        while let Some(Ok(_)) = question.data().await {}
        let head = Response::builder().header("content-type", "application/grpc").body(()).expect("a head");
        let mut body = respond.send_response(head, false).expect("the head is sent");
        body.send_data(message, false).expect("the message is sent");
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        body.send_trailers(trailers).expect("the end is sent");
    }

    async fn ask(member: &Endpoint, request: Request) -> Result<Reply, EtcdError> {
        Grpc::default().call(member, &request).await
    }

    #[tokio::test]
    async fn an_answer_that_is_too_long_is_not_read() {
        for (field, request) in [(NO_NAME, Request::Members), (NO_WORDS, Request::Status), (NO_WORDS, Request::Pulse)] {
            let member = serve_answer(&field.repeat(512 * 1024)).await;
            let error = ask(&member, request).await.expect_err("1 MiB is too long");
            assert_eq!(error.trouble, Trouble::Other, "{error}");
            assert!(error.message.contains("more than 64 KiB"), "{error}");
        }
    }

    #[tokio::test]
    async fn of_many_small_parts_few_are_kept() {
        let member = serve_answer(&NO_NAME.repeat(10_000)).await;
        let error = ask(&member, Request::Members).await.expect_err("10,000 members are too many");
        assert!(error.message.contains("10000 members"), "{error}");
        let member = serve_answer(&NO_WORDS.repeat(10_000)).await;
        let Ok(Reply::Status(status)) = ask(&member, Request::Status).await else { panic!("no status") };
        assert_eq!(status.errors.len(), 16);
    }

    #[tokio::test]
    async fn what_an_etcd_answers_is_read() {
        let member = serve_answer(&NO_NAME.repeat(9)).await;
        let Ok(Reply::Members(members)) = ask(&member, Request::Members).await else { panic!("no members") };
        assert_eq!(members.len(), 9);
        // The version is field 2, and `errors` field 8.
        let member = serve_answer(b"\x12\x063.6.16\x42\x02no").await;
        let Ok(Reply::Status(status)) = ask(&member, Request::Status).await else { panic!("no status") };
        assert_eq!((status.version.as_str(), status.errors), ("3.6.16", vec!["no".to_owned()]));
    }
}
