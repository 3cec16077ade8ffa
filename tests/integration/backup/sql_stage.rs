//! Servers of PostgreSQL and MariaDB in pods, and questions to them: each question is a pod of the same image.

use std::time::Duration;

use causeway_api::databaserestore::RestorePhase;
use causeway_api::{DatabaseBackup, DatabaseBackupStatus, DatabaseRestore, DatabaseRestoreStatus};
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::stage::{NAME, NEVER, Stage, WAIT_TIMEOUT};
use crate::support::backends::USABLE_BY_ALL;
use crate::support::certificates::give;
use crate::support::wait::wait_within;

/// The Secret with user and password.
pub const LOGIN: &str = "db-login";
/// The Secret with the certificate of a server with TLS.
pub const CERTIFICATE: &str = "db-tls";
/// The memory limit of a pod that takes a backup: enough for our program and the database's own, whatever the size of
/// the data.
const MEMORY: &str = "96Mi";
const SERVER: &str = "server";
/// The pod of a second server.
const SECOND: &str = "server-2";
/// The Service that has both behind it.
const BOTH: &str = "both";
/// The password of every server.
pub const PASSWORD: &str = "it's a \"secret\" of \\ours";

/// Asks the question on standard input. A termination message has at most 4 KiB, so each answer is cut.
const TELL: &str = "tell() {
  answer=$(ask)
  case $answer in *'ERROR '* | *ERROR:*) answer=ERROR${answer#*ERROR} ;; esac
  printf '%.50s %.8s\\n' \"$(printf %s \"$answer\" | tr -c '[:print:]' ' ')\" \"$(printf %s \"$answer\" | md5sum)\"
}
";

/// A kind of server.
pub struct Engine {
    /// The field of the API.
    pub field: &'static str,
    pub image: &'static str,
    pub port: u16,
    pub user: &'static str,
    /// Creates and runs a server. `PASSWORD` has the password, and `TLS` what is added for TLS, if that is wanted.
    pub serve: &'static str,
    /// Makes the server take only clients with TLS.
    pub serve_tls: &'static str,
    /// Further settings of the server, in `SETTINGS`.
    pub settings: &'static str,
    /// Runs statements from standard input. `HOST` has the host, and `TLS` what is added for TLS.
    pub client: &'static str,
    /// Makes the client use TLS.
    pub client_tls: &'static str,
}

/// A stage with a server.
pub struct SqlStage {
    stage: Stage,
    engine: &'static Engine,
    /// True if the server takes only clients with TLS.
    secured: bool,
    /// Name or address of the server.
    pub host: String,
}

impl std::ops::Deref for SqlStage {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.stage
    }
}

impl SqlStage {
    /// A new one, with a server and the Secret for it.
    pub async fn new(name: &str, engine: &'static Engine) -> Self {
        Box::pin(Self::with(name, engine, false)).await
    }

    /// The same, with a server that has a certificate for its Service's name, and takes only clients with TLS.
    pub async fn secured(name: &str, engine: &'static Engine) -> Self {
        Box::pin(Self::with(name, engine, true)).await
    }

    async fn with(name: &str, engine: &'static Engine, secured: bool) -> Self {
        let mut stage = Self { stage: Stage::new(name).await, engine, secured, host: String::new() };
        stage.serve().await;
        stage
    }

    /// Starts a server, and creates the Secret for it.
    pub async fn serve(&mut self) {
        let engine = self.engine;
        let secret = json!({
            "metadata": { "name": LOGIN, "labels": { "causeway.example.com/usable-by": USABLE_BY_ALL } },
            "stringData": { "username": engine.user, "password": PASSWORD },
        });
        let secret: Secret = serde_json::from_value(secret).expect("a Secret");
        self.api::<Secret>().create(&PostParams::default(), &secret).await.expect("the Secret is taken");
        if self.secured {
            self.serve_as("db").await;
        }
        self.start().await;
    }

    /// Replaces the server by a new, empty one.
    pub async fn replace(&mut self) {
        let api = self.api::<Pod>();
        api.delete(SERVER, &DeleteParams::default().grace_period(0)).await.expect("the server goes");
        self.gone::<Pod>(SERVER).await;
        self.start().await;
    }

    /// Replaces the server by a new, empty one of another kind.
    pub async fn replace_by(&mut self, engine: &'static Engine) {
        self.engine = engine;
        self.replace().await;
    }

    async fn start(&mut self) {
        let address = self.started(SERVER).await;
        if !self.secured {
            self.host = address;
        }
    }

    /// Starts a second server beside the first, and a Service with both behind it. Returns the address of the second, and the
    /// Service's name.
    pub async fn second(&self) -> (String, String) {
        let address = self.started(SECOND).await;
        let label = Patch::Merge(json!({ "metadata": { "labels": { BOTH: "yes" } } }));
        for name in [SERVER, SECOND] {
            self.api::<Pod>().patch(name, &PatchParams::default(), &label).await.expect("the label is taken");
        }
        let service = json!({
            "metadata": { "name": BOTH },
            "spec": { "selector": { BOTH: "yes" }, "ports": [{ "port": self.engine.port }] },
        });
        let service: Service = serde_json::from_value(service).expect("a Service");
        self.api::<Service>().create(&PostParams::default(), &service).await.expect("the Service is taken");
        (address, format!("{BOTH}.{}.svc", self.namespace))
    }

    /// Starts a server in a pod of that name; returns its address when it serves.
    async fn started(&self, name: &str) -> String {
        let engine = self.engine;
        let probe = json!({ "tcpSocket": { "port": engine.port }, "periodSeconds": 1 });
        self.pod(name, engine.serve, Some(&probe)).await;
        let ready = |pod: &Pod| {
            let status = pod.status.clone().unwrap_or_default();
            assert_ne!(status.phase.as_deref(), Some("Failed"), "{status:#?}");
            status.conditions.iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True")
        };
        let api = self.api::<Pod>();
        let pod =
            wait_within(WAIT_TIMEOUT, "a server", || async { api.get(name).await.expect("the pod") }, ready).await;
        pod.status.and_then(|status| status.pod_ip).expect("an address")
    }

    /// Makes a Service of that name for the server, and a certificate for it.
    async fn serve_as(&mut self, name: &str) {
        let service = json!({
            "metadata": { "name": name },
            "spec": { "selector": { "app": SERVER }, "ports": [{ "port": self.engine.port }] },
        });
        let service: Service = serde_json::from_value(service).expect("a Service");
        self.api::<Service>().create(&PostParams::default(), &service).await.expect("the Service is taken");
        self.host = format!("{name}.{}.svc", self.namespace);
        give(&self.stage, CERTIFICATE, std::slice::from_ref(&self.host)).await;
    }

    /// Runs a script in a pod of that name. Its `$$` are doubled: Kubernetes reads two dollars as one.
    async fn pod(&self, name: &str, script: &str, probe: Option<&Value>) {
        let variables = [("HOST", self.host.as_str()), ("PASSWORD", PASSWORD), ("PGPASSWORD", PASSWORD)];
        let tls = if name == SERVER { self.engine.serve_tls } else { self.engine.client_tls };
        let settings = self.engine.settings;
        let others = [("MYSQL_PWD", PASSWORD), ("SETTINGS", settings), ("TLS", if self.secured { tls } else { "" })];
        let variables = variables.into_iter().chain(others);
        let variables: Vec<Value> = variables.map(|(name, value)| json!({ "name": name, "value": value })).collect();
        let pod = json!({
            "metadata": { "name": name, "labels": { "app": name } },
            "spec": {
                "terminationGracePeriodSeconds": 0, "restartPolicy": "Never",
                "securityContext": { "runAsUser": 999, "runAsGroup": 999, "fsGroup": 999 },
                "volumes": [{
                    "name": "tls", "secret": { "secretName": CERTIFICATE, "optional": true, "defaultMode": 0o440 },
                }],
                "containers": [{
                    "name": "main", "image": self.engine.image, "command": ["sh", "-ec", script.replace("$$", "$$$$")], "env": variables,
                    "volumeMounts": [{ "name": "tls", "mountPath": "/tls" }],
                    "readinessProbe": probe, "terminationMessagePolicy": "FallbackToLogsOnError",
                }],
            },
        });
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        self.api::<Pod>().create(&PostParams::default(), &pod).await.expect("the pod is taken");
    }

    /// Starts to run statements, in a pod of that name.
    pub async fn begin(&self, name: &str, statements: &str) {
        let client = self.engine.client;
        let script =
            format!("{client} > /dev/termination-log <<'END_OF_STATEMENTS'\n{statements}\nEND_OF_STATEMENTS\n");
        self.pod(name, &script, None).await;
    }

    /// Waits until PostgreSQL runs a statement with these words that another client has begun: its pod may take long to start.
    pub async fn runs(&self, words: &str) {
        let until_seen = format!(
            "DO $$ BEGIN WHILE NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid <> pg_backend_pid()
              AND application_name = 'psql' AND state = 'active' AND query LIKE '%{words}%'
            ) LOOP PERFORM pg_sleep(0.01), pg_stat_clear_snapshot(); END LOOP; END $$;"
        );
        self.ask(&until_seen).await;
    }

    /// Waits until the statements have ended; returns what they printed.
    pub async fn end(&self, name: &str) -> String {
        let api = self.api::<Pod>();
        let look = || async {
            let status = api.get(name).await.expect("the pod").status.unwrap_or_default();
            let state = status.container_statuses.and_then(|all| all.into_iter().next()?.state);
            state.and_then(|state| state.terminated)
        };
        let ended =
            wait_within(WAIT_TIMEOUT, &format!("{name} to end"), look, Option::is_some).await.expect("just seen");
        let printed = ended.message.unwrap_or_default();
        assert_eq!(ended.exit_code, 0, "{name}: {printed}");
        api.delete(name, &DeleteParams::default().grace_period(0)).await.expect("the pod goes");
        self.gone::<Pod>(name).await;
        printed.trim().to_owned()
    }

    /// Runs statements to their end; returns what they print.
    pub async fn ask(&self, statements: &str) -> String {
        self.begin("ask", statements).await;
        self.end("ask").await
    }

    /// Asks each question separately, after `enter`; returns the beginning of each answer, and a checksum of the whole
    /// answer. The answer to a question that failed begins with `ERROR`.
    pub async fn ask_each(&self, enter: &str, questions: &[&str]) -> Vec<String> {
        let client = self.engine.client;
        let put = |question: &&str| format!("tell <<'END_OF_STATEMENTS'\n{enter}\n{question}\nEND_OF_STATEMENTS\n");
        let all = questions.iter().map(put).collect::<Vec<_>>().concat();
        let script = format!("ask() {{ {client} 2>&1 || true; }}\n{TELL}{{\n{all}}} > /dev/termination-log\n");
        self.pod("ask-each", &script, None).await;
        self.end("ask-each").await.lines().map(|line| line.trim().to_owned()).collect()
    }

    /// Runs statements as another user, up to the first that fails; returns what they print, including the error.
    pub async fn ask_as(&self, user: &str, password: &str, statements: &str) -> String {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
        let client = self.engine.client.replace(&format!("-u {}", self.engine.user), &format!("-u {}", quoted(user)));
        let script = format!(
            "export MYSQL_PWD={} PGPASSWORD={}\n{client} > /dev/termination-log 2>&1 <<'END_OF_STATEMENTS' || \
             true\n{statements}\nEND_OF_STATEMENTS\n",
            quoted(password),
            quoted(password)
        );
        self.pod("ask-as", &script, None).await;
        self.end("ask-as").await
    }

    /// Creates a Secret for that user; returns the field of a server that names it.
    pub async fn login(&self, user: &str, password: &str) -> Value {
        let secret = json!({
            "metadata": { "name": user, "labels": { "causeway.example.com/usable-by": USABLE_BY_ALL } },
            "stringData": { "username": user, "password": password },
        });
        let secret: Secret = serde_json::from_value(secret).expect("a Secret");
        self.api::<Secret>().create(&PostParams::default(), &secret).await.expect("the Secret is taken");
        json!({ "authSecretName": user })
    }

    /// The server as the API names it, with other fields in place of its own.
    pub fn server(&self, others: &Value) -> Value {
        let mut server = json!({ "host": self.host, "image": self.engine.image, "authSecretName": LOGIN });
        for (field, value) in others.as_object().into_iter().flatten() {
            server[field] = value.clone();
        }
        json!({ (self.engine.field): server })
    }

    /// Asks for a backup of the server at once, by an object of that name. It is not retried.
    pub async fn back_up(&self, name: &str, source: &Value, verify: bool) {
        // The proof of a backup also runs a server, so it gets no limit.
        let small = json!({ "resources": { "limits": { "memory": MEMORY } } });
        let fields = if verify { json!({ "verify": { "afterEach": true } }) } else { small };
        self.back_up_as(name, source, &fields).await;
    }

    /// The same with these fields of its spec.
    pub async fn back_up_as(&self, name: &str, source: &Value, fields: &Value) {
        let mut spec = json!({
            "schedule": NEVER, "retry": { "limit": 0, "deadline": "1800s" }, "source": source,
        });
        for (field, value) in fields.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        self.create::<DatabaseBackup>(name, spec).await;
        let patch = json!({ "metadata": { "annotations": { "causeway.example.com/backup-now": "once" } } });
        let patched = self.api::<DatabaseBackup>().patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        patched.expect("the annotation is taken");
    }

    /// Waits until a backup failed; returns its reason and message.
    pub async fn failure(&self, name: &str) -> (String, String) {
        let api = self.api::<DatabaseBackup>();
        let look = || async { api.get(name).await.expect("the object").status.unwrap_or_default() };
        let failed = |status: &DatabaseBackupStatus| status.last_failure.is_some();
        let status = wait_within(WAIT_TIMEOUT, &format!("{name} to fail"), look, failed).await;
        assert_eq!(status.backups, 0, "{status:?}");
        status.last_failure.map(|failure| (failure.reason, failure.message)).expect("just seen")
    }

    /// Restores the newest backup; returns how that ended.
    pub async fn restore(&self, name: &str, target: &Value, force: bool) -> DatabaseRestoreStatus {
        self.restore_as(name, target, &json!({ "force": force })).await
    }

    /// The same with these fields of its spec.
    pub async fn restore_as(&self, name: &str, target: &Value, fields: &Value) -> DatabaseRestoreStatus {
        let mut spec = json!({ "from": { "backup": NAME }, "target": target });
        for (field, value) in fields.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        self.create::<DatabaseRestore>(name, spec).await;
        let api = self.api::<DatabaseRestore>();
        let look = || async { api.get(name).await.expect("the object").status.unwrap_or_default() };
        wait_within(WAIT_TIMEOUT, &format!("{name} to end"), look, |status| status.phase.is_final()).await
    }

    /// Restores, and panics unless that succeeds; returns the number of rows.
    pub async fn restored(&self, name: &str, target: &Value, force: bool) -> i64 {
        let status = self.restore(name, target, force).await;
        assert_eq!(status.phase, RestorePhase::Succeeded, "{status:?}");
        status.keys.expect("rows")
    }

    /// Waits until a backup was proven; returns the status.
    pub async fn proven(&self) -> DatabaseBackupStatus {
        let tried = |status: &DatabaseBackupStatus| !status.verified.is_empty();
        let status = self.becomes("a verdict", tried).await.status.expect("a status");
        assert!(status.verified[0].ok, "{:?}", status.verified);
        status
    }
}

/// How long something took, for people.
pub fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
