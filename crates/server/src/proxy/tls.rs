//! TLS with servers: whom to trust, and what is spoken inside.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::settings::{GroupSettings, UpstreamProtocol};
use crate::server::{authorities, certificates, private_key};

/// TLS with the servers of a group. What it needs is read once, when the group is made.
#[derive(Default)]
pub(super) struct Tls(OnceLock<Result<TlsConnector, String>>);

impl Tls {
    /// How a connection is secured, or what is wrong with the files.
    pub(super) fn connector(&self, group: &GroupSettings) -> Result<&TlsConnector, &str> {
        self.0.get_or_init(|| connector(group)).as_ref().map_err(String::as_str)
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

fn connector(group: &GroupSettings) -> Result<TlsConnector, String> {
    let wrong = |path: &Path, why: String| format!("{} {why}", path.display());
    let roots = match &group.tls_ca {
        Some(path) => authorities(path).map_err(|why| wrong(path, why))?,
        None => of_the_system()?,
    };
    // Not the provider of the process: another library may have chosen one, or none.
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let builder = builder.with_root_certificates(roots);
    let mut config = match (&group.tls_cert, &group.tls_key) {
        (Some(cert), Some(key)) => {
            let chain = certificates(cert).map_err(|why| wrong(cert, why))?;
            let stranger = |error| wrong(key, format!("does not belong to the certificate of {} ({error})", cert.display()));
            builder.with_client_auth_cert(chain, private_key(key).map_err(|why| wrong(key, why))?).map_err(stranger)?
        }
        _ => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![match group.protocol {
        UpstreamProtocol::Http1 => b"http/1.1".to_vec(),
        UpstreamProtocol::Http2 => b"h2".to_vec(),
    }];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The authorities that the system trusts.
fn of_the_system() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err("the system trusts nobody; name a file of authorities".to_owned());
    }
    Ok(roots)
}
