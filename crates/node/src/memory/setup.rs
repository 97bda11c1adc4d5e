//! The set-up channel: connections of controllers.

use crate::places::Places;
use pointsman_roce::Host;
use pointsman_roce::setup::{MAX_LINE, Reply};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Connections at a time.
const CONNECTIONS: usize = 16;
/// A controller that says nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(60);

/// A server with a set-up channel: see [`pointsman_roce::Channel`].
pub(super) trait Served: Send + 'static {
    fn connect(&mut self, connection: u64) -> String;
    fn disconnect(&mut self, connection: u64);
    fn line(&mut self, connection: u64, line: &str) -> (Reply, bool);
}

impl Served for Host {
    fn connect(&mut self, connection: u64) -> String {
        self.connect(connection)
    }

    fn disconnect(&mut self, connection: u64) {
        self.disconnect(connection);
    }

    fn line(&mut self, connection: u64, line: &str) -> (Reply, bool) {
        self.line(connection, line)
    }
}

/// Locks the server's state.
pub(super) fn lock<S>(server: &Mutex<S>) -> MutexGuard<'_, S> {
    server.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection that the server knows, until it ends for whatever reason. Then there are no queue pairs to set up for it.
struct Connection<S: Served> {
    number: u64,
    host: Arc<Mutex<S>>,
}

impl<S: Served> Drop for Connection<S> {
    fn drop(&mut self) {
        lock(&self.host).disconnect(self.number);
    }
}

/// Serves controllers. One that has made a request keeps its place; with a secret, strangers cannot make one.
pub(super) async fn serve<S: Served>(listener: TcpListener, host: Arc<Mutex<S>>) {
    let places = Places::new(CONNECTIONS);
    for number in 0.. {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            // Too many open files, perhaps: not in a loop without a pause.
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let place = Arc::new(places.take(from.ip()).await);
        let (own, host) = (place.clone(), host.clone());
        let task = tokio::spawn(async move {
            let greeting = lock(&host).connect(number);
            let connection = Connection { number, host };
            let _ = talk(stream, &greeting, |line| {
                // An adapter looks for the requester's Ethernet address meanwhile.
                let (reply, goes_on) =
                    tokio::task::block_in_place(|| lock(&connection.host).line(number, line));
                if goes_on {
                    own.set_busy(true);
                }
                (reply.to_string(), goes_on)
            })
            .await;
        });
        place.belongs_to(task.abort_handle());
    }
}

/// Answers line by line until an answer is the last, or the other side is silent or gone.
async fn talk(
    stream: TcpStream,
    greeting: &str,
    mut answer: impl FnMut(&str) -> (String, bool),
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    writer.write_all(format!("{greeting}\n").as_bytes()).await?;
    loop {
        let mut line = Vec::new();
        let mut limited = (&mut reader).take(MAX_LINE as u64 + 1);
        let read = tokio::time::timeout(SILENCE, limited.read_until(b'\n', &mut line)).await??;
        if read == 0 {
            return Ok(());
        }
        let Some(text) = line.strip_suffix(b"\n") else {
            writer.write_all(format!("error a line has at most {MAX_LINE} bytes\n").as_bytes()).await?;
            return Ok(());
        };
        let text = String::from_utf8_lossy(text);
        let (reply, goes_on) = answer(text.trim_end_matches('\r'));
        writer.write_all(format!("{reply}\n").as_bytes()).await?;
        if !goes_on {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::net::SocketAddr;

    /// Knows its connections, and that `right` is a request.
    #[derive(Default)]
    struct Fake(BTreeSet<u64>);

    impl Served for Fake {
        fn connect(&mut self, connection: u64) -> String {
            self.0.insert(connection);
            "hello".into()
        }

        fn disconnect(&mut self, connection: u64) {
            self.0.remove(&connection);
        }

        fn line(&mut self, _: u64, line: &str) -> (Reply, bool) {
            (Reply::Removed, line == "right")
        }
    }

    /// The next line from a server, which may be slow.
    async fn next(client: &mut BufReader<TcpStream>) -> String {
        let (mut line, patience) = (String::new(), Duration::from_secs(10));
        let read = tokio::time::timeout(patience, client.read_line(&mut line)).await;
        read.expect("an answer in time").expect("it is connected");
        line
    }

    async fn greeted(at: SocketAddr) -> BufReader<TcpStream> {
        let mut client = BufReader::new(TcpStream::connect(at).await.expect("it listens"));
        assert_eq!(next(&mut client).await, "hello\n");
        client
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn silent_connections_keep_no_controller_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let (at, host) = (listener.local_addr().expect("it is bound"), Arc::new(Mutex::new(Fake::default())));
        tokio::spawn(serve(listener, host.clone()));
        let mut first = greeted(at).await;
        first.write_all(b"right\n").await.expect("it is connected");
        assert_eq!(next(&mut first).await, "removed\n");
        let mut silent = Vec::new();
        for _ in 0..2 * CONNECTIONS {
            silent.push(greeted(at).await);
        }
        let mut last = greeted(at).await;
        for client in [&mut first, &mut last] {
            client.write_all(b"right\n").await.expect("it is connected");
            assert_eq!(next(client).await, "removed\n");
        }
        // The oldest are gone, and the server knows it.
        assert_eq!(next(&mut silent[0]).await, "");
        for _ in 0..1000 {
            if lock(&host).0.len() == CONNECTIONS {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{:?}", lock(&host).0);
    }
}
