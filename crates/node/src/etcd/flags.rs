//! Flags that all users of etcd have.

use super::Settings;
use std::path::{Path, PathBuf};

/// TLS for etcd.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct TlsArgs {
    /// PEM file with the CA of https:// URLs.
    #[arg(long, value_name = "FILE", requires = "etcd")]
    etcd_ca: Option<PathBuf>,
    /// PEM file with the client certificate, if etcd requires one.
    #[arg(long, value_name = "FILE", requires = "etcd_key")]
    etcd_cert: Option<PathBuf>,
    /// PEM file with the key of --etcd-cert.
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    etcd_key: Option<PathBuf>,
}

impl TlsArgs {
    /// The client certificate.
    pub fn certificate(&self) -> Option<&Path> {
        self.etcd_cert.as_deref()
    }

    /// The settings for these nodes.
    pub fn settings(&self, urls: &[String]) -> Settings {
        let identity = self.etcd_cert.clone().zip(self.etcd_key.clone());
        Settings { urls: urls.to_vec(), ca: self.etcd_ca.clone(), identity }
    }
}

/// Whether this can be what all keys of a group begin with.
pub fn is_prefix(text: &str) -> bool {
    is_plain(text) && text.ends_with('/')
}

/// The remedy if it cannot.
pub const PREFIX_REMEDY: &str =
    "write letters, digits and slashes, with a slash at the end: /pointsman/rack-a/";

/// Whether a text has visible characters of ASCII only, and at least one.
pub fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic())
}
