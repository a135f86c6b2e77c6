//! The handshake: is this a Redis, who are we, which database, what does it say of itself.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_rustls::rustls;

use super::ServerInfo;
use super::info;
use crate::redis::resp::{Command, Parser, ProtocolError, Value, store_error};
use crate::redis::url::Login;
use crate::store::StoreError;

/// Bytes of a strange answer that are shown.
const SHOWN_BYTES_MAX: usize = 24;

/// Logs in.
///
/// A peer that has not answered a `PING` in the protocol is not told the password.
pub(super) async fn greet<S>(stream: &mut S, parser: &mut Parser, login: &Login) -> Result<ServerInfo, StoreError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let is_tls = login.tls.is_some();
    send(stream, Command::new(&[b"PING"]).as_bytes(), is_tls).await?;
    match receive(stream, parser, is_tls).await? {
        // Who says this hangs up.
        Value::Error(text) if text.starts_with("DENIED") || text.starts_with("ERR max number of clients") => {
            return Err(store_error(&text));
        }
        Value::Status(_) | Value::Error(_) => {}
        _ => return Err(StoreError::protocol("the peer answers PING with something else; is this the address of a Redis?")),
    }

    let commands = commands(login);
    let bytes: Vec<u8> = commands.iter().flat_map(|(_, command)| command.as_bytes()).copied().collect();
    send(stream, &bytes, is_tls).await?;
    let mut server = ServerInfo::default();
    for (step, _) in &commands {
        let reply = receive(stream, parser, is_tls).await?;
        match (step, reply) {
            (Step::Name, _) | (Step::Login | Step::Database, Value::Status(_)) => {}
            (Step::Info, Value::Bulk(text)) => server = info::read(&text)?,
            // Whoever may not ask for it may still be allowed all that is needed.
            (Step::Info, Value::Error(text)) if text.starts_with("NOPERM") => {}
            (step, Value::Error(text)) => return Err(refused(step, login, &text)),
            _ => {
                return Err(StoreError::protocol(
                    "the peer answers the handshake with something else; is this the address of a Redis?",
                ));
            }
        }
    }
    Ok(server)
}

/// A part of the handshake.
enum Step {
    Login,
    Name,
    Database,
    Info,
}

/// What is sent, all at once.
fn commands(login: &Login) -> Vec<(Step, Command)> {
    let mut commands = Vec::with_capacity(4);
    let password = login.password.as_ref().map_or("", |password| password.expose()).as_bytes();
    if let Some(user) = &login.username {
        commands.push((Step::Login, Command::new(&[b"AUTH", user.as_bytes(), password])));
    } else if login.password.is_some() {
        commands.push((Step::Login, Command::new(&[b"AUTH", password])));
    }
    commands.push((Step::Name, Command::new(&[b"CLIENT", b"SETNAME", login.client_name.as_bytes()])));
    if login.database != 0 {
        commands.push((Step::Database, Command::new(&[b"SELECT", login.database.to_string().as_bytes()])));
    }
    commands.push((Step::Info, Command::new(&[b"INFO"])));
    commands
}

/// What the refusal of a step means.
fn refused(step: &Step, login: &Login, text: &str) -> StoreError {
    // A server repeats the arguments of a command that it does not know, and here they are the password, perhaps cut.
    if matches!(step, Step::Login) && text.starts_with("ERR unknown command") {
        return StoreError::Access { why: "the server does not know AUTH; leave user and password out of the address".into() };
    }
    match (step, store_error(text)) {
        // Among others: the server has no password, and the address has one.
        (Step::Login, StoreError::Protocol { why }) => StoreError::Access { why },
        (Step::Database, StoreError::Protocol { why }) => {
            StoreError::protocol(format!("database {} cannot be used: {why}", login.database))
        }
        (Step::Info, StoreError::Access { why }) if login.password.is_none() && why.starts_with("NOAUTH") => {
            StoreError::Access { why: format!("{why}; the address has no password").into() }
        }
        (_, error) => error,
    }
}

pub(super) async fn send<S: AsyncWrite + Unpin>(stream: &mut S, bytes: &[u8], is_tls: bool) -> Result<(), StoreError> {
    stream.write_all(bytes).await.map_err(|error| broken(&error, is_tls))?;
    stream.flush().await.map_err(|error| broken(&error, is_tls))
}

pub(super) async fn receive<S>(stream: &mut S, parser: &mut Parser, is_tls: bool) -> Result<Value, StoreError>
where
    S: AsyncRead + Unpin,
{
    loop {
        if let Some(value) = parser.next_value().map_err(|error| strange(error, parser.rest()))? {
            return Ok(value);
        }
        let length = stream.read(parser.space()).await.map_err(|error| broken(&error, is_tls))?;
        if length == 0 {
            return Err(broken(&io::ErrorKind::UnexpectedEof.into(), is_tls));
        }
        parser.filled(length);
    }
}

/// What an answer is that is no reply, as far as can be guessed.
pub(super) fn strange(error: ProtocolError, seen: &[u8]) -> StoreError {
    let peer = match seen {
        [b'H', b'T', b'T', b'P', b'/', ..] => "HTTP",
        [b'S', b'S', b'H', b'-', ..] => "SSH",
        [b'E', b'R', b'R', b'O', b'R', ..] => "like a Memcached",
        // A record of TLS: an alert, or a handshake.
        [0x15 | 0x16, 3, ..] => return StoreError::protocol("the peer speaks TLS; write rediss://"),
        _ => {
            let shown = seen[..seen.len().min(SHOWN_BYTES_MAX)].escape_ascii();
            return StoreError::protocol(format!("{error}, in \"{shown}\"; is this the address of a Redis?"));
        }
    };
    StoreError::protocol(format!("the peer answers {peer}; is this the address of a Redis?"))
}

/// Why a connection broke before it worked.
pub(super) fn broken(error: &io::Error, is_tls: bool) -> StoreError {
    // With TLS 1.3 the server's opinion of our certificate comes after the greeting.
    if let Some(cause) = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>()) {
        return without_tls(cause);
    }
    let is_ended = matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionAborted
    );
    if !is_ended {
        return StoreError::unavailable(format!("the connection broke during the handshake: {error}"));
    }
    let question =
        if is_tls { "does the server want a certificate (tls_cert, tls_key)?" } else { "does it speak TLS (rediss://)?" };
    StoreError::unavailable(format!(
        "the peer closed the connection during the handshake; is this the address of a Redis, and {question}"
    ))
}

/// Why TLS could not be agreed upon. That nothing is wrong with the network makes it no better: until somebody mends it, it fails.
fn without_tls(cause: &rustls::Error) -> StoreError {
    use rustls::{AlertDescription, Error};

    let why = match cause {
        Error::InvalidMessage(_) => {
            return StoreError::protocol(
                "the peer does not speak TLS; write redis:// if the server has none, or the port that has it",
            );
        }
        Error::InvalidCertificate(_) => {
            format!("the certificate of the server is not trusted ({cause}); tls_ca names a file of authorities")
        }
        Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "the server wants a certificate; tls_cert and tls_key name its files".to_owned()
        }
        _ => format!("no agreement on TLS: {cause}"),
    };
    StoreError::Access { why: why.into() }
}
