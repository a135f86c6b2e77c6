//! TLS with servers: whom to trust, and what is spoken inside.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{WebPkiServerVerifier, verify_server_name};
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{self, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

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
    let (roots, named) = match &group.tls_ca {
        Some(path) => {
            let named = certificates(path).map_err(|why| wrong(path, why))?;
            (authorities(named.clone()).map_err(|why| wrong(path, why))?, named)
        }
        None => (of_the_system()?, Vec::new()),
    };
    // Not the provider of the process: another library may have chosen one, or none.
    let provider = Arc::new(aws_lc_rs::default_provider());
    let signed = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build();
    let verifier = Named { certificates: named, signed: signed.map_err(|error| error.to_string())? };
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
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

/// Trusts servers whose certificate is signed by an authority, and those whose certificate is one of the file itself.
///
/// The latter is how people use a certificate that is signed by nobody else. It says of itself that it is an authority, and an authority is no server to
/// the rules of the web. Whoever names one certificate means it, so only its name is compared; it counts as long as it is in the file, as authorities do.
#[derive(Debug)]
struct Named {
    certificates: Vec<CertificateDer<'static>>,
    signed: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for Named {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.certificates.iter().any(|certificate| certificate == shown) {
            verify_server_name(&ParsedCertificate::try_from(shown)?, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        self.signed.verify_server_cert(shown, chain, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signed.verify_tls12_signature(message, shown, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signed.verify_tls13_signature(message, shown, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
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
