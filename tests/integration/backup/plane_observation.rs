//! A backup does not change what it observes: to a Redis it is no replica on which its clients rely.

use std::time::{Duration, Instant};

use serde_json::json;

use super::plane::Plane;
use super::stage::redis_connection;

/// For how long the server is asked after the backup has ended.
const AFTERWARDS: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_does_not_count_as_a_replica() {
    let plane = Plane::new("plane-observed").await;
    for diskless in ["yes", "no"] {
        let name = format!("diskless-{diskless}");
        let address = plane.redis_with(&name, &["--repl-diskless-sync", diskless]).await;
        let mut connection = redis_connection(&address).await;
        for key in 0..40 {
            let value = vec![b'x'; 256 * 1024];
            let () = redis::cmd("SET").arg(key).arg(value).query_async(&mut connection).await.expect("written");
        }
        let bound = ["CONFIG", "SET", "min-replicas-to-write", "1"];
        let () = redis::cmd(bound[0]).arg(&bound[1..]).query_async(&mut connection).await.expect("set");

        let mut backup = plane.begin_backup(&json!({ "type": "redis", "addresses": [address] }));
        let mut ended = None;
        loop {
            let counted: u64 = redis::cmd("WAIT").arg(1).arg(1).query_async(&mut connection).await.expect("an answer");
            assert_eq!(counted, 0, "{name}: the backup is no replica");
            let written: Result<(), redis::RedisError> =
                redis::cmd("SET").arg("key").arg(1).query_async(&mut connection).await;
            assert!(written.is_err_and(|error| error.to_string().contains("NOREPLICAS")), "{name}: it is written");
            match ended {
                None => ended = backup.try_wait().expect("its state").map(|_| Instant::now()),
                Some(at) if at.elapsed() > AFTERWARDS => break,
                Some(_) => {}
            }
        }
        assert!(backup.wait().expect("it ended").success() && plane.manifest().await.is_some(), "{name}");
        // It is attached for a moment only, which a look may miss.
        let info: String = redis::cmd("INFO").arg("stats").query_async(&mut connection).await.expect("facts");
        assert!(info.contains("sync_full:1"), "{name}: the backup was attached once: {info}");
        plane.remove().await;
    }
}
