//! Connections whose clients must begin HTTP/2: one that stays silent would occupy a descriptor until the switch ends.
//! As soon as HTTP/2 has begun, pings detect clients that have vanished.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};
use tonic::transport::server::Connected;

/// Length of the text with which a client begins (RFC 9113, section 3.4), in bytes.
const LENGTH: usize = 24;

/// A connection that ends with an error unless the client's preface is read in time.
pub struct Prefaced<S> {
    stream: S,
    /// How many bytes of the preface are missing, and when they must have been read; `None` if none are missing.
    missing: Option<(usize, Pin<Box<Sleep>>)>,
}

impl<S> Prefaced<S> {
    /// A new connection, whose client has this long for the preface.
    pub fn new(stream: S, patience: Duration) -> Self {
        Prefaced { stream, missing: Some((LENGTH, Box::pin(sleep(patience)))) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefaced<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        let Some((missing, end)) = &mut self.missing else { return read };
        *missing = missing.saturating_sub(buf.filled().len() - before);
        if *missing == 0 {
            self.missing = None;
        } else if read.is_pending() {
            ready!(end.as_mut().poll(cx));
            return Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client did not begin HTTP/2")));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prefaced<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S: Connected> Connected for Prefaced<S> {
    type ConnectInfo = S::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.stream.connect_info()
    }
}

#[cfg(test)]
mod tests {
    use crate::switch::runtime::Handle;
    use crate::switch::serve_within;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::timeout;

    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    /// An empty frame of settings: length 0, type 4, no flags, stream 0.
    const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

    #[test]
    fn connections_without_a_preface_are_closed() {
        let patience = Duration::from_millis(50);
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        tokio.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            let address = listener.local_addr().expect("it is bound");
            tokio::spawn(serve_within(patience, Handle::gone(), listener, None));
            // The time in which the switch closes the connection is for slow machines.
            for said in [&b""[..], &PREFACE[..23]] {
                let mut client = TcpStream::connect(address).await.expect("it listens");
                client.write_all(said).await.expect("it is open");
                let mut heard = Vec::new();
                let closed = timeout(Duration::from_secs(10), client.read_to_end(&mut heard)).await;
                assert!(closed.is_ok(), "{} bytes and then nothing: still open", said.len());
            }
            // A client that has begun may be silent.
            let mut client = TcpStream::connect(address).await.expect("it listens");
            client.write_all(&[PREFACE, SETTINGS].concat()).await.expect("it is open");
            let mut heard = Vec::new();
            let closed = timeout(4 * patience, client.read_to_end(&mut heard)).await;
            assert!(closed.is_err() && !heard.is_empty(), "{closed:?}, {heard:?}");
        });
    }
}
