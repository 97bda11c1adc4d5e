//! Listening sockets.

use std::error::Error;
use std::net::SocketAddr;
use std::{fmt, io};
use tokio::net::TcpListener;

/// An address that cannot be listened on.
#[derive(Debug)]
pub struct ListenError {
    at: SocketAddr,
    setting: &'static str,
    error: io::Error,
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ListenError { at, setting, error } = self;
        write!(f, "cannot listen on {at}: {error}; choose another with {setting}")
    }
}

impl Error for ListenError {}

/// Listens at an address, which this flag or setting names. The result has the address, too: a port of 0 stands for any.
///
/// # Errors
/// The address is taken or not of this machine.
pub async fn listen(at: SocketAddr, setting: &'static str) -> Result<(TcpListener, SocketAddr), ListenError> {
    let bound = async {
        let listener = TcpListener::bind(at).await?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    bound.await.map_err(|error| ListenError { at, setting, error })
}
