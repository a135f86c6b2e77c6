//! Certificates, read again when they change.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::error::StartError;
use crate::metrics::Port;
use crate::settings::Tls;

/// The longest file that is read. All authorities of the world take a quarter of it.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The certificates of a port.
#[derive(Debug)]
pub(super) struct Certificates {
    port: Port,
    files: Tls,
    current: ArcSwap<ServerConfig>,
    /// How the files looked when they were last read, whatever came of it.
    seen: Mutex<Vec<Option<Look>>>,
}

/// What changes when a file is written or replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Look {
    modified: Option<SystemTime>,
    bytes: u64,
    #[cfg(unix)]
    identity: (u64, u64, i64, i64),
}

impl Certificates {
    /// Reads them.
    pub(super) fn load(port: Port, files: &Tls) -> Result<Self, StartError> {
        let seen = Mutex::new(look(files));
        let config = read(port, files).map_err(StartError::Tls)?;
        Ok(Self { port, files: files.clone(), current: ArcSwap::new(config), seen })
    }

    /// Which port they are for.
    pub(super) fn port(&self) -> Port {
        self.port
    }

    /// The ones in force.
    pub(super) fn current(&self) -> Arc<ServerConfig> {
        self.current.load_full()
    }

    /// Reads them again; those in force stay if something is wrong with the new ones.
    pub(super) fn reload(&self) -> Result<(), String> {
        // Held until the end, so that of two who reload the later one wins. Looked at first: a change while the files are read is seen next time.
        let mut seen = self.seen.lock();
        *seen = look(&self.files);
        read(self.port, &self.files).map(|config| self.current.store(config))
    }

    /// The same if a file changed.
    pub(super) fn reload_if_changed(&self) -> Option<Result<(), String>> {
        if *self.seen.lock() == look(&self.files) {
            return None;
        }
        Some(self.reload())
    }
}

/// How the files look now.
fn look(files: &Tls) -> Vec<Option<Look>> {
    let paths = [Some(&files.cert), Some(&files.key), files.client_ca.as_ref()];
    paths.into_iter().flatten().map(|path| Look::at(path).ok()).collect()
}

impl Look {
    fn at(path: &Path) -> io::Result<Self> {
        #[cfg(unix)]
        use std::os::unix::fs::MetadataExt;
        let found = path.metadata()?;
        Ok(Self {
            modified: found.modified().ok(),
            bytes: found.len(),
            #[cfg(unix)]
            identity: (found.dev(), found.ino(), found.ctime(), found.ctime_nsec()),
        })
    }
}

fn read(port: Port, files: &Tls) -> Result<Arc<ServerConfig>, String> {
    let wrong = |key: &str, path: &PathBuf, why: String| format!("{}.tls.{key}: {} {why}", port.as_str(), path.display());
    let wrong_cert = |why| wrong("cert", &files.cert, why);
    let wrong_key = |why| wrong("key", &files.key, why);
    let chain = certificates(&files.cert).map_err(wrong_cert)?;
    let key = private_key(&files.key).map_err(wrong_key)?;
    // Not the provider of the process: another library may have chosen one, or none.
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| wrong_cert(error.to_string()))?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let wrong_ca = |why| wrong("client_ca", path, why);
            let roots = Arc::new(certificates(path).and_then(authorities).map_err(wrong_ca)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| wrong_ca(format!("cannot be used ({error})")))?)
        }
    };
    let stranger = |error| wrong_key(format!("does not belong to the certificate of {} ({error})", files.cert.display()));
    let mut config = builder.with_single_cert(chain, key).map_err(stranger)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

pub(crate) fn authorities(certificates: Vec<CertificateDer<'static>>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate).map_err(|error| format!("has a certificate that is none ({error})"))?;
    }
    Ok(roots)
}

pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = read_file(path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let certificates = certificates.map_err(|error| format!("is no PEM file ({error})"))?;
    if certificates.is_empty() {
        return Err("has no certificate in it; a PEM file has a line -----BEGIN CERTIFICATE-----".to_owned());
    }
    Ok(certificates)
}

pub(crate) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    const HINT: &str = "has no private key in it; a PEM file has a line -----BEGIN PRIVATE KEY-----, and must not be encrypted";
    PrivateKeyDer::from_pem_slice(&read_file(path)?).map_err(|_| HINT.to_owned())
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error: io::Error| format!("cannot be read ({error})");
    // A pipe would block, and a device never ends.
    if !path.metadata().map_err(failed)?.is_file() {
        return Err("is no file; name a PEM file".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(failed)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err("is larger than 1 MiB; name a PEM file with certificates only".to_owned());
    }
    Ok(bytes)
}
