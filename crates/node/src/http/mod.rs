//! Minimal HTTP: a server with limits and a client with timeouts, both HTTP/1.1, with TLS or without. The content is
//! defined elsewhere.

pub mod client;
pub mod health;
pub mod server;
