//! TLS as an address asks for it.

mod insecure;

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::UrlError;
use insecure::Anybody;

/// The longest file that is read. All authorities of the world take a quarter of it.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The authorities that the system trusts. Reading them takes milliseconds, so it is done once.
static SYSTEM: LazyLock<Result<Arc<RootCertStore>, String>> = LazyLock::new(|| {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if !roots.is_empty() {
        return Ok(Arc::new(roots));
    }
    Err(found.errors.first().map_or_else(|| "none were found".to_owned(), ToString::to_string))
});

/// TLS, with everything that is needed to speak it.
#[derive(Clone)]
pub struct Tls {
    pub(super) files: Files,
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
    /// Reads the files.
    pub(super) fn new(files: Files, is_insecure: bool) -> Result<Self, UrlError> {
        // Not the provider of the process: another library may have chosen one, or none.
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let builder =
            builder.with_safe_default_protocol_versions().map_err(|error| UrlError::NoAuthorities { why: error.to_string() })?;
        let builder = match (&files.ca, is_insecure) {
            (Some(_), true) => return Err(UrlError::InsecureAuthorities),
            (Some(ca), false) => builder.with_root_certificates(authorities(ca)?),
            (None, true) => builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody::new(&provider))),
            (None, false) => builder.with_root_certificates(SYSTEM.clone().map_err(|why| UrlError::NoAuthorities { why })?),
        };
        let config = match (&files.certificate, &files.key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(certificate), Some(key)) => {
                let wrong = |error| wrong("tls_key", key, format!("does not belong to the certificate of tls_cert ({error})"));
                builder.with_client_auth_cert(certificates("tls_cert", certificate)?, private_key(key)?).map_err(wrong)?
            }
            (Some(_), None) => return Err(UrlError::HalfCertificate { present: "tls_cert", missing: "tls_key" }),
            (None, Some(_)) => return Err(UrlError::HalfCertificate { present: "tls_key", missing: "tls_cert" }),
        };
        Ok(Self { files, is_insecure, config: Arc::new(config) })
    }

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

fn authorities(path: &Path) -> Result<RootCertStore, UrlError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("tls_ca", path)? {
        roots.add(certificate).map_err(|error| wrong("tls_ca", path, format!("has a certificate that is none ({error})")))?;
    }
    Ok(roots)
}

fn certificates(name: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, UrlError> {
    let bytes = read(name, path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let certificates = certificates.map_err(|error| wrong(name, path, format!("is no PEM file ({error})")))?;
    if certificates.is_empty() {
        return Err(wrong(name, path, "has no certificate in it; a PEM file has a line -----BEGIN CERTIFICATE-----"));
    }
    Ok(certificates)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, UrlError> {
    let bytes = read("tls_key", path)?;
    let hint = "has no private key in it; a PEM file has a line -----BEGIN PRIVATE KEY-----, and must not be encrypted";
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| wrong("tls_key", path, hint))
}

fn read(name: &'static str, path: &Path) -> Result<Vec<u8>, UrlError> {
    let failed = |error: std::io::Error| wrong(name, path, format!("cannot be read ({error})"));
    // A pipe would block, and a device never ends.
    if !path.metadata().map_err(failed)?.is_file() {
        return Err(wrong(name, path, "is no file; name a PEM file"));
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(failed)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(wrong(name, path, "is larger than 1 MiB; name a PEM file with certificates only"));
    }
    Ok(bytes)
}

fn wrong(name: &'static str, path: &Path, why: impl Into<String>) -> UrlError {
    UrlError::File { name, path: path.to_owned(), why: why.into() }
}
