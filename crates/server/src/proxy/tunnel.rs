//! Connections that are no longer ones of HTTP: bytes go both ways until one side ends.

use std::sync::Arc;

use bytes::Bytes;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy_bidirectional};

use super::server::Chosen;
use super::slot::Slot;
use crate::access_log::Entry;

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
    /// What is written about it at the end.
    entry: Option<Box<Entry>>,
}

impl Tunnel {
    pub(super) fn new(server: OnUpgrade, slot: Option<Slot>, under_way: Option<Chosen>) -> Self {
        Self(Arc::new(Mutex::new(Some(End { server, _slot: slot, _under_way: under_way, entry: None }))))
    }

    /// Notes how it went in an entry of the access log.
    pub(crate) fn note_in(&self, entry: Box<Entry>) {
        if let Some(end) = &mut *self.0.lock() {
            end.entry = Some(entry);
        }
    }

    /// Passes bytes on until both sides have ended. `first` are those that the client has sent already.
    pub(crate) async fn run(self, mut client: impl AsyncRead + AsyncWrite + Unpin, first: Bytes) {
        let Some(End { server, _slot, _under_way, entry }) = self.0.lock().take() else { return };
        let Ok(server) = server.await else { return };
        let mut server = TokioIo::new(server);
        if server.write_all(&first).await.is_ok() {
            // How it ends is for the two of them to know.
            let passed = copy_bidirectional(&mut client, &mut server).await;
            if let (Some(mut entry), Ok((received, sent))) = (entry, passed) {
                entry.tunnelled(first.len() as u64 + received, sent);
            }
        }
    }
}
