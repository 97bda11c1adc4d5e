//! The TLS of a server while it runs: its files are read again when they change, and it says in time that its certificate expires.

use super::tls::{self, Files, TlsError, Validity};
use crate::controller::reload::Watched;
use crate::metrics::certificates::{Certificates, Ends};
use rustls::ServerConfig;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long before its end a certificate is a matter for the log.
const SOON: Duration = Duration::from_secs(14 * 86_400);

/// The TLS of new connections.
#[derive(Clone, Debug)]
pub struct Secure(Arc<RwLock<Arc<ServerConfig>>>);

impl Secure {
    /// Of the next connection.
    pub fn now(&self) -> Arc<ServerConfig> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn renew(&self, config: Arc<ServerConfig>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = config;
    }
}

/// What was said about the time of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    Nothing,
    Soon,
    Invalid,
}

/// What is to be said about the certificate in a file, if it ends within some days.
///
/// # Errors
/// The file has no certificate, or one that is not valid at this time.
pub fn due(path: &Path, now: SystemTime) -> Result<Option<String>, TlsError> {
    remaining(path, &Validity::read(path, "server certificate")?, now)
}

fn remaining(path: &Path, validity: &Validity, now: SystemTime) -> Result<Option<String>, TlsError> {
    validity.check(path, now)?;
    let line = || format!("the certificate in {} expires at {}: renew it", path.display(), validity.ends());
    Ok(validity.check(path, now + SOON).is_err().then(line))
}

/// The files of a server's TLS, followed.
pub struct Renewal {
    files: Files,
    protocol: &'static str,
    secure: Secure,
    watched: Vec<Watched>,
    validity: Validity,
    /// Of the certificate in use, for metrics.
    ends: Ends,
    said: Said,
}

impl Renewal {
    /// Reads the files. A certificate that is not valid now is not an error: with its clock right, or new files, the server serves.
    ///
    /// # Errors
    /// As [`tls::load`].
    pub fn new(files: Files, protocol: &'static str) -> Result<Renewal, TlsError> {
        let paths = [Some(&files.cert), Some(&files.key), files.client_ca.as_ref()];
        let watched = paths.into_iter().flatten().map(|path| Watched::new(path.clone())).collect();
        let (config, validity) = tls::load(&files, protocol)?;
        let secure = Secure(Arc::new(RwLock::new(config)));
        let ends = Arc::new(validity.ends_s().into());
        Ok(Renewal { files, protocol, secure, watched, validity, ends, said: Said::Nothing })
    }

    /// Checks that the certificate is valid at this time.
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self, now: SystemTime) -> Result<(), TlsError> {
        self.validity.check(&self.files.cert, now)
    }

    /// The certificate in use, for metrics; `purpose`: what it is for.
    pub fn show(&self, purpose: &'static str, to: &mut Certificates) {
        to.follow(purpose, &self.files.cert, self.ends.clone());
    }

    /// The TLS of connections from now on.
    pub fn secure(&self) -> Secure {
        self.secure.clone()
    }

    /// Takes files that have changed; returns what is to be said.
    pub fn look(&mut self, now: SystemTime) -> Vec<String> {
        let mut lines = Vec::new();
        let seen: Vec<_> = self.watched.iter_mut().map(Watched::look).collect();
        if seen.iter().any(|s| s.is_new()) && !seen.iter().any(|s| s.is_changing()) {
            self.watched.iter_mut().for_each(Watched::take);
            match self.take(now) {
                Ok(()) => {
                    let (name, ends) = (self.files.cert.display(), self.validity.ends());
                    lines.push(format!("the certificate in {name} was read again: it is valid until {ends}"));
                    self.said = Said::Nothing;
                }
                Err(e) => lines.push(format!("{e}; new connections have the previous files")),
            }
        }
        let (state, line) = match remaining(&self.files.cert, &self.validity, now) {
            Err(e) => (Said::Invalid, e.to_string()),
            Ok(None) => (Said::Nothing, String::new()),
            Ok(Some(line)) => (Said::Soon, line),
        };
        if state > self.said {
            lines.push(format!("{line}; new files are read without a restart"));
        }
        self.said = state;
        lines
    }

    /// Takes the files as they are now, if their certificate is valid.
    fn take(&mut self, now: SystemTime) -> Result<(), TlsError> {
        let (config, validity) = tls::load(&self.files, self.protocol)?;
        validity.check(&self.files.cert, now)?;
        self.ends.store(validity.ends_s(), Ordering::Relaxed);
        self.validity = validity;
        self.secure.renew(config);
        Ok(())
    }

    /// Looks at the files for ever.
    pub async fn follow(mut self, mut say: impl FnMut(String)) {
        loop {
            self.look(SystemTime::now()).into_iter().for_each(&mut say);
            tokio::time::sleep(LOOK).await;
        }
    }
}
