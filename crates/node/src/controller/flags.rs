//! The flags of a controller that is one of a group.

use super::GroupSettings;
use super::learner::random_seed;
use crate::etcd;
use std::error::Error;
use std::path::PathBuf;

/// A group of controllers that elects its leader, and keeps changes made by API, in etcd.
#[derive(clap::Args)]
pub(super) struct GroupArgs {
    /// Share leadership and changes made by API with other controllers of this rack through etcd: URLs of its nodes, separated by commas.
    #[arg(long, value_name = "URLS", value_delimiter = ',')]
    etcd: Vec<String>,
    /// Prefix of the keys in etcd. Racks that share an etcd need different ones.
    #[arg(long, value_name = "PREFIX", default_value = "/pointsman/", requires = "etcd")]
    etcd_prefix: String,
    /// PEM file with the CA of https:// URLs.
    #[arg(long, value_name = "FILE", requires = "etcd")]
    etcd_ca: Option<PathBuf>,
    /// PEM file with the client certificate, if etcd requires one.
    #[arg(long, value_name = "FILE", requires = "etcd_key")]
    etcd_cert: Option<PathBuf>,
    /// PEM file with the key of --etcd-cert.
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    etcd_key: Option<PathBuf>,
    /// Name of this controller among those of the rack [default: the machine's name].
    #[arg(long, value_name = "NAME", requires = "etcd")]
    name: Option<String>,
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic())
}

impl GroupArgs {
    /// The group, if there is one.
    pub fn settings(self) -> Result<Option<GroupSettings>, Box<dyn Error>> {
        if self.etcd.is_empty() {
            return Ok(None);
        }
        if !is_plain(&self.etcd_prefix) || !self.etcd_prefix.ends_with('/') {
            let remedy = "write letters, digits and slashes, with a slash at the end: /pointsman/rack-a/";
            return Err(format!("--etcd-prefix `{}`: {remedy}", self.etcd_prefix).into());
        }
        let name = match self.name {
            Some(name) => name,
            None => nix::unistd::gethostname()
                .map_err(|e| format!("the machine has no name: {e}; write --name NAME"))?
                .to_string_lossy()
                .into_owned(),
        };
        if !is_plain(&name) || name.len() > 64 {
            return Err(
                format!("--name `{name}`: write 1 to 64 letters, digits and signs without spaces").into()
            );
        }
        let identity = self.etcd_cert.zip(self.etcd_key);
        let etcd = etcd::Settings { urls: self.etcd, ca: self.etcd_ca, identity };
        etcd.check()?;
        let (prefix, seed) = (self.etcd_prefix, random_seed());
        Ok(Some(GroupSettings { etcd, prefix, name, url: String::new(), seed }))
    }
}
