//! Connections to listeners that answer as it suits the test.

use std::sync::atomic::AtomicUsize;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};

use causeway_runtime::leader::Fence;
use causeway_runtime::metrics::Metrics;

use super::super::{Position, Redis, Role, Writes};
use super::*;

const MASTER: &[u8] = b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n";

/// A listener that closes the first `most` connections when it is asked something. It counts all connections.
async fn closing_listener(most: usize) -> (Endpoint, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            stream.read_u8().await.expect("a question");
            if counted.fetch_add(1, Ordering::SeqCst) >= most {
                stream.write_all(MASTER).await.expect("it is written");
                // It stays open.
                stream.read_to_end(&mut Vec::new()).await.ok();
            }
        }
    });
    (Endpoint { address, login: None, tls: None }, count)
}

async fn ask(node: &Endpoint) -> Result<Reply, Trouble> {
    Tcp::default().call(node, &Request::Role).await.map_err(|error| error.trouble)
}

#[tokio::test]
async fn a_process_that_accepts_another_connection_is_not_gone() {
    let (node, count) = closing_listener(TRIES - 1).await;
    assert!(matches!(ask(&node).await, Ok(Reply::Role(Position { role: Role::Master, .. }))));
    assert_eq!(count.load(Ordering::SeqCst), TRIES);
}

#[tokio::test]
async fn a_process_that_closes_every_connection_may_live() {
    let (node, count) = closing_listener(usize::MAX).await;
    assert_eq!(ask(&node).await, Err(Trouble::Broken));
    assert_eq!(count.load(Ordering::SeqCst), TRIES);
}

#[tokio::test]
async fn a_change_is_not_made_twice() {
    let (node, count) = closing_listener(usize::MAX).await;
    let answer = Tcp::default().call(&node, &Request::KeepMastership).await;
    assert_eq!(answer.map_err(|error| error.trouble), Err(Trouble::Broken));
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn without_a_listener_the_process_is_gone() {
    // While the socket is bound, no other process gets the port.
    let held = TcpSocket::new_v4().expect("a socket");
    held.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let address = held.local_addr().expect("an address").to_string();
    assert_eq!(ask(&Endpoint { address, login: None, tls: None }).await, Err(Trouble::Gone));
}

/// A listener that answers the first question with a bulk string without end; it counts what it could send.
async fn endless() -> (Endpoint, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        stream.read_u8().await.expect("a question");
        stream.write_all(b"$536870912\r\n").await.expect("the beginning");
        while stream.write_all(&[b'x'; 4096]).await.is_ok() {
            counted.fetch_add(4096, Ordering::SeqCst);
        }
    });
    (Endpoint { address, login: None, tls: None }, count)
}

#[tokio::test]
async fn little_is_read_of_an_endless_answer() {
    for request in [Request::Info, Request::Probe] {
        let (node, count) = endless().await;
        let tcp = Tcp::default();
        let answer = timeout(Duration::from_secs(20), tcp.call(&node, &request)).await.expect("it is given up");
        let error = answer.expect_err("an answer that is too long");
        assert_eq!(error.trouble, Trouble::Refused, "{error}");
        assert!(error.message.contains("longer than 256 KiB"), "{error}");
        // The kernel's buffers take some megabytes before the sender is stopped.
        assert!(count.load(Ordering::SeqCst) < 32 * 1024 * 1024, "{count:?} bytes were sent");
    }
}

#[tokio::test]
async fn answers_that_are_whole_may_be_many() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let info = "x".repeat(LONGEST / 2);
        let answer = format!("${}\r\n{info}\r\n", info.len());
        let mut question = [0; 4096];
        while stream.read(&mut question).await.is_ok_and(|count| count > 0) {
            stream.write_all(answer.as_bytes()).await.expect("it is written");
        }
    });
    let (tcp, node) = (Tcp::default(), Endpoint { address, login: None, tls: None });
    for _ in 0..5 {
        assert!(matches!(tcp.call(&node, &Request::Info).await, Ok(Reply::Info(_))));
    }
}

#[tokio::test]
async fn an_unreachable_address_says_nothing_about_the_process() {
    // No client can connect to a broadcast address: the kernel refuses at once.
    let node = Endpoint { address: "255.255.255.255:6379".into(), login: None, tls: None };
    assert_eq!(ask(&node).await, Err(Trouble::Unanswered));
}

#[tokio::test]
async fn a_write_waits_only_where_a_process_was_reached() {
    let unreachable = Endpoint { address: "255.255.255.255:6379".into(), login: None, tls: None };
    let redis = |tcp| Redis::new(Arc::new(tcp), Fence::always_open(), Metrics::new());
    let answer = redis(Tcp::default()).writes(&unreachable).await;
    assert_eq!(answer.map_err(|error| error.trouble), Err(Trouble::Broken));
    // The kernel accepts connections for it.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let hanging = Endpoint { address, login: None, tls: None };
    assert_eq!(redis(Tcp::default()).writes(&hanging).await.map_err(|error| error.trouble), Ok(Writes::Waiting));
}

#[tokio::test]
async fn a_hung_node_finds_the_step_down_in_its_connection() {
    let (node, taken) = hanging_node().await;
    let tcp = Tcp::default();
    let heir = step_down();
    let trouble = tcp.call(&node, &heir).await.map_err(|error| error.trouble);
    assert_eq!(trouble, Err(Trouble::Broken), "no connection is made for that");
    tcp.call(&node, &Request::Role).await.expect("a role");
    let (mut stream, _listener) = taken.await.expect("it took the connection");
    // From here on it hangs.
    let question = timeout(Duration::from_millis(20), tcp.call(&node, &Request::Role)).await;
    assert!(question.is_err(), "no answer comes");
    tcp.put_aside(&node);
    let word = tokio::spawn(async move { tcp.call(&node, &heir).await });
    let mut read = String::new();
    while !read.contains("pubsub") {
        let mut bytes = [0; 512];
        let length = stream.read(&mut bytes).await.expect("words");
        assert!(length > 0, "closed after {read:?}");
        read += std::str::from_utf8(&bytes[..length]).expect("text");
    }
    let at = |word: &str| read.find(word).unwrap_or_else(|| panic!("no {word} in {read:?}"));
    assert!(at("ROLE") < at("REPLICAOF") && at("REPLICAOF") < at("CLIENT"), "{read:?}");
    word.abort();
}

/// A new leader has no other connection. The commands end what comes after the process wakes up, but may be too late
/// for writes that waited.
#[tokio::test]
async fn a_step_down_over_an_unaccepted_connection_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let node = Endpoint { address: listener.local_addr().expect("an address").to_string(), login: None, tls: None };
    let tcp = Tcp::default();
    let question = timeout(Duration::from_millis(100), tcp.call(&node, &Request::Role)).await;
    assert!(question.is_err(), "no answer comes");
    let heir = step_down();
    let left = tcp.call(&node, &heir).await.map_err(|error| error.message);
    assert!(left.as_ref().is_err_and(|why| why.contains("has not taken")), "{left:?}");
    let (stream, _) = listener.accept().await.expect("it wakes up");
    stream.readable().await.expect("words");
    assert!(in_socket(&stream).contains("REPLICAOF"));
}

/// A node that takes one connection, answers one question over it, and hangs from then on.
async fn hanging_node() -> (Endpoint, tokio::task::JoinHandle<(TcpStream, TcpListener)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let node = Endpoint { address: listener.local_addr().expect("an address").to_string(), login: None, tls: None };
    let taken = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        stream.read_u8().await.expect("a question");
        stream.write_all(MASTER).await.expect("it is written");
        (stream, listener)
    });
    (node, taken)
}

/// The same node after its answer: it is connected, and silent from here on.
async fn hung() -> (Tcp, Endpoint, TcpStream, TcpListener) {
    let (node, taken) = hanging_node().await;
    let tcp = Tcp::default();
    tcp.call(&node, &Request::Role).await.expect("a role");
    let (stream, listener) = taken.await.expect("it took the connection");
    (tcp, node, stream, listener)
}

fn step_down() -> Request {
    Request::StepDown { host: "10.0.0.2".into(), port: 6379 }
}

/// Reads the bytes that are in the socket now.
fn in_socket(stream: &TcpStream) -> String {
    let mut read = String::new();
    let mut bytes = [0; 4096];
    while let Ok(length @ 1..) = stream.try_read(&mut bytes) {
        read += std::str::from_utf8(&bytes[..length]).expect("text");
    }
    read
}

#[tokio::test]
async fn a_step_down_ends_once_it_is_in_the_socket() {
    let (tcp, node, stream, _listener) = hung().await;
    let heir = step_down();
    let left = timeout(Duration::from_secs(5), tcp.call(&node, &heir)).await.expect("no answer is awaited");
    assert!(left.is_ok(), "{left:?}");
    stream.readable().await.expect("words");
    let read = in_socket(&stream);
    assert!(read.contains("REPLICAOF") && read.contains("pubsub"), "{read:?}");
}

#[tokio::test]
async fn a_step_down_goes_over_the_accepted_connection() {
    let (tcp, node, stream, _listener) = hung().await;
    let heir = step_down();
    // The kernel makes connections for a hung process: it accepts them after it has answered what waited.
    for _ in 0..2 {
        tcp.put_aside(&node);
        let question = timeout(Duration::from_millis(20), tcp.call(&node, &Request::Role)).await;
        assert!(question.is_err(), "no answer comes");
    }
    let left = timeout(Duration::from_secs(5), tcp.call(&node, &heir)).await.expect("no answer is awaited");
    assert!(left.is_ok(), "{left:?}");
    timeout(Duration::from_secs(5), stream.readable()).await.expect("words over the first connection").expect("open");
    let read = in_socket(&stream);
    assert!(read.contains("REPLICAOF") && read.contains("pubsub"), "{read:?}");
}

#[tokio::test]
async fn a_step_down_waits_for_room_in_the_socket() {
    let (tcp, node, mut stream, _listener) = hung().await;
    let large = Request::Configure(vec![("requirepass".into(), "x".repeat(16 * 1024 * 1024))]);
    let mut stuck = tcp.call(&node, &large);
    assert!(timeout(Duration::from_millis(100), &mut stuck).await.is_err(), "the node does not read");
    let heir = step_down();
    let mut word = tcp.call(&node, &heir);
    assert!(timeout(Duration::from_millis(100), &mut word).await.is_err(), "it is not in the socket");
    let reads = tokio::spawn(async move {
        let mut bytes = vec![0; 1024 * 1024];
        while let Ok(1..) = stream.read(&mut bytes).await {}
    });
    timeout(Duration::from_secs(10), word).await.expect("there is room again").expect("it is left");
    reads.abort();
}

/// A listener that answers the role, and `answer` to writes; `None` lets them wait.
async fn with_writes(answer: Option<&'static [u8]>) -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            tokio::spawn(async move {
                let mut bytes = [0; 512];
                while let Ok(length @ 1..) = stream.read(&mut bytes).await {
                    let asked = String::from_utf8_lossy(&bytes[..length]).into_owned();
                    let answer = if asked.contains("ROLE") { Some(MASTER) } else { answer };
                    if let Some(answer) = answer {
                        stream.write_all(answer).await.expect("it is written");
                    }
                }
            });
        }
    });
    Endpoint { address, login: None, tls: None }
}

#[tokio::test]
async fn a_refused_write_is_reported_in_the_nodes_words() {
    for (answer, expected) in [
        (":0\r\n", None),
        ("-WRONGTYPE Operation against a key\r\n", None),
        ("-MISCONF Errors writing to the AOF file\r\n", Some("MISCONF Errors writing to the AOF file")),
        ("-NOREPLICAS Not enough good replicas\r\n", Some("NOREPLICAS Not enough good replicas")),
        ("-OOM command not allowed\r\n", Some("OOM command not allowed")),
        ("-READONLY You can't write\r\n", Some("READONLY You can't write")),
    ] {
        let node = with_writes(Some(answer.as_bytes())).await;
        let tcp = Tcp::default();
        for _ in 0..2 {
            let text = tcp.call(&node, &Request::Probe).await.map_err(|error| (error.trouble, error.message));
            match (text, expected) {
                (Ok(reply), None) => assert_eq!(reply, Reply::Done),
                (Err(text), Some(words)) => assert_eq!(text, (Trouble::Refused, words.to_owned())),
                (text, expected) => panic!("{answer}: {text:?}, not {expected:?}"),
            }
        }
    }
}

/// While writes are paused, everything behind one on the same connection waits as well.
#[tokio::test]
async fn a_write_that_waits_holds_nothing_else_up() {
    let node = with_writes(None).await;
    let tcp = Tcp::default();
    let waiting = timeout(Duration::from_millis(50), tcp.call(&node, &Request::Probe));
    let (waiting, role) = tokio::join!(waiting, tcp.call(&node, &Request::Role));
    assert!(
        waiting.is_err() && matches!(role, Ok(Reply::Role(Position { role: Role::Master, .. }))),
        "{waiting:?} {role:?}"
    );
    assert!(tcp.probing.lock().is_empty(), "its connection is closed");
}
