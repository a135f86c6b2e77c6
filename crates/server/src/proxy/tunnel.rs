//! Connections that are no longer ones of HTTP: bytes go both ways until both sides have ended, or one has and the other takes too long.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::time::timeout;

use super::server::Chosen;
use super::slot::Slot;
use crate::access_log::Entry;

/// What is read at once.
const READ_BYTES: usize = 8 * 1_024;

/// Where the bytes of a client go once it was told `101 Switching Protocols`.
#[derive(Debug, Clone)]
pub struct Tunnel(Arc<Mutex<Option<End>>>);

/// The other end.
#[derive(Debug)]
struct End {
    server: OnUpgrade,
    /// Held as long as the bytes flow.
    _slot: Option<Slot>,
    _under_way: Option<Chosen>,
    /// How long a side may take nothing, and how long it is waited for when the other has ended.
    patience: Duration,
    passed: Passed,
}

/// What was passed on, told at the end, however that comes.
#[derive(Debug, Default)]
struct Passed {
    received: AtomicU64,
    sent: AtomicU64,
    entry: Option<Box<Entry>>,
}

impl Drop for Passed {
    fn drop(&mut self) {
        if let Some(mut entry) = self.entry.take() {
            entry.tunnelled(*self.received.get_mut(), *self.sent.get_mut());
        }
    }
}

impl Tunnel {
    pub(super) fn new(server: OnUpgrade, slot: Option<Slot>, under_way: Option<Chosen>, patience: Duration) -> Self {
        let end = End { server, _slot: slot, _under_way: under_way, patience, passed: Passed::default() };
        Self(Arc::new(Mutex::new(Some(end))))
    }

    /// Notes how it went in an entry of the access log.
    pub(crate) fn note_in(&self, entry: Box<Entry>) {
        if let Some(end) = &mut *self.0.lock() {
            end.passed.entry = Some(entry);
        }
    }

    /// Passes bytes on until both sides have ended. `first` are those that the client has sent already.
    pub(crate) async fn run(self, client: impl AsyncRead + AsyncWrite + Unpin, first: Bytes) {
        let Some(End { server, _slot, _under_way, patience, passed }) = self.0.lock().take() else { return };
        let Ok(server) = server.await else { return };
        let (from_client, to_client) = split(client);
        let (from_server, to_server) = split(TokioIo::new(server));
        let mut there = pin!(pass(io::Cursor::new(first).chain(from_client), to_server, patience, &passed.received));
        let mut back = pin!(pass(from_server, to_client, patience, &passed.sent));
        // Who goes on when the other has ended has that long to notice. If one side broke off there is nothing to go on with.
        tokio::select! {
            ended = &mut there => if ended.is_ok() { drop(timeout(patience, back).await) },
            ended = &mut back => if ended.is_ok() { drop(timeout(patience, there).await) },
        }
    }
}

/// Passes bytes on in one direction until it ends, and says so to the other side.
async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    patience: Duration,
    passed: &AtomicU64,
) -> io::Result<()> {
    // Not in the future, which every connection has room for.
    let mut bytes = vec![0; READ_BYTES];
    loop {
        let count = from.read(&mut bytes).await?;
        let writing = async {
            to.write_all(&bytes[..count]).await?;
            if count == 0 { to.shutdown().await } else { to.flush().await }
        };
        timeout(patience, writing).await??;
        if count == 0 {
            return Ok(());
        }
        passed.fetch_add(count as u64, Ordering::Relaxed);
    }
}
