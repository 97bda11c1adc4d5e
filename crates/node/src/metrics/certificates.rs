//! When the certificates end that a part presents.

use super::{Labels, Page};
use crate::switch::tls::{TlsError, Validity};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The last moment of a certificate in use, in seconds since 1970; shared with what renews it.
pub type Ends = Arc<AtomicI64>;

/// The certificates that a part presents: what each is for, its file, its end.
#[derive(Clone, Debug, Default)]
pub struct Certificates(Vec<(&'static str, PathBuf, Ends)>);

impl Certificates {
    /// Adds one whose end is followed.
    pub fn follow(&mut self, purpose: &'static str, file: &Path, ends: Ends) {
        self.0.push((purpose, file.to_path_buf(), ends));
    }

    /// Adds one that is read once, when the part starts, if there is one.
    ///
    /// # Errors
    /// The file cannot be read, or has no certificate.
    pub fn read(&mut self, purpose: &'static str, file: Option<&Path>) -> Result<(), TlsError> {
        let Some(file) = file else { return Ok(()) };
        let ends = Validity::read(file, "client certificate")?.ends_s();
        self.follow(purpose, file, Arc::new(ends.into()));
        Ok(())
    }

    /// Adds them to a page.
    pub fn add_to(&self, page: &mut Page) {
        if self.0.is_empty() {
            return;
        }
        let one = |(purpose, file, ends): &(&str, PathBuf, Ends)| -> (Labels, f64) {
            let labels = vec![("purpose", purpose.to_string()), ("file", file.display().to_string())];
            (labels, ends.load(Ordering::Relaxed) as f64)
        };
        page.gauge(
            "pointsman_certificate_expiry_timestamp_seconds",
            "When a certificate expires that this part presents, in seconds since 1970.",
            self.0.iter().map(one).collect(),
        );
    }
}
