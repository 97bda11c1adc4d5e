//! Minimal HTTP: a server with limits and a client with timeouts, both HTTP/1.1, with TLS or without. The content is
//! defined elsewhere.

pub mod client;
pub mod credentials;
pub mod health;
pub mod redirect;
pub mod server;

use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncWrite};

/// Something that is to be polled. Without its type, code that runs it is compiled once, and in this crate.
pub type Task<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A connection, with TLS or without.
trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}
