//! The flags of a controller that is one of a group.

use super::GroupSettings;
use super::learner::random_seed;
use crate::etcd::flags::{PREFIX_REMEDY, TlsArgs, is_plain, is_prefix};
use crate::http::redirect;
use std::error::Error;
use std::path::Path;

/// A group of controllers that elects its leader, and keeps changes made by API, in etcd.
#[derive(clap::Args)]
pub(super) struct GroupArgs {
    /// Share leadership and changes made by API with other controllers of this rack through etcd: URLs of its nodes, separated by commas.
    #[arg(long, value_name = "URLS", value_delimiter = ',')]
    etcd: Vec<String>,
    /// Prefix of the keys in etcd. Racks that share an etcd need different ones.
    #[arg(long, value_name = "PREFIX", default_value = "/pointsman/", requires = "etcd")]
    etcd_prefix: String,
    #[command(flatten)]
    tls: TlsArgs,
    /// Name of this controller among those of the rack [default: the machine's name].
    #[arg(long, value_name = "NAME", requires = "etcd")]
    name: Option<String>,
    /// URL at which clients reach this controller's API; while it leads, the others redirect changes to it [default: `listen` in [api]].
    #[allow(rustdoc::broken_intra_doc_links, reason = "a table of rack.toml, in the text of --help")]
    #[arg(long, value_name = "URL", requires = "etcd")]
    api_url: Option<String>,
}

impl GroupArgs {
    /// Whether there is to be a group.
    pub fn is_used(&self) -> bool {
        !self.etcd.is_empty()
    }

    /// The certificate that etcd gets to see.
    pub fn certificate(&self) -> Option<&Path> {
        self.tls.certificate()
    }

    /// The group, if there is one.
    pub fn settings(self) -> Result<Option<GroupSettings>, Box<dyn Error>> {
        if self.etcd.is_empty() {
            return Ok(None);
        }
        if !is_prefix(&self.etcd_prefix) {
            return Err(format!("--etcd-prefix `{}`: {PREFIX_REMEDY}", self.etcd_prefix).into());
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
        let url = match self.api_url {
            None => String::new(),
            Some(url) => match redirect::base(&url) {
                Some(base) => base.to_string(),
                None => {
                    return Err(format!(
                        "--api-url `{url}`: write http://host:port or https://host:port, as clients reach this controller"
                    )
                    .into());
                }
            },
        };
        let etcd = self.tls.settings(&self.etcd);
        etcd.check()?;
        let (prefix, seed) = (self.etcd_prefix, random_seed());
        Ok(Some(GroupSettings { etcd, prefix, name, url, seed }))
    }
}
