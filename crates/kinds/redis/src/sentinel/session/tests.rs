use proptest::prelude::*;

use super::super::request::{Request, parse};
use super::super::view::Master;
use super::*;

fn settings() -> Settings {
    Settings {
        name: "cache".into(),
        port: 6379,
        replicas: "cache-replicas.shop.svc".into(),
        id: "0".repeat(40),
        auth: false,
    }
}

fn view(address: &str) -> View {
    let master = Master { address: address.into(), followed: true };
    View { master: Some(master), last: Some(address.into()) }
}

fn words(text: &str) -> Request {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// Returns what is written to a client in answer to that line.
fn reply_to(session: &mut Session, settings: &Settings, view: &View, line: &str) -> String {
    let replies = match session.answer(&words(line), settings, view) {
        Next::Reply(replies) => replies,
        Next::End(reply) => vec![reply],
        Next::Check(_) => panic!("{line} asks the node"),
    };
    encode_all(session, &replies)
}

fn encode_all(session: &Session, replies: &[Reply]) -> String {
    let mut out = Vec::new();
    for reply in replies {
        reply.write(session.protocol, &mut out);
    }
    String::from_utf8(out).unwrap()
}

/// Returns the same for a new client of a set whose master is 10.0.0.1.
fn answer_to(line: &str) -> String {
    reply_to(&mut Session::default(), &settings(), &view("10.0.0.1"), line)
}

/// Returns the values by name, whatever the version of the protocol.
fn fields(reply: &Reply) -> std::collections::BTreeMap<&str, String> {
    let Reply::Map(fields) = reply else { panic!("{reply:?}") };
    let text = |value: &Reply| match value {
        Reply::Text(text) => String::from_utf8(text.clone()).unwrap(),
        other => panic!("{other:?}"),
    };
    fields.iter().map(|(name, value)| (*name, text(value))).collect()
}

fn reply(line: &str) -> Reply {
    let Next::Reply(mut replies) = Session::default().answer(&words(line), &settings(), &view("10.0.0.1")) else {
        panic!("{line}")
    };
    replies.remove(0)
}

#[test]
fn the_master_is_found_by_name_in_any_letter_case() {
    let address = "*2\r\n$8\r\n10.0.0.1\r\n$4\r\n6379\r\n";
    for line in ["SENTINEL get-master-addr-by-name cache", "sentinel GET-MASTER-ADDR-BY-NAME cache"] {
        assert_eq!(answer_to(line), address);
    }
    assert_eq!(answer_to("SENTINEL get-master-addr-by-name mymaster"), "*-1\r\n");
    let unknown = View { master: None, ..view("10.0.0.1") };
    let mut session = Session::default();
    assert_eq!(reply_to(&mut session, &settings(), &unknown, "SENTINEL get-master-addr-by-name cache"), "*-1\r\n");
    assert_eq!(reply_to(&mut session, &settings(), &unknown, "SENTINEL masters"), "*0\r\n");
    assert!(reply_to(&mut session, &settings(), &unknown, "SENTINEL ckquorum cache").starts_with("-NOQUORUM"));
}

/// The fields that redis-py and Lettuce take from it.
#[test]
fn masters_and_replicas_have_the_fields_that_clients_look_at() {
    let Reply::List(masters) = reply("SENTINEL masters") else { panic!("no list") };
    let master = fields(&masters[0]);
    for (name, value) in
        [("name", "cache"), ("ip", "10.0.0.1"), ("port", "6379"), ("flags", "master"), ("num-other-sentinels", "0")]
    {
        assert_eq!(master[name], value);
    }
    assert_eq!(reply("SENTINEL master cache"), masters[0]);
    for line in ["SENTINEL slaves cache", "SENTINEL replicas cache"] {
        let Reply::List(replicas) = reply(line) else { panic!("no list") };
        let replica = fields(&replicas[0]);
        assert_eq!(
            [&*replica["ip"], &*replica["port"], &*replica["flags"]],
            ["cache-replicas.shop.svc", "6379", "slave"]
        );
    }
    let mut alone = view("10.0.0.1");
    alone.master.as_mut().unwrap().followed = false;
    assert_eq!(reply_to(&mut Session::default(), &settings(), &alone, "SENTINEL replicas cache"), "*0\r\n");
    assert_eq!(answer_to("SENTINEL sentinels cache"), "*0\r\n");
    assert_eq!(answer_to("SENTINEL myid"), format!("$40\r\n{}\r\n", "0".repeat(40)));
    assert!(answer_to("SENTINEL ckquorum cache").starts_with("+OK "));
    assert!(answer_to("SENTINEL master mymaster").starts_with("-ERR No such master"));
    assert!(answer_to("INFO").contains("master0:name=cache,status=ok,address=10.0.0.1:6379"));
}

#[test]
fn no_client_can_change_anything() {
    for line in
        ["SENTINEL failover cache", "SENTINEL set cache quorum 1", "SENTINEL reset *", "CONFIG GET *", "SHUTDOWN"]
    {
        assert!(answer_to(line).starts_with("-ERR unknown"), "{line}");
    }
}

#[test]
fn clients_may_say_what_they_are() {
    for line in ["CLIENT SETNAME x", "CLIENT SETINFO LIB-NAME redis-py"] {
        assert_eq!(answer_to(line), "+OK\r\n", "{line}");
    }
    assert_eq!(answer_to("CLIENT ID"), ":0\r\n");
    assert_eq!(answer_to("COMMAND DOCS"), "*0\r\n");
    assert_eq!(answer_to("PING"), "+PONG\r\n");
    assert_eq!(answer_to("PING x"), "$1\r\nx\r\n");
    assert_eq!(Session::default().answer(&words("QUIT"), &settings(), &View::default()), Next::End(Reply::OK));
}

#[test]
fn hello_chooses_the_protocol() {
    let mut session = Session::default();
    let greeting = reply_to(&mut session, &settings(), &View::default(), "HELLO 3 SETNAME x");
    assert!(greeting.starts_with("%7\r\n") && greeting.contains("$4\r\nmode\r\n$8\r\nsentinel\r\n"), "{greeting}");
    let masters = reply_to(&mut session, &settings(), &view("10.0.0.1"), "SENTINEL masters");
    assert!(masters.starts_with("*1\r\n%10\r\n"), "{masters}");
    assert_eq!(
        reply_to(&mut session, &settings(), &View::default(), "SENTINEL get-master-addr-by-name cache"),
        "_\r\n"
    );
    assert!(answer_to("HELLO 4").starts_with("-NOPROTO"));
    assert!(answer_to("HELLO 3 AUTH x").starts_with("-ERR Syntax"));
    assert!(answer_to("HELLO 3 AUTH default any").starts_with("%7"), "where clients need no password, any is right");
}

#[test]
fn nothing_is_answered_before_the_node_checked_the_password() {
    let settings = Settings { auth: true, ..settings() };
    let mut session = Session::default();
    for line in ["PING", "SENTINEL masters", "SUBSCRIBE +switch-master", "INFO", "HELLO 3"] {
        assert!(reply_to(&mut session, &settings, &view("10.0.0.1"), line).starts_with("-NOAUTH"), "{line}");
    }
    assert!(reply_to(&mut session, &settings, &view("10.0.0.1"), "AUTH causeway secret").starts_with("-WRONGPASS"));
    for line in ["AUTH secret", "AUTH default secret", "HELLO 3 AUTH default secret SETNAME x"] {
        for (verdict, start) in [(Verdict::Wrong, "-WRONGPASS"), (Verdict::Unknown, "-LOADING"), (Verdict::Right, "")] {
            let mut session = Session::default();
            let next = session.answer(&words(line), &settings, &View::default());
            assert!(!format!("{next:?}").contains("secret"), "{next:?}");
            let Next::Check(check) = next else { panic!("{line}: {next:?}") };
            assert_eq!(check.password, "secret");
            let reply = session.let_in(&check, verdict, &settings);
            assert!(encode_all(&session, &[reply]).starts_with(start));
            let asked = reply_to(&mut session, &settings, &view("10.0.0.1"), "SENTINEL get-master-addr-by-name cache");
            assert_eq!(asked.contains("10.0.0.1"), verdict == Verdict::Right, "{line}: {asked}");
        }
    }
}

#[test]
fn subscribers_get_one_message_about_each_new_master() {
    let settings = settings();
    for (line, message) in [
        ("SUBSCRIBE +switch-master +sdown", "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n"),
        ("PSUBSCRIBE *", "*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$14\r\n+switch-master\r\n"),
    ] {
        let mut session = Session::default();
        // When it subscribes, the node knows no master: the last known one counts.
        let answer = reply_to(&mut session, &settings, &View { master: None, ..view("10.0.0.1") }, line);
        assert!(answer.ends_with(&format!(":{}\r\n", line.split(' ').count() - 1)), "{answer}");
        assert_eq!(session.subscriptions.tell(&settings, &view("10.0.0.1")), []);
        let moved = session.subscriptions.tell(&settings, &view("10.0.0.2"));
        let text = "cache 10.0.0.1 6379 10.0.0.2 6379";
        assert_eq!(encode_all(&session, &moved), format!("{message}${}\r\n{text}\r\n", text.len()));
        assert_eq!(session.subscriptions.tell(&settings, &view("10.0.0.2")), []);
    }
}

#[test]
fn subscribers_may_do_little_else_until_they_unsubscribe() {
    let (settings, view) = (settings(), view("10.0.0.1"));
    let mut session = Session::default();
    reply_to(&mut session, &settings, &view, "SUBSCRIBE a b");
    assert_eq!(reply_to(&mut session, &settings, &view, "PING"), "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    assert!(reply_to(&mut session, &settings, &view, "SENTINEL masters").starts_with("-ERR Can't execute"));
    assert_eq!(
        reply_to(&mut session, &settings, &view, "UNSUBSCRIBE"),
        "*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$11\r\nunsubscribe\r\n$1\r\nb\r\n:0\r\n"
    );
    assert_eq!(reply_to(&mut session, &settings, &view, "PUNSUBSCRIBE"), "*3\r\n$12\r\npunsubscribe\r\n$-1\r\n:0\r\n");
    assert_eq!(reply_to(&mut session, &settings, &view, "PING"), "+PONG\r\n");
    let many = format!("SUBSCRIBE{}", " x".repeat(65));
    assert!(reply_to(&mut session, &settings, &view, &many).starts_with("-ERR too many"));
}

/// Words that are nearly right.
fn any_word() -> impl Strategy<Value = Vec<u8>> {
    let known = [
        "SENTINEL",
        "masters",
        "master",
        "get-master-addr-by-name",
        "sentinels",
        "replicas",
        "ckquorum",
        "cache",
        "AUTH",
        "default",
        "HELLO",
        "2",
        "3",
        "SETNAME",
        "CLIENT",
        "ID",
        "SUBSCRIBE",
        "PSUBSCRIBE",
        "UNSUBSCRIBE",
        "PUNSUBSCRIBE",
        "*",
        "+switch*",
        "PING",
        "INFO",
        "COMMAND",
        "QUIT",
        "",
    ];
    prop_oneof![
        4 => prop::sample::select(known.to_vec()).prop_map(|word| word.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..12),
    ]
}

proptest! {
    #[test]
    fn whatever_clients_say_they_are_answered_in_whole_replies(
        requests in prop::collection::vec(prop::collection::vec(any_word(), 0..6), 1..12),
        auth in any::<bool>(),
        changes in prop::collection::vec(0..4_u8, 12),
    ) {
        let settings = Settings { auth, ..settings() };
        let mut session = Session::default();
        for (request, change) in requests.iter().zip(&changes) {
            let view = if *change == 0 { View::default() } else { view(&format!("10.0.0.{change}")) };
            let mut replies = session.subscriptions.tell(&settings, &view);
            replies.extend(match session.answer(request, &settings, &view) {
                Next::Reply(replies) => replies,
                Next::End(reply) => vec![reply],
                Next::Check(check) => vec![session.let_in(&check, Verdict::Right, &settings)],
            });
            for reply in replies {
                let mut out = Vec::new();
                reply.write(session.protocol, &mut out);
                prop_assert!(redis::parse_redis_value(&out).is_ok(), "{:?}", String::from_utf8_lossy(&out));
            }
        }
    }

    #[test]
    fn garbage_is_answered_or_refused_and_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut session = Session::default();
        let mut rest = bytes.as_slice();
        while let Ok(Some((request, taken))) = parse(rest) {
            session.answer(&request, &settings(), &view("10.0.0.1"));
            rest = &rest[taken..];
        }
    }
}
