//! What clients of the controller's API, and of switches, need: whom they trust, who they are, a token.

use crate::switch::tls::{self, TlsError};
use pointsman_wire::time::rfc3339;
use rustls::pki_types::UnixTime;
use rustls::{ClientConfig, RootCertStore};
use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

/// PEM files of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// The CA of `https://` servers.
    pub ca: Option<PathBuf>,
    /// The client's own certificate, and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// What is wrong with a client's files.
#[derive(Debug)]
pub enum CredentialsError {
    /// `https://` without a CA.
    NoCa,
    /// A file is not what it should be.
    File(TlsError),
    /// A certificate cannot be trusted.
    Authority(PathBuf, rustls::Error),
    /// Certificate and key are of no use.
    Identity(PathBuf, PathBuf, rustls::Error),
    /// The files are of no use for gRPC.
    Grpc(tonic::transport::Error),
    /// The library supports no version of TLS.
    Library(rustls::Error),
    /// The file of the token cannot be read.
    Unreadable(PathBuf, io::Error),
    /// It has no token.
    NoToken(PathBuf),
}

impl fmt::Display for CredentialsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use CredentialsError as E;
        match self {
            E::NoCa => f.write_str(
                "https:// needs the API's CA: pass --ca FILE; commands also take POINTSMAN_API_CA",
            ),
            E::File(e) => e.fmt(f),
            E::Authority(path, e) => write!(f, "{}: {e}", path.display()),
            E::Identity(cert, key, e) => write!(f, "{} and {}: {e}", cert.display(), key.display()),
            E::Grpc(e) => write!(f, "TLS: {}", innermost(e)),
            E::Library(e) => write!(f, "TLS: {e}"),
            E::Unreadable(path, e) => {
                write!(f, "cannot read {}: {e}; it holds the API token", path.display())
            }
            E::NoToken(path) => {
                write!(f, "{} contains no token: expected TOKEN or NAME TOKEN", path.display())
            }
        }
    }
}

impl Error for CredentialsError {}

impl From<TlsError> for CredentialsError {
    fn from(e: TlsError) -> Self {
        CredentialsError::File(e)
    }
}

/// The innermost cause of an error: gRPC's outer ones are only "transport error".
pub(crate) fn innermost(error: &dyn Error) -> String {
    let mut inner = error;
    while let Some(next) = inner.source() {
        inner = next;
    }
    inner.to_string()
}

/// The error of TLS in an error, if there is one.
fn of_tls<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut at = Some(error);
    while let Some(error) = at {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // Its source would be that of the inner one.
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        at = inner.map_or_else(|| error.source(), |inner| Some(inner));
    }
    None
}

fn moment(at: UnixTime) -> String {
    rfc3339(at.as_secs() * 1000)
}

/// Why a client does not trust a server, or the other way round, and what to do.
pub(crate) fn untrusted(error: &(dyn Error + 'static)) -> Option<String> {
    use rustls::{AlertDescription as Alert, CertificateError as E};
    Some(match of_tls(error)? {
        rustls::Error::InvalidCertificate(e) => match e {
            E::ExpiredContext { time, not_after } => format!(
                "the server's certificate expired at {}, and this machine's clock says {}: renew it on the server, or set the clock",
                moment(*not_after),
                moment(*time)
            ),
            E::NotValidYetContext { time, not_before } => format!(
                "the server's certificate is not valid before {}, and this machine's clock says {}: set the clock",
                moment(*not_before),
                moment(*time)
            ),
            E::UnknownIssuer => "the server's certificate is not signed by the CA that is trusted: check the file of the CA".into(),
            e => format!("the server's certificate is not accepted: {e}; check the CA and the host name"),
        },
        rustls::Error::AlertReceived(Alert::CertificateExpired) => {
            "the server says that this client's certificate has expired: renew it, or check the server's clock".into()
        }
        rustls::Error::AlertReceived(Alert::CertificateRequired) => {
            "the server demands a certificate of this client, and got none: give one with its key".into()
        }
        rustls::Error::AlertReceived(Alert::UnknownCA) => {
            "the server does not trust the CA of this client's certificate".into()
        }
        _ => return None,
    })
}

impl Files {
    /// The client's side of TLS for gRPC; `None` without a CA.
    ///
    /// # Errors
    /// A file is missing or wrong.
    pub fn grpc(&self) -> Result<Option<ClientTlsConfig>, CredentialsError> {
        let Some(ca) = &self.ca else { return Ok(None) };
        tls::certificates(ca, "switch's CA")?;
        let read = |path: &Path, what| {
            std::fs::read(path).map_err(|e| TlsError::Unreadable(path.to_path_buf(), what, e))
        };
        let mut config =
            ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(ca, "switch's CA")?));
        if let Some((cert, key)) = &self.identity {
            tls::certificates(cert, "client certificate")?;
            tls::key(key, "client key")?;
            let (cert, key) = (read(cert, "client certificate")?, read(key, "client key")?);
            config = config.identity(Identity::from_pem(cert, key));
        }
        // Any address will do.
        let checked = Endpoint::from_static("https://switch").tls_config(config.clone());
        checked.map_err(CredentialsError::Grpc)?;
        Ok(Some(config))
    }

    /// The client's side of TLS, if one of the URLs has it.
    ///
    /// # Errors
    /// A file is missing or wrong.
    pub fn tls(&self, urls: &[String]) -> Result<Option<Arc<ClientConfig>>, CredentialsError> {
        use CredentialsError as E;
        if !urls.iter().any(|url| url.starts_with("https://")) {
            return Ok(None);
        }
        let ca = self.ca.as_ref().ok_or(E::NoCa)?;
        let mut roots = RootCertStore::empty();
        for certificate in tls::certificates(ca, "API's CA")? {
            roots.add(certificate).map_err(|e| E::Authority(ca.clone(), e))?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(E::Library)?
            .with_root_certificates(roots);
        let config = match &self.identity {
            Some((cert, key)) => builder
                .with_client_auth_cert(
                    tls::certificates(cert, "client certificate")?,
                    tls::key(key, "client key")?,
                )
                .map_err(|e| E::Identity(cert.clone(), key.clone(), e))?,
            None => builder.with_no_client_auth(),
        };
        Ok(Some(Arc::new(config)))
    }
}

/// The token in a file: TOKEN, or the first line NAME TOKEN of a controller's token file.
///
/// # Errors
/// The file cannot be read, or has none.
pub fn token(file: &Path) -> Result<String, CredentialsError> {
    let text =
        std::fs::read_to_string(file).map_err(|e| CredentialsError::Unreadable(file.to_path_buf(), e))?;
    let line = text.lines().map(|l| l.split('#').next().unwrap_or("").trim()).find(|l| !l.is_empty());
    let mut words = line.unwrap_or_default().split_whitespace();
    let first = words.next().ok_or_else(|| CredentialsError::NoToken(file.to_path_buf()))?;
    Ok(words.next().unwrap_or(first).to_string())
}
