//! TLS and mutual TLS for P4Runtime: the files, and the handshake before gRPC. The controller's API reads its
//! files the same way.

use super::certificate::validity;
use super::log::Level;
use super::runtime::Handle;
use pointsman_balance::api::rfc3339;
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use std::fmt::Display;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Timeout of the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Clients that may shake hands at a time; more wait.
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

fn read(path: &Path, what: &str) -> Result<Vec<u8>, String> {
    std::fs::read(path)
        .map_err(|e| format!("cannot read {} for the {what}: {e}; give a PEM file", path.display()))
}

/// Certificates of a PEM file; `what` describes them in messages.
///
/// # Errors
/// The error contains the file and a remedy.
pub fn certificates(path: &Path, what: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = read(path, what)?;
    let bad =
        |e: &dyn Display| format!("{} is not a PEM certificate file for the {what}: {e}", path.display());
    let all: Vec<_> =
        CertificateDer::pem_slice_iter(&bytes).collect::<Result<_, pem::Error>>().map_err(|e| bad(&e))?;
    if all.is_empty() {
        return Err(bad(&"no -----BEGIN CERTIFICATE-----"));
    }
    Ok(all)
}

/// The private key of a PEM file; `what` describes it in messages.
///
/// # Errors
/// The error contains the file and a remedy.
pub fn key(path: &Path, what: &str) -> Result<PrivateKeyDer<'static>, String> {
    let bytes = read(path, what)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|e| {
        let name = path.display();
        let text = String::from_utf8_lossy(&bytes);
        if text.contains("ENCRYPTED") {
            return format!("{name} is protected by a passphrase: remove it (openssl pkey -in {name})");
        }
        match e {
            pem::Error::NoItemsFound => {
                format!("{name} is not a PEM key file: no -----BEGIN PRIVATE KEY-----")
            }
            e => format!("{name} is not a PEM key file: {e}"),
        }
    })
}

/// Checks that the certificate is valid now.
fn check_validity(path: &Path, certificate: &CertificateDer, now: SystemTime) -> Result<(), String> {
    let name = path.display();
    let [begins, ends] = validity(certificate).ok_or_else(|| {
        format!("the first certificate in {name} cannot be read: it is not an X.509 certificate")
    })?;
    let now = rfc3339(now.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64);
    // Text of this form is in the order of time.
    if now > ends {
        return Err(format!(
            "the certificate in {name} expired at {ends}: no client would accept it; renew it"
        ));
    }
    if now < begins {
        return Err(format!(
            "the certificate in {name} is not valid before {begins}: wait, or check this machine's clock"
        ));
    }
    Ok(())
}

/// Reads the files and checks that they match. `protocol` is the inner protocol's ALPN name: `h2` for gRPC.
///
/// # Errors
/// The error contains the file and a remedy.
pub fn load(files: &Files, protocol: &str, now: SystemTime) -> Result<Arc<ServerConfig>, String> {
    let provider: Arc<CryptoProvider> = Arc::new(rustls::crypto::ring::default_provider());
    let chain = certificates(&files.cert, "server certificate")?;
    let key = key(&files.key, "server key")?;
    if let Some(first) = chain.first() {
        check_validity(&files.cert, first, now)?;
    }
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| format!("TLS: {e}"))?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path, "client CA")? {
                roots.add(certificate).map_err(|e| {
                    format!("a certificate in {} cannot be used as client CA: {e}", path.display())
                })?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|e| format!("{}: {e}", path.display()))?)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|e| match e {
        rustls::Error::InconsistentKeys(_) => format!(
            "the key in {} does not match the certificate in {}: give a matching pair",
            files.key.display(),
            files.cert.display()
        ),
        e => format!("cannot serve TLS with {} and {}: {e}", files.cert.display(), files.key.display()),
    })?;
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    Ok(Arc::new(config))
}

/// Logs refused clients, repeated errors of one kind only once: a client that retries for ever must not fill the log.
struct Refusals {
    handle: Handle,
    last: Mutex<Option<(IpAddr, String)>>,
}

impl Refusals {
    fn tell(&self, from: IpAddr, why: String) {
        let Ok(mut last) = self.last.lock() else { return };
        let this = Some((from, why));
        if *last == this {
            return;
        }
        if let Some((from, why)) = &this {
            let line = format!("a client at {from} was refused: {why}");
            // A stopped switch logs nothing.
            let _ = self.handle.post(move |core| core.tell(Level::Warn, line));
        }
        *last = this;
    }
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
    config: Arc<ServerConfig>,
    handle: Handle,
) -> mpsc::Receiver<Result<TlsStream<TcpStream>, std::io::Error>> {
    let (tx, rx) = mpsc::channel(1);
    let acceptor = TlsAcceptor::from(config);
    let refusals = Arc::new(Refusals { handle, last: Mutex::new(None) });
    let slots = Arc::new(Semaphore::new(HANDSHAKES));
    tokio::spawn(async move {
        while !tx.is_closed() {
            // Never closed, so this cannot fail.
            let Ok(slot) = slots.clone().acquire_owned().await else { return };
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
            let (tx, acceptor, refusals) = (tx.clone(), acceptor.clone(), refusals.clone());
            tokio::spawn(async move {
                let _slot = slot;
                match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => {
                        // If the server has stopped, the connection is dropped.
                        let _ = tx.send(Ok(stream)).await;
                    }
                    Ok(Err(e)) => refusals.tell(from.ip(), explain(&e)),
                    Err(_) => refusals.tell(from.ip(), "it did not complete the TLS handshake".to_string()),
                }
            });
        }
    });
    rx
}
