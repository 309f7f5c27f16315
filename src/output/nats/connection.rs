//! The connection to a NATS server: the client, its options, and the errors that the server
//! reports.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::client::FlushErrorKind;
use async_nats::jetstream::context::{Context, ContextBuilder};
use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use ibnet_record::limits;
use ibnet_record::types::Printable;
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use super::super::error::OutputError;
use super::super::options::NatsOptions;
use super::super::secret;

/// Max time to wait for an acknowledgement.
const ACK_TIMEOUT: Duration = Duration::from_secs(2);

/// Max time until a server accepts a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Max number of messages in flight, that is, without an acknowledgement.
pub(super) const WINDOW: usize = 1024;

/// First pause before another attempt to connect or to publish. It doubles with each attempt.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Max pause before another attempt.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Interval of pings. The connection ends after two missing replies.
const PING: Duration = Duration::from_secs(10);

/// A client, which reconnects whenever the connection ends. Its tasks run in one runtime.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) context: Context,
    pub(super) connection: Arc<Connection>,
}

/// State of the connection, as reported by the events of the client.
#[derive(Debug, Default)]
pub(super) struct Connection {
    /// Wakes the publisher when the client is connected.
    pub(super) connected: Notify,
    /// Last error that the server reported, without control characters.
    error: Mutex<Option<String>>,
}

impl Session {
    /// Starts a client whose tasks run in `runtime`.
    pub(super) fn open(options: &NatsOptions, runtime: &Runtime) -> Result<Self, OutputError> {
        let server = options.shown_server();
        let invalid = || OutputError::NatsServer {
            server: server.clone(),
        };
        let addresses = addresses(options)?;
        let connection = Arc::new(Connection::default());
        let connect = connect_options(options, &connection)?;
        let client = runtime.block_on(connect.connect(addresses)).map_err(|error| {
            tracing::warn!(output = ?server, error = %Printable(&error.to_string()), "cannot connect to the NATS server");
            invalid()
        })?;
        let guard = runtime.enter();
        let context = ContextBuilder::new()
            .timeout(ACK_TIMEOUT)
            .ack_timeout(ACK_TIMEOUT)
            .max_ack_inflight(4 * WINDOW)
            .backpressure_on_inflight(true);
        let context = context.build(client.clone());
        drop(guard);
        Ok(Self {
            client,
            context,
            connection,
        })
    }

    /// Returns whether the tasks of the client have ended, for example by a panic.
    pub(super) async fn has_ended(&self) -> bool {
        let flushed = tokio::time::timeout(FIRST_PAUSE, self.client.flush()).await;
        matches!(flushed, Ok(Err(error)) if error.kind() == FlushErrorKind::SendError)
    }
}

/// Connects to a server once. Programs that read from the server or its key-value store use this
/// function. If the connection ends later, the client reconnects.
///
/// # Errors
/// Returns an error if a file of the options cannot be used, or if no server accepts the
/// connection within 15 seconds.
pub async fn connect(options: &NatsOptions) -> Result<Client, OutputError> {
    let addresses = addresses(options)?;
    let connect = authentication(options)?
        .name("ibnet")
        .ping_interval(PING)
        .connection_timeout(CONNECT_TIMEOUT);
    connect
        .connect(addresses)
        .await
        .map_err(|error| OutputError::NatsConnect {
            server: options.shown_server(),
            reason: Printable(&error.to_string()).to_string(),
        })
}

fn addresses(options: &NatsOptions) -> Result<Vec<ServerAddr>, OutputError> {
    let addresses = options
        .server
        .split(',')
        .map(|address| address.trim().parse())
        .collect::<Result<_, _>>();
    addresses.map_err(|_| OutputError::NatsServer {
        server: options.shown_server(),
    })
}

/// Returns the options for TLS and for the credentials of the client.
fn authentication(options: &NatsOptions) -> Result<ConnectOptions, OutputError> {
    let failed = |path: &Path, source| OutputError::NatsFile {
        path: path.to_owned(),
        server: options.shown_server(),
        source,
    };
    let readable = |path: &Path| {
        limits::read_text(path, limits::SECRET).map_err(|source| failed(path, source))
    };
    let mut connect = ConnectOptions::new();
    if let Some(path) = &options.password_file {
        let secret = secret::read(path).map_err(|source| failed(path, source))?;
        connect = match &options.user {
            Some(user) => connect.user_and_password(user.clone(), secret.to_string()),
            None => connect.token(secret.to_string()),
        };
    }
    if let Some(path) = &options.credentials {
        connect = connect
            .credentials(&readable(path)?)
            .map_err(|source| failed(path, source))?;
    }
    if let Some(path) = &options.ca_file {
        readable(path)?;
        connect = connect.add_root_certificates(path.clone());
    }
    if let Some((certificate, key)) = &options.certificate {
        readable(certificate)?;
        readable(key)?;
        connect = connect.add_client_certificate(certificate.clone(), key.clone());
    }
    if options.ca_file.is_some() || options.certificate.is_some() {
        // Without this setting, an attacker on the network path could make the client connect
        // without TLS.
        connect = connect.require_tls(true);
    }
    Ok(connect)
}

/// Returns the options of a client that reconnects without limit and reports its state.
fn connect_options(
    options: &NatsOptions,
    connection: &Arc<Connection>,
) -> Result<ConnectOptions, OutputError> {
    let connect = authentication(options)?;
    let (server, connection) = (options.shown_server(), Arc::clone(connection));
    Ok(connect
        .name("ibnet-sweep")
        .retry_on_initial_connect()
        .ping_interval(PING)
        .reconnect_delay_callback(|attempts| {
            LONGEST_PAUSE.min(
                FIRST_PAUSE
                    * 2u32.saturating_pow(u32::try_from(attempts).unwrap_or(u32::MAX).min(8)),
            )
        })
        .event_callback(move |event| {
            connection.take(&server, &event);
            std::future::ready(())
        }))
}

impl Connection {
    /// Logs an event of the client. The same error in a row is logged only once.
    fn take(&self, server: &str, event: &Event) {
        // The server controls these error texts, so they are escaped.
        let text = Printable(&event.to_string()).to_string();
        match event {
            Event::Connected => {
                *self.error() = None;
                tracing::info!(output = ?server, "connected to the NATS server");
                self.connected.notify_one();
            }
            Event::Disconnected => {
                tracing::warn!(output = ?server, "disconnected from the NATS server; records are buffered");
            }
            Event::ServerError(_) | Event::ClientError(_) => {
                let before = self.error().replace(text.clone());
                if before.as_ref() != Some(&text) {
                    tracing::warn!(output = ?server, error = %text, "the NATS server reported an error");
                }
            }
            _ => {
                tracing::debug!(output = ?server, event = %text, "state of the connection changed");
            }
        }
    }

    pub(super) fn error(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
