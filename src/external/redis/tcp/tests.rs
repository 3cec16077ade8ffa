//! Connections to listeners of ours, which answer as it suits the test.

use std::sync::atomic::AtomicUsize;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};

use super::super::Role;
use super::*;

const MASTER: &[u8] = b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n";

/// A listener that closes so many connections when it is asked something; it counts all.
async fn closing(most: usize) -> (Endpoint, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            stream.read_u8().await.expect("a question");
            if counted.fetch_add(1, Ordering::SeqCst) >= most {
                stream.write_all(MASTER).await.expect("it is told");
                // It stays open.
                stream.read_to_end(&mut Vec::new()).await.ok();
            }
        }
    });
    (Endpoint { address, login: None, tls: None }, count)
}

async fn asked(node: &Endpoint) -> Result<Reply, Trouble> {
    Tcp::default().call(node, &Request::Role).await.map_err(|error| error.trouble)
}

#[tokio::test]
async fn who_takes_another_connection_is_not_gone() {
    let (node, count) = closing(TRIES - 1).await;
    assert!(matches!(asked(&node).await, Ok(Reply::Role(Role::Master))));
    assert_eq!(count.load(Ordering::SeqCst), TRIES);
}

#[tokio::test]
async fn who_closes_every_connection_may_live() {
    let (node, count) = closing(usize::MAX).await;
    assert_eq!(asked(&node).await, Err(Trouble::Broken));
    assert_eq!(count.load(Ordering::SeqCst), TRIES);
}

#[tokio::test]
async fn a_change_is_not_made_twice() {
    let (node, count) = closing(usize::MAX).await;
    let answer = Tcp::default().call(&node, &Request::KeepMastership).await;
    assert_eq!(answer.map_err(|error| error.trouble), Err(Trouble::Broken));
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn where_nobody_listens_the_process_is_gone() {
    // As long as it is held nobody else gets the port.
    let held = TcpSocket::new_v4().expect("a socket");
    held.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let address = held.local_addr().expect("an address").to_string();
    assert_eq!(asked(&Endpoint { address, login: None, tls: None }).await, Err(Trouble::Gone));
}

#[tokio::test]
async fn a_way_that_leads_nowhere_tells_nothing() {
    // A broadcast is for nobody to connect to: the kernel refuses at once.
    let node = Endpoint { address: "255.255.255.255:6379".into(), login: None, tls: None };
    assert_eq!(asked(&node).await, Err(Trouble::Unanswered));
}

#[tokio::test]
async fn a_node_that_hangs_finds_word_left_over_the_connection_that_it_took() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let node = Endpoint { address: listener.local_addr().expect("an address").to_string(), login: None, tls: None };
    let awake = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        stream.read_u8().await.expect("a question");
        stream.write_all(MASTER).await.expect("it is told");
        (stream, listener)
    });
    let tcp = Tcp::default();
    let heir = Request::StepDown { host: "10.0.0.2".into(), port: 6379 };
    let trouble = tcp.call(&node, &heir).await.map_err(|error| error.trouble);
    assert_eq!(trouble, Err(Trouble::Broken), "no connection is made for that");
    tcp.call(&node, &Request::Role).await.expect("a role");
    let (mut stream, _listener) = awake.await.expect("it took the connection");
    // From here on it hangs.
    let question = timeout(Duration::from_millis(20), tcp.call(&node, &Request::Role)).await;
    assert!(question.is_err(), "nobody answers");
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

/// A listener that answers the role, and to writes what the test wants: nothing where that is left out.
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
                        stream.write_all(answer).await.expect("it is told");
                    }
                }
            });
        }
    });
    Endpoint { address, login: None, tls: None }
}

#[tokio::test]
async fn a_write_that_is_refused_is_told_in_the_words_of_the_node() {
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
            let told = tcp.call(&node, &Request::Probe).await.map_err(|error| (error.trouble, error.message));
            match (told, expected) {
                (Ok(reply), None) => assert_eq!(reply, Reply::Done),
                (Err(told), Some(words)) => assert_eq!(told, (Trouble::Refused, words.to_owned())),
                (told, expected) => panic!("{answer}: {told:?}, not {expected:?}"),
            }
        }
    }
}

/// Where a client's writes are paused, everything behind one on the same connection waits as well.
#[tokio::test]
async fn a_write_that_waits_holds_nothing_else_up() {
    let node = with_writes(None).await;
    let tcp = Tcp::default();
    let waiting = timeout(Duration::from_millis(50), tcp.call(&node, &Request::Probe));
    let (waiting, role) = tokio::join!(waiting, tcp.call(&node, &Request::Role));
    assert!(waiting.is_err() && matches!(role, Ok(Reply::Role(Role::Master))), "{waiting:?} {role:?}");
    assert!(tcp.probing.lock().expect("nobody panics with it").is_empty(), "its connection is closed");
}
