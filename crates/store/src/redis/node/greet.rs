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
    send(stream, &[Command::new(&[b"PING"])]).await?;
    match receive(stream, parser).await? {
        // Who says this hangs up.
        Value::Error(text) if text.starts_with("DENIED") || text.starts_with("ERR max number of clients") => {
            return Err(store_error(&text));
        }
        Value::Status(_) | Value::Error(_) => {}
        _ => return Err(StoreError::protocol("the peer answers PING with something else; is this the address of a Redis?")),
    }

    let commands = commands(login);
    send(stream, &commands.iter().map(|(_, command)| command.clone()).collect::<Vec<_>>()).await?;
    let mut server = ServerInfo::default();
    for (step, _) in &commands {
        let reply = receive(stream, parser).await?;
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

async fn send<S: AsyncWrite + Unpin>(stream: &mut S, commands: &[Command]) -> Result<(), StoreError> {
    let bytes: Vec<u8> = commands.iter().flat_map(Command::as_bytes).copied().collect();
    stream.write_all(&bytes).await.map_err(|error| broken(&error))?;
    stream.flush().await.map_err(|error| broken(&error))
}

async fn receive<S: AsyncRead + Unpin>(stream: &mut S, parser: &mut Parser) -> Result<Value, StoreError> {
    loop {
        if let Some(value) = parser.next_value().map_err(|error| strange(error, parser.rest()))? {
            return Ok(value);
        }
        let length = stream.read(parser.space()).await.map_err(|error| broken(&error))?;
        if length == 0 {
            return Err(StoreError::unavailable(
                "the peer closed the connection during the handshake; is this the address of a Redis, and does the port speak TLS (rediss://)?",
            ));
        }
        parser.filled(length);
    }
}

/// With TLS 1.3 the server's opinion of our certificate comes only now.
fn broken(error: &io::Error) -> StoreError {
    match error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>()) {
        Some(cause) => super::dial::without_tls(cause),
        None => StoreError::unavailable(format!("the connection broke during the handshake: {error}")),
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
