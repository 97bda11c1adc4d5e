//! The part of HTTP needed for requests and attacks: one request, one connection, in the calling thread's namespace.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Sends a request and returns status and body. It takes `patience` at most, connection included.
///
/// # Errors
/// The answer is late or malformed.
pub fn ask(at: SocketAddr, request: &str, patience: Duration) -> io::Result<(u16, String)> {
    let end = Instant::now() + patience;
    let mut stream = TcpStream::connect_timeout(&at, patience)?;
    stream.write_all(request.as_bytes())?;
    let (mut answer, mut buffer) = (Vec::new(), [0; 16 * 1024]);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer)? {
            0 => break,
            n => answer.extend_from_slice(&buffer[..n]),
        }
    }
    let text = String::from_utf8_lossy(&answer);
    let status = text.get(9..12).and_then(|s| s.parse().ok());
    let status = status.ok_or_else(|| io::Error::other("the response is not HTTP"))?;
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok((status, body.to_owned()))
}

/// The text of a request that closes its connection.
pub fn request(method: &str, path: &str, token: Option<&str>, body: &str) -> String {
    let authorization = token.map_or(String::new(), |t| format!("Authorization: Bearer {t}\r\n"));
    format!(
        "{method} {path} HTTP/1.1\r\nHost: rack\r\nConnection: close\r\n{authorization}Content-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}
