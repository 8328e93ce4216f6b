//! TLS configuration of the S3 client, and verification of the store's certificate.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use storlab_base::{Error, Result};

use crate::spec::StoreSpec;

/// Kind of TLS failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFault {
    /// The server's certificate is not signed by a trusted authority.
    Untrusted,
    /// The server's certificate is valid for another host name only.
    WrongName,
    /// The server's certificate has expired, according to this machine's clock.
    Expired,
    /// The server does not speak TLS on this port.
    NotTls,
    /// Any other failure, such as incompatible TLS versions or ciphers.
    Other,
}

/// Build the TLS configuration of a client, for TLS 1.2 and 1.3.
pub(super) fn config(spec: &StoreSpec) -> Result<Arc<ClientConfig>> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| {
            Error::spec("verify_tls", e.to_string(), "report this as a defect of storlab")
        })?
        .dangerous();
    let trust = match &spec.ca_file {
        _ if !spec.verify_tls => Trust::Anyone,
        Some(path) => Trust::of_file(path, &provider)?,
        None => Trust::of_system(&provider)?,
    };
    let verifier = Arc::new(Verifier { provider, trust });
    let mut config = builder.with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Return the kind of a TLS failure, and a message that names the fix.
pub(super) fn explain(error: &rustls::Error) -> (TlsFault, String) {
    const NOT_TRUSTED: &str = "the server's certificate is not signed by an authority that this \
                               machine trusts; set s3_options.ca_file to that authority's \
                               certificate";
    let (fault, fix) = match error {
        // BadSignature means that the authority has a trusted name, but another key.
        rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => (TlsFault::Untrusted, NOT_TRUSTED),
        // The server's certificate is self-signed. rustls has no variant of its own for that.
        rustls::Error::InvalidCertificate(CertificateError::Other(other))
            if other.0.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity) =>
        {
            (TlsFault::Untrusted, NOT_TRUSTED)
        }
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => (
            TlsFault::WrongName,
            "the server's certificate is for another name; use that name in the endpoint",
        ),
        rustls::Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => (TlsFault::Expired, "the server's certificate has expired"),
        rustls::Error::InvalidCertificate(_) => return (TlsFault::Untrusted, error.to_string()),
        rustls::Error::InvalidMessage(_) => (
            TlsFault::NotTls,
            "the server does not speak TLS on this port; use http:// or another port",
        ),
        _ => return (TlsFault::Other, error.to_string()),
    };
    (fault, format!("{fix} ({error})"))
}

/// Rule for accepting certificates of servers.
#[derive(Debug)]
enum Trust {
    /// Accept any certificate (`verify_tls = false`). The connection is encrypted, but the server
    /// is not verified.
    Anyone,
    /// Accept certificates signed by a trusted authority. A certificate that is itself listed in
    /// `certificates` is accepted too, because `openssl req -x509` makes such certificates for
    /// servers.
    Known { certificates: Vec<CertificateDer<'static>>, chain: Arc<WebPkiServerVerifier> },
}

impl Trust {
    /// Trust the certificate authorities that this machine trusts.
    fn of_system(provider: &Arc<CryptoProvider>) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Self::known(Vec::new(), roots, provider).map_err(|_| {
            let what = "this machine has no trusted certificate authorities";
            Error::spec("ca_file", what, "install the package ca-certificates, or set a PEM file")
        })
    }

    /// Trust the certificates in a PEM file.
    fn of_file(path: &str, provider: &Arc<CryptoProvider>) -> Result<Self> {
        let pem = std::fs::read(Path::new(path)).map_err(|e| Error::io("open", path, 0, e))?;
        let certificates = CertificateDer::pem_slice_iter(&pem)
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(|e| unreadable(path, &e.to_string()))?;
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            roots.add(certificate.clone()).map_err(|e| unreadable(path, &e.to_string()))?;
        }
        Self::known(certificates, roots, provider)
            .map_err(|_| unreadable(path, "the file contains no certificate"))
    }

    fn known(
        certificates: Vec<CertificateDer<'static>>,
        roots: RootCertStore,
        provider: &Arc<CryptoProvider>,
    ) -> std::result::Result<Self, VerifierBuilderError> {
        let roots = Arc::new(roots);
        let chain = WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build()?;
        Ok(Trust::Known { certificates, chain })
    }
}

fn unreadable(path: &str, what: &str) -> Error {
    Error::spec("ca_file", format!("{path}: {what}"), "use a PEM file with certificates")
}

#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    trust: Trust,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let Trust::Known { certificates, chain } = &self.trust else {
            return Ok(ServerCertVerified::assertion());
        };
        if certificates.contains(end_entity) {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
            return Ok(ServerCertVerified::assertion());
        }
        chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
