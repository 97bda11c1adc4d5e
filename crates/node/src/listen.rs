//! Listening sockets.

use std::error::Error;
use std::net::{SocketAddr, ToSocketAddrs};
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

/// An argument is not an address with a port.
#[derive(Debug)]
pub struct AddressError(io::Error);

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: write ADDRESS:PORT, such as 127.0.0.1:9559 or [::1]:9559", self.0)
    }
}

impl Error for AddressError {}

/// The argument of a flag that listens: an address or a name, and a port.
///
/// # Errors
/// It is not one, or the name has no address.
pub fn address(text: &str) -> Result<SocketAddr, AddressError> {
    let none = || io::Error::other("the name has no address");
    text.to_socket_addrs().and_then(|mut all| all.next().ok_or_else(none)).map_err(AddressError)
}

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
