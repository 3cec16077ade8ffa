//! Databases with a given amount of data: one server in a pod, with values of which half can be compressed.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::net::TcpStream;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::bench::http::Http;
use crate::bench::scene::Scene;
use crate::progress::Step;

/// All kinds.
pub const KINDS: [Kind; 2] = [Kind::Etcd, Kind::Redis];

const VALUE: usize = 256 * 1024;

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Etcd,
    Redis,
}

impl Kind {
    /// The prefix of its figures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Redis => "redis",
        }
    }

    /// How users do it without Causeway.
    pub fn pipeline(self) -> &'static str {
        match self {
            // etcdctl cannot write to a pipe.
            Self::Etcd => "etcdctl snapshot save FILE, then zstd < FILE | aws s3 cp -",
            Self::Redis => "redis-cli --rdb - | zstd | aws s3 cp -",
        }
    }

    fn pod(self) -> Value {
        let (image, port, command) = match self {
            Self::Etcd => (
                "quay.io/coreos/etcd:v3.5.9",
                2379,
                json!([
                    "etcd",
                    "--data-dir=/data/etcd",
                    "--listen-client-urls=http://0.0.0.0:2379",
                    "--advertise-client-urls=http://127.0.0.1:2379",
                    "--quota-backend-bytes=8589934592",
                    "--snapshot-count=1000",
                    // Waiting for the disk would not make the measurement more accurate.
                    "--unsafe-no-fsync",
                ]),
            ),
            Self::Redis => (
                "redis:7.0.15",
                6379,
                // Without the server's own compression, which would distort the comparison of later compression.
                json!([
                    "redis-server",
                    "--save",
                    "",
                    "--protected-mode",
                    "no",
                    "--repl-diskless-sync-delay",
                    "0",
                    "--rdbcompression",
                    "no"
                ]),
            ),
        };
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": self.name() },
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "server", "image": image, "command": command,
                    "readinessProbe": { "tcpSocket": { "port": port }, "periodSeconds": 1 },
                    "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
                }],
                "volumes": [{ "name": "data", "emptyDir": {} }],
            },
        })
    }
}

/// A server that holds data.
pub struct Source {
    pub kind: Kind,
    /// The IP address of its pod.
    pub host: String,
    /// The amount of data in it, in MiB.
    pub mebibytes: usize,
}

impl Source {
    /// A new server with that amount of data.
    pub fn filled(scene: &Scene, kind: Kind, mebibytes: usize, step: &Step) -> Result<Self> {
        let host = scene.serve(&kind.pod(), step)?;
        let values = (mebibytes << 20) / VALUE;
        step.note(format!("writing {values} values of {} KiB", VALUE / 1024));
        match kind {
            Kind::Etcd => fill_etcd(&host, values)?,
            Kind::Redis => fill_redis(&host, values)?,
        }
        Ok(Self { kind, host, mebibytes })
    }

    /// Removes the server.
    pub fn remove(&self, scene: &Scene) -> Result<()> {
        scene.end_server(self.kind.name())
    }
}

/// Uses etcd's JSON gateway, which takes base64. Any text of base64's letters decodes to some bytes.
/// <https://etcd.io/docs/v3.5/dev-guide/api_grpc_gateway/>
fn fill_etcd(host: &str, values: usize) -> Result<()> {
    let (http, mut letters) = (Http::new(&format!("http://{host}:2379")), Letters(1));
    for index in 0..values {
        // Four letters decode to three bytes.
        let put = json!({ "key": format!("key{index:09}"), "value": letters.text(VALUE / 3 * 4) });
        http.send("POST", "/v3/kv/put", &[], &put.to_string())?;
    }
    Ok(())
}

/// Uses the Redis protocol directly. <https://redis.io/docs/latest/develop/reference/protocol-spec/>
fn fill_redis(host: &str, values: usize) -> Result<()> {
    let line = TcpStream::connect((host, 6379)).with_context(|| format!("{host} does not answer"))?;
    let mut answers = BufReader::new(line.try_clone()?);
    let (mut line, mut letters) = (BufWriter::new(line), Letters(1));
    for index in 0..values {
        let key = format!("key{index:09}");
        let value = letters.text(VALUE);
        write!(line, "*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${VALUE}\r\n{value}\r\n", key.len())?;
        line.flush()?;
        let mut answer = String::new();
        answers.read_line(&mut answer)?;
        ensure!(answer == "+OK\r\n", "value {index}: {answer}");
    }
    Ok(())
}

/// Base64 letters in which every second kilobyte repeats. The same seed always gives the same letters.
struct Letters(u64);

impl Letters {
    fn text(&mut self, length: usize) -> String {
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::with_capacity(length + 16);
        while text.len() < length {
            if text.len() / 1024 % 2 == 1 {
                text.push_str("abcdefgh");
                continue;
            }
            // Xorshift is good enough, because nothing here is secret.
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            text.extend((0..8).map(|byte| char::from(ALPHABET[usize::from(self.0.to_le_bytes()[byte] % 64)])));
        }
        text.truncate(length);
        text
    }
}
