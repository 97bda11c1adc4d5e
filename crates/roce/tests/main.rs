//! Packets, a connection over a bad network, and a server with its set-up channel.

mod connection;
mod host;
