//! The set-up channel: connections of controllers.

use pointsman_roce::Host;
use pointsman_roce::setup::{MAX_LINE, Reply};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

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

/// Serves controllers.
pub(super) async fn serve<S: Served>(listener: TcpListener, host: Arc<Mutex<S>>) {
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    for number in 0.. {
        let Ok(permit) = free.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // Too many open files, perhaps: not in a loop without a pause.
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let host = host.clone();
        tokio::spawn(async move {
            let greeting = lock(&host).connect(number);
            // A controller that is gone, whatever the reason, has no queue pairs to set up.
            let _ = talk(stream, &greeting, |line| {
                // An adapter looks for the requester's Ethernet address meanwhile.
                let (reply, goes_on) = tokio::task::block_in_place(|| lock(&host).line(number, line));
                (reply.to_string(), goes_on)
            })
            .await;
            lock(&host).disconnect(number);
            drop(permit);
        });
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
