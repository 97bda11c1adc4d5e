//! `--watch`: the controller's console, outside of the rack's namespaces, while the demo runs.

use pointsman_balance::config::file::{ApiSection, RackFile};
use pointsman_live::Live;
use pointsman_node::rack_file;
use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A place for the console, made before the process leaves the network namespace of its user.
pub struct Watch {
    listener: TcpListener,
    address: SocketAddr,
    token: String,
    /// With the token, until the controller has read it.
    file: PathBuf,
}

fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

impl Watch {
    /// A free port of the loopback interface, and a random token.
    ///
    /// # Errors
    /// The system has neither, or no room for a file.
    pub fn new() -> Result<Watch, Box<dyn Error>> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .map_err(|e| format!("--watch: cannot listen on the loopback interface: {e}"))?;
        let bytes: [u8; 16] = rack_file::random()?;
        let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let file = std::env::temp_dir().join(format!("pointsman-demo-{token:.8}"));
        private(&file)
            .and_then(|mut f| writeln!(f, "demo {token}"))
            .map_err(|e| format!("--watch: cannot write {}: {e}", file.display()))?;
        Ok(Watch { address: listener.local_addr()?, listener, token, file })
    }

    /// A file that must not be left behind.
    pub fn secret(&self) -> PathBuf {
        self.file.clone()
    }

    /// Lets the controller of this rack have an API.
    pub fn add_to(&self, rack: &mut RackFile) {
        rack.api = Some(ApiSection { tokens: self.file.display().to_string(), ..ApiSection::default() });
    }

    /// Serves the console of the controller that runs. What the user needs, as a line.
    ///
    /// # Errors
    /// No controller runs.
    pub fn serve(&self, live: &Live) -> Result<String, Box<dyn Error>> {
        live.serve_api(self.listener.try_clone()?)?;
        // The controller has read it, and reads it once.
        let _ = std::fs::remove_file(&self.file);
        Ok(format!("console: http://{}/ until the demo ends; sign in with {}\n", self.address, self.token))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}
