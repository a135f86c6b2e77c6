//! TLS as an address asks for it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_rustls::rustls::ClientConfig;

/// TLS, with everything that is needed to speak it.
#[derive(Clone)]
pub struct Tls {
    files: Files,
    is_insecure: bool,
    config: Arc<ClientConfig>,
}

/// The files that an address names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Files {
    pub(super) ca: Option<PathBuf>,
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
}

impl Tls {
    /// What the TLS library needs.
    pub fn config(&self) -> &Arc<ClientConfig> {
        &self.config
    }

    /// Whether any certificate of the server will do.
    pub fn is_insecure(&self) -> bool {
        self.is_insecure
    }
}

/// By what was asked for: a file that was changed meanwhile is not looked at again.
impl PartialEq for Tls {
    fn eq(&self, other: &Self) -> bool {
        self.files == other.files && self.is_insecure == other.is_insecure
    }
}

impl Eq for Tls {}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).field("is_insecure", &self.is_insecure).finish_non_exhaustive()
    }
}
