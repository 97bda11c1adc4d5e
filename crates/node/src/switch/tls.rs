//! TLS and mutual TLS for P4Runtime: the files, and the handshake before gRPC. The controller's API reads its
//! files the same way.

use super::certificate::{unix_s, validity};
use super::renew::Secure;
use super::runtime::Handle;
use crate::places::Places;
use pointsman_wire::time::rfc3339;
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fmt, io};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a client may take for the TLS handshake, and how long for the preface of HTTP/2 after that.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(10);

/// Clients that may shake hands at a time.
const HANDSHAKES: usize = 64;

/// Pause after the system refused to hand over a connection, such as for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The server's certificate, followed by those between it and its authority.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Authorities of clients: if given, each client needs a certificate of one of them.
    pub client_ca: Option<PathBuf>,
}

/// What is wrong with the files. Where two kinds of files have the same contents, with what the file is for.
#[derive(Debug)]
pub enum TlsError {
    /// A file cannot be read.
    Unreadable(PathBuf, &'static str, io::Error),
    /// It is not a file of certificates.
    Certificates(PathBuf, &'static str, pem::Error),
    /// It has none.
    NoCertificate(PathBuf, &'static str),
    /// The key has a passphrase.
    Protected(PathBuf),
    /// It is not a file with a key.
    Key(PathBuf, pem::Error),
    /// The certificate is not one of X.509.
    NotX509(PathBuf),
    /// The certificate was valid until then.
    Expired(PathBuf, String),
    /// It is not valid before.
    Early(PathBuf, String),
    /// A certificate does not go as an authority of clients.
    Authority(PathBuf, rustls::Error),
    /// Nor do all of them together.
    Authorities(PathBuf, VerifierBuilderError),
    /// Certificate and key are not a pair.
    NoPair(Box<Files>),
    /// They are no good otherwise.
    Pair(Box<Files>, rustls::Error),
    /// The library supports no version of TLS.
    Library(rustls::Error),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use TlsError as E;
        match self {
            E::Unreadable(path, what, e) => {
                write!(f, "cannot read {} for the {what}: {e}; give a PEM file", path.display())
            }
            E::Certificates(path, what, e) => {
                write!(f, "{} is not a PEM certificate file for the {what}: {e}", path.display())
            }
            E::NoCertificate(path, what) => {
                let path = path.display();
                write!(
                    f,
                    "{path} is not a PEM certificate file for the {what}: no -----BEGIN CERTIFICATE-----"
                )
            }
            E::Protected(path) => {
                let name = path.display();
                write!(f, "{name} is protected by a passphrase: remove it (openssl pkey -in {name})")
            }
            E::Key(path, pem::Error::NoItemsFound) => {
                write!(f, "{} is not a PEM key file: no -----BEGIN PRIVATE KEY-----", path.display())
            }
            E::Key(path, e) => write!(f, "{} is not a PEM key file: {e}", path.display()),
            E::NotX509(path) => {
                let name = path.display();
                write!(f, "the first certificate in {name} cannot be read: it is not an X.509 certificate")
            }
            E::Expired(path, ends) => {
                let name = path.display();
                write!(f, "the certificate in {name} expired at {ends}: no client accepts it; renew it")
            }
            E::Early(path, begins) => {
                let name = path.display();
                write!(
                    f,
                    "the certificate in {name} is not valid before {begins}: wait, or check this machine's clock"
                )
            }
            E::Authority(path, e) => {
                write!(f, "a certificate in {} cannot be used as client CA: {e}", path.display())
            }
            E::Authorities(path, e) => write!(f, "{}: {e}", path.display()),
            E::NoPair(files) => {
                let (key, cert) = (files.key.display(), files.cert.display());
                write!(f, "the key in {key} does not match the certificate in {cert}: give a matching pair")
            }
            E::Pair(files, e) => {
                let (cert, key) = (files.cert.display(), files.key.display());
                write!(f, "cannot serve TLS with {cert} and {key}: {e}")
            }
            E::Library(e) => write!(f, "TLS: {e}"),
        }
    }
}

impl Error for TlsError {}

fn read(path: &Path, what: &'static str) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|e| TlsError::Unreadable(path.to_path_buf(), what, e))
}

/// Certificates of a PEM file; `what` describes them in messages.
///
/// # Errors
/// The file cannot be read, or has none.
pub fn certificates(path: &Path, what: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read(path, what)?;
    let all = CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, pem::Error>>();
    let all = all.map_err(|e| TlsError::Certificates(path.to_path_buf(), what, e))?;
    if all.is_empty() {
        return Err(TlsError::NoCertificate(path.to_path_buf(), what));
    }
    Ok(all)
}

/// The private key of a PEM file; `what` describes it in messages.
///
/// # Errors
/// The file cannot be read, or has none.
pub fn key(path: &Path, what: &'static str) -> Result<PrivateKeyDer<'static>, TlsError> {
    let bytes = read(path, what)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|e| {
        match String::from_utf8_lossy(&bytes).contains("ENCRYPTED") {
            true => TlsError::Protected(path.to_path_buf()),
            false => TlsError::Key(path.to_path_buf(), e),
        }
    })
}

/// The first and the last moment of a certificate, as text in the order of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validity([String; 2]);

impl Validity {
    fn of(path: &Path, certificate: &CertificateDer) -> Result<Validity, TlsError> {
        validity(certificate).map(Validity).ok_or_else(|| TlsError::NotX509(path.to_path_buf()))
    }

    /// Of the first certificate in a PEM file; `what` describes it in messages.
    ///
    /// # Errors
    /// The file cannot be read, or has none.
    pub fn read(path: &Path, what: &'static str) -> Result<Validity, TlsError> {
        let all = certificates(path, what)?;
        let first = all.first().ok_or_else(|| TlsError::NoCertificate(path.to_path_buf(), what))?;
        Validity::of(path, first)
    }

    /// The last moment.
    pub fn ends(&self) -> &str {
        &self.0[1]
    }

    /// The same, in seconds since 1970.
    pub fn ends_s(&self) -> i64 {
        unix_s(self.ends())
    }

    /// Checks that the certificate in this file is valid at this time.
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self, path: &Path, now: SystemTime) -> Result<(), TlsError> {
        let [begins, ends] = &self.0;
        let now = rfc3339(now.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64);
        if now > *ends {
            return Err(TlsError::Expired(path.to_path_buf(), ends.clone()));
        }
        if now < *begins {
            return Err(TlsError::Early(path.to_path_buf(), begins.clone()));
        }
        Ok(())
    }
}

/// Reads the files and checks that they match. `protocol` is the inner protocol's ALPN name: `h2` for gRPC.
///
/// # Errors
/// A file is wrong, or they do not go together.
pub fn load(files: &Files, protocol: &str) -> Result<(Arc<ServerConfig>, Validity), TlsError> {
    let provider: Arc<CryptoProvider> = Arc::new(rustls::crypto::ring::default_provider());
    let chain = certificates(&files.cert, "server certificate")?;
    let key = key(&files.key, "server key")?;
    let first = chain.first().ok_or(TlsError::NoCertificate(files.cert.clone(), "server certificate"))?;
    let validity = Validity::of(&files.cert, first)?;
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Library)?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path, "client CA")? {
                roots.add(certificate).map_err(|e| TlsError::Authority(path.clone(), e))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|e| TlsError::Authorities(path.clone(), e))?)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|e| match e {
        rustls::Error::InconsistentKeys(_) => TlsError::NoPair(files.clone().into()),
        e => TlsError::Pair(files.clone().into(), e),
    })?;
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    Ok((Arc::new(config), validity))
}

fn explain(error: &std::io::Error) -> String {
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::NoCertificatesPresented) => {
            "it sent no certificate, but --grpc-tls-ca requires one".to_string()
        }
        Some(rustls::Error::InvalidMessage(_)) => "it does not speak TLS".to_string(),
        Some(rustls::Error::InvalidCertificate(e)) => {
            use rustls::CertificateError as E;
            let why = match e {
                E::Expired | E::ExpiredContext { .. } => "it has expired".to_string(),
                E::NotValidYet | E::NotValidYetContext { .. } => "it is not valid yet".to_string(),
                E::UnknownIssuer => "its issuer is not in --grpc-tls-ca".to_string(),
                e => e.to_string(),
            };
            format!("its certificate is not accepted: {why}")
        }
        Some(rustls::Error::AlertReceived(alert)) => {
            format!("it does not accept this switch's certificate ({alert:?})")
        }
        _ => format!("no TLS: {error}"),
    }
}

/// Accepts connections and performs the handshake of each in its own task; yields TLS streams.
pub fn accept(
    listener: TcpListener,
    secure: Secure,
    handle: Handle,
) -> mpsc::Receiver<Result<TlsStream<TcpStream>, std::io::Error>> {
    let (tx, rx) = mpsc::channel(1);
    let places = Places::new(HANDSHAKES);
    tokio::spawn(async move {
        while !tx.is_closed() {
            let taken = tokio::select! {
                taken = listener.accept() => taken,
                // The server has ended.
                () = tx.closed() => return,
            };
            let Ok((stream, from)) = taken else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            // Only costs time.
            let _ = stream.set_nodelay(true);
            let place = Arc::new(places.take(from.ip()).await);
            let (tx, acceptor, handle) = (tx.clone(), TlsAcceptor::from(secure.now()), handle.clone());
            let own = place.clone();
            let task = tokio::spawn(async move {
                let why = match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => {
                        own.set_busy(true);
                        // If the server has stopped, the connection is dropped.
                        let _ = tx.send(Ok(stream)).await;
                        return;
                    }
                    Ok(Err(e)) => explain(&e),
                    Err(_) => "it did not complete the TLS handshake".to_string(),
                };
                let line = format!("a client at {} was refused: {why}", from.ip());
                // A stopped switch logs nothing.
                let _ = handle.post(move |core| core.refused(line));
            });
            place.belongs_to(task.abort_handle());
        }
    });
    rx
}
