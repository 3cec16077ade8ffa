//! Logs: to stderr, as JSON lines for machines or as text for people.

use std::fmt;

use serde_json::{Map, Value};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets, filter_fn};
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use crate::terminal::has_coloured_errors;

/// The form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// One flat JSON object a line.
    Json,
    /// Text for a terminal.
    Text,
}

/// Logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `LOG_LEVEL` is a word that is no level. As a filter it would be the name of a module, and nothing else were logged.
    #[error("log level {0:?}: use error, warn, info, debug, trace or target=level,…")]
    Level(String),
    /// `LOG_LEVEL` or `RUST_LOG` is invalid.
    #[error("log level {filter:?}: {source}; use error, warn, info, debug, trace or target=level,…")]
    Filter {
        /// The filter that was given.
        filter: String,
        /// The error of the parser.
        source: ParseError,
    },
    /// Logging had already been set up.
    #[error("logging: {0}")]
    Init(#[from] TryInitError),
}

/// The libraries that we use log every packet at `debug`, so they are quiet unless `RUST_LOG` enables them. kube's
/// client logs the whole answer if it cannot decode it, and that may be a list of all objects.
const QUIET: &str =
    "kube_client::client=error,kube_runtime=warn,hyper=info,hyper_util=info,h2=info,rustls=info,tower=info";

/// Starts logging. `level` is `LOG_LEVEL`; `rust_log`, if set, replaces the whole filter.
pub fn init(format: LogFormat, level: &str, rust_log: Option<&str>) -> Result<(), Error> {
    let logs = tracing_subscriber::registry().with(filter(level, rust_log)?).with(filter_fn(tells_no_secret));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    match format {
        LogFormat::Json => logs.with(lines.fmt_fields(JsonFields::new()).event_format(FlatJson)).try_init()?,
        LogFormat::Text => logs.with(lines.with_ansi(has_coloured_errors())).try_init()?,
    }
    Ok(())
}

fn filter(level: &str, rust_log: Option<&str>) -> Result<Targets, Error> {
    // An empty part would be the level `error`, in place of the level before it.
    let parts = |text: &str| -> Vec<String> {
        text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let filter = if let Some(literal) = rust_log.map(parts).filter(|it| !it.is_empty()) {
        literal.join(",")
    } else {
        let levels = parts(level);
        if levels.iter().any(|part| !part.contains('=') && part.parse::<LevelFilter>().is_err()) {
            return Err(Error::Level(level.to_owned()));
        }
        let level = if levels.is_empty() { "info".to_owned() } else { levels.join(",") };
        format!("{QUIET},{level}")
    };
    filter.parse().map_err(|source| Error::Filter { filter, source })
}

/// Returns false for events with secrets: at `trace` the AWS SDK logs whole requests and responses, with signatures and
/// session tokens.
fn tells_no_secret(metadata: &Metadata<'_>) -> bool {
    !(*metadata.level() == Level::TRACE && metadata.target().starts_with("aws_"))
}

/// Writes each line as one flat JSON object: the fields of the event beside those of its spans (object, kind, reconcile
/// id). A log store can then search them without knowing about spans.
struct FlatJson;

impl<S> FormatEvent<S, JsonFields> for FlatJson
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Map::new();
        for span in context.event_scope().into_iter().flat_map(tracing_subscriber::registry::Scope::from_root) {
            if let Some(of_span) = span.extensions().get::<FormattedFields<JsonFields>>() {
                merge(&mut fields, &of_span.fields);
            }
        }
        let mut of_event = String::new();
        context.format_fields(Writer::new(&mut of_event), event)?;
        merge(&mut fields, &of_event);

        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let metadata = event.metadata();
        let head = [
            ("timestamp", Value::from(timestamp)),
            ("level", Value::from(metadata.level().as_str())),
            ("target", Value::from(metadata.target())),
        ];
        for (position, (name, value)) in head.iter().enumerate() {
            fields.remove(*name);
            write!(writer, "{}{}:{value}", if position == 0 { '{' } else { ',' }, Value::from(*name))?;
        }
        for (name, value) in fields {
            write!(writer, ",{}:{value}", Value::from(name))?;
        }
        writeln!(writer, "}}")
    }
}

fn merge(fields: &mut Map<String, Value>, json: &str) {
    if let Ok(Value::Object(more)) = serde_json::from_str(json) {
        fields.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn lines(filter: Targets, logging: impl FnOnce()) -> Vec<Value> {
        let sink = Sink::default();
        let writer = sink.clone();
        let layer = tracing_subscriber::fmt::layer()
            .with_writer(move || writer.clone())
            .fmt_fields(JsonFields::new())
            .event_format(FlatJson);
        let logs = tracing_subscriber::registry().with(filter).with(filter_fn(tells_no_secret)).with(layer);
        tracing::subscriber::with_default(logs, logging);
        let bytes = sink.0.lock().clone();
        String::from_utf8(bytes).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn fields_of_the_spans_stand_beside_those_of_the_event() {
        let lines = lines(filter("info", None).unwrap(), || {
            let outer = tracing::info_span!("reconcile", object = "shop/web", kind = "MyIngress", reconcile_id = 7);
            let _outer = outer.enter();
            let inner = tracing::info_span!("apply", action = "create");
            let _inner = inner.enter();
            tracing::info!(request_id = "abc", "created a \"balancer\"\nand more");
        });
        assert_eq!(lines.len(), 1);
        let line = &lines[0];
        assert_eq!(line["object"], "shop/web");
        assert_eq!(line["kind"], "MyIngress");
        assert_eq!(line["reconcile_id"], 7);
        assert_eq!(line["action"], "create");
        assert_eq!(line["request_id"], "abc");
        assert_eq!(line["message"], "created a \"balancer\"\nand more");
        assert_eq!(line["level"], "INFO");
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'), "{line}");
    }

    #[test]
    fn a_field_does_not_displace_the_head_of_the_line() {
        let lines = lines(filter("info", None).unwrap(), || {
            tracing::info!(level = "fake", "hello");
        });
        assert_eq!(lines[0]["level"], "INFO");
    }

    #[test]
    fn libraries_stay_quiet_and_the_sdk_tells_no_secret() {
        let log = || {
            tracing::debug!(target: "hyper_util::client", "packet");
            tracing::debug!("ours");
            tracing::trace!(target: "aws_sigv4::http_request::sign", "secret");
        };
        let messages = |filter| lines(filter, log).iter().map(|line| line["message"].clone()).collect::<Vec<_>>();
        assert_eq!(messages(filter("debug", None).unwrap()), ["ours"]);
        assert_eq!(messages(filter("info", Some("trace")).unwrap()), ["packet", "ours"]);
        assert_eq!(messages(filter("warn", Some(" ")).unwrap()), Vec::<Value>::new());
    }

    #[test]
    fn an_unknown_level_names_the_allowed_ones() {
        for level in ["loud=very", "verbose", "info,verbose"] {
            let message = filter(level, None).unwrap_err().to_string();
            assert!(message.contains(level) && message.contains("error, warn, info"), "{message}");
        }
        assert!(filter("warn,causeway::runtime=debug", None).is_ok());
    }

    #[test]
    fn empty_parts_of_a_filter_do_not_count() {
        let told = |level, rust_log| lines(filter(level, rust_log).unwrap(), || tracing::info!("ours")).len();
        assert_eq!([told("info,", None), told("", None), told("warn, info", None)], [1; 3]);
        assert_eq!([told("error", Some("debug,")), told("error", Some("off,,"))], [1, 0]);
    }
}
