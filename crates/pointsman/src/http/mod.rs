//! HTTP as far as it is needed: a server with limits and a client with patience, both HTTP/1.1, with TLS or without. What is said is
//! decided elsewhere.

pub mod client;
pub mod server;
