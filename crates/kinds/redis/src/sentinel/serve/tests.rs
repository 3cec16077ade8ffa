//! Clients over real connections, beside a node that answers as it suits the test.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{DuplexStream, duplex};
use tokio::task::JoinHandle;

use causeway_api::redis::ClientCertificates;
use causeway_databases::redis::Login;

use super::super::node;
use super::super::session::Verdict;
use super::super::view;
use super::*;

/// The right password of the set.
const PASSWORD: &str = "secret";
/// The name in the certificates of the set.
const NAME: &str = "cache.shop.svc";

/// A node that is the master, and whose clients give that password; it speaks TLS if `tls` is given.
async fn node_of(tls: Option<Server>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let tls = tls.clone();
            tokio::spawn(async move {
                match tls {
                    None => play_node(stream).await,
                    Some(tls) => play_node(tls.accept(stream).await.unwrap()).await,
                }
            });
        }
    });
    address
}

async fn play_node<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) {
    let mut received = Vec::new();
    loop {
        while let Some((request, taken)) = parse(&received).unwrap() {
            received.drain(..taken);
            let answer = match request[0].as_slice() {
                b"AUTH" if request.last().unwrap() == PASSWORD.as_bytes() => "+OK\r\n".to_owned(),
                b"AUTH" => "-WRONGPASS invalid\r\n".to_owned(),
                _ => "$13\r\nrole:master\r\n\r\n".to_owned(),
            };
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        if stream.read_buf(&mut received).await.unwrap_or(0) == 0 {
            return;
        }
    }
}

fn settings(auth: bool) -> Settings {
    let replicas = "cache-replicas.shop.svc".to_owned();
    Settings { name: "cache".into(), port: 6379, replicas, id: "0".repeat(40), auth }
}

fn view(address: &str) -> View {
    let master = view::Master { address: address.into(), followed: true };
    View { master: Some(master), last: Some(address.into()) }
}

/// A client, and the task that answers it.
fn connect(auth: bool, node: Node, views: watch::Receiver<View>) -> (DuplexStream, JoinHandle<io::Result<()>>) {
    let (client, server) = duplex(64);
    let shared = Shared {
        settings: settings(auth),
        node: Arc::new(node),
        tls: None,
        views,
        places: Arc::new(Semaphore::new(0)),
    };
    (client, tokio::spawn(async move { converse(server, 1, &shared).await }))
}

fn unreachable_node() -> Node {
    Node::new("127.0.0.1:1".into(), None, None)
}

/// Asks, and reads just that answer.
async fn hears(client: &mut DuplexStream, request: &str, answer: &str) {
    client.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = vec![0; answer.len()];
    client.read_exact(&mut bytes).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), answer);
}

/// Directory with the certificates of a set.
struct Certificates(PathBuf);

impl Certificates {
    fn new(test: &str) -> Self {
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new([NAME.to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
        let directory = std::env::temp_dir().join(format!("causeway-sentinel-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        for (name, text) in [("ca.crt", authority.pem()), ("tls.crt", leaf.pem()), ("tls.key", key.serialize_pem())] {
            std::fs::write(directory.join(name), text).unwrap();
        }
        Self(directory)
    }

    fn server(&self, clients: ClientCertificates) -> Server {
        Server { directory: self.0.clone(), clients }
    }

    fn of_node(&self, asks: bool) -> node::Tls {
        node::Tls { directory: self.0.clone(), name: NAME.into(), asks }
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_turn_until_quit() {
    let (_sender, views) = watch::channel(view("10.0.0.1"));
    let (mut client, server) = connect(false, unreachable_node(), views);
    let ping = "*1\r\n$4\r\nPING\r\n";
    hears(&mut client, &format!("{ping}{ping}*1\r\n$4\r\nQUIT\r\n"), "+PONG\r\n+PONG\r\n+OK\r\n").await;
    assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 0);
    server.await.unwrap().unwrap();
}

#[tokio::test]
async fn what_is_no_request_is_refused_and_ends_the_connection() {
    let (_sender, views) = watch::channel(View::default());
    let (mut client, server) = connect(false, unreachable_node(), views);
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut said = String::new();
    client.read_to_string(&mut said).await.unwrap();
    assert!(said.starts_with("-ERR Protocol error"), "{said}");
    server.await.unwrap().unwrap();
}

#[tokio::test]
async fn subscribers_get_a_message_when_another_node_is_the_master() {
    let (sender, views) = watch::channel(view("10.0.0.1"));
    let (mut client, _server) = connect(false, unreachable_node(), views);
    let subscribe = "*2\r\n$9\r\nSUBSCRIBE\r\n$14\r\n+switch-master\r\n";
    hears(&mut client, subscribe, "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n").await;
    sender.send_replace(View { master: None, ..view("10.0.0.1") });
    sender.send_replace(view("10.0.0.2"));
    let message = "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$33\r\ncache 10.0.0.1 6379 10.0.0.2 6379\r\n";
    hears(&mut client, "", message).await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_is_disconnected_sooner_without_a_login() {
    for (auth, limit) in [(false, IDLE), (true, DEADLINE)] {
        let (_sender, views) = watch::channel(View::default());
        let (mut client, server) = connect(auth, unreachable_node(), views);
        let begun = Instant::now();
        if auth {
            sleep(limit / 2).await;
            hears(&mut client, "*1\r\n$4\r\nPING\r\n", "-NOAUTH Authentication required.\r\n").await;
        }
        server.await.unwrap().unwrap();
        assert_eq!(begun.elapsed(), limit);
    }
}

#[tokio::test]
async fn one_client_too_many_is_turned_away_until_another_leaves() {
    let (_sender, views) = watch::channel(View::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let places = Arc::new(Semaphore::new(1));
    let shared = Shared {
        settings: settings(false),
        node: Arc::new(unreachable_node()),
        tls: None,
        views,
        places: places.clone(),
    };
    tokio::spawn(async move { serve(&listener, Arc::new(shared)).await });
    let ping = async || {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"*1\r\n$4\r\nPING\r\n").await.unwrap();
        let mut answer = [0; 7];
        let read = client.read_exact(&mut answer).await;
        (client, read.is_ok() && answer == *b"+PONG\r\n")
    };
    let (first, is_answered) = ping().await;
    assert!(is_answered);
    assert!(!ping().await.1, "there is one place");
    drop(first);
    drop(places.acquire().await.unwrap());
    assert!(ping().await.1);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_disconnected() {
    let (_sender, views) = watch::channel(View::default());
    let (mut client, server) = connect(false, unreachable_node(), views);
    client.write_all("*1\r\n$4\r\nINFO\r\n".as_bytes()).await.unwrap();
    assert_eq!(server.await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn a_password_is_right_if_the_node_says_so() {
    let node = Node::new(node_of(None).await, None, None);
    assert_eq!((node.check(PASSWORD).await, node.check("other").await), (Verdict::Right, Verdict::Wrong));
    assert_eq!(unreachable_node().check(PASSWORD).await, Verdict::Unknown);
    let (_sender, views) = watch::channel(view("10.0.0.1"));
    let (mut client, _server) = connect(true, node, views);
    let address = "*2\r\n$8\r\n10.0.0.1\r\n$4\r\n6379\r\n";
    let ask = "*3\r\n$8\r\nSENTINEL\r\n$23\r\nget-master-addr-by-name\r\n$5\r\ncache\r\n";
    hears(&mut client, ask, "-NOAUTH Authentication required.\r\n").await;
    hears(&mut client, "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n", "+OK\r\n").await;
    hears(&mut client, ask, address).await;
}

/// The node asks for certificates and a password, and the sentinel asks its clients for both as well.
#[tokio::test]
async fn with_tls_both_sides_use_the_certificates_of_the_set() {
    let certificates = Certificates::new("tls");
    let required = certificates.server(ClientCertificates::Required);
    let address = node_of(Some(required.clone())).await;
    let login = Some(Login { user: "causeway-sentinel".into(), password: PASSWORD.into() });
    let node = Arc::new(Node::new(address, login, Some(certificates.of_node(true))));
    let (sender, mut views) = watch::channel(View::default());
    let asking = node.clone();
    let own = view::Node { address: "10.0.0.1".into(), port: 6379 };
    tokio::spawn(async move { asking.watch(&own, &sender).await });
    views.wait_for(|view| view.master.is_some()).await.unwrap();

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let places = Arc::new(Semaphore::new(CLIENTS));
    let shared = Shared { settings: settings(true), node, tls: Some(required), views, places };
    tokio::spawn(async move { serve(&listener, Arc::new(shared)).await });
    // The sentinel presents the same certificates, and asks for them as well.
    let client = |tls| Node::new(address.clone(), None, tls);
    assert_eq!(client(Some(certificates.of_node(true))).check(PASSWORD).await, Verdict::Right);
    assert_eq!(client(Some(certificates.of_node(true))).check("other").await, Verdict::Wrong);
    assert_eq!(client(Some(certificates.of_node(false))).check(PASSWORD).await, Verdict::Unknown);
    assert_eq!(client(None).check(PASSWORD).await, Verdict::Unknown);
}
