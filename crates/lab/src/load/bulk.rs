//! One large TCP transfer through the virtual IP, every byte checked.

use crate::error::{Error, Result};
use crate::wire::{Content, Digest, Keyring, Kind, MAX_FRAME, Request, Verdict};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Which way the content goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the device to the client.
    Download,
    /// From the client to the device.
    Upload,
}

/// One transfer.
#[derive(Clone, Debug)]
pub struct BulkConfig {
    /// The VIP and the service's TCP port.
    pub target: SocketAddr,
    /// Bytes of content.
    pub bytes: u64,
    /// Which way.
    pub direction: Direction,
    /// Determines the content.
    pub seed: u64,
    /// The transfer has failed when nothing moves for this long.
    pub stall: Duration,
}

/// A transfer that ran to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkResult {
    /// Bytes of content.
    pub bytes: u64,
    /// From before connecting to the verified answer.
    pub elapsed: Duration,
    /// The device that signed the answer; none if the signature was bad.
    pub device: Option<String>,
    /// Whether both ends saw the same content, and the receiver the right one.
    pub intact: bool,
    /// Offset of the first wrong byte (downloads).
    pub first_wrong: Option<u64>,
}

impl BulkResult {
    /// Content bits a second, in millions.
    pub fn megabits_per_second(&self) -> f64 {
        self.bytes as f64 * 8e-6 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// The client's end of a transfer.
struct Transfer<'a> {
    config: &'a BulkConfig,
    stream: TcpStream,
    content: Content,
    digest: Digest,
    moved: &'a mut u64,
    first_wrong: Option<u64>,
}

impl<'a> Transfer<'a> {
    /// Connects and asks.
    fn begin(config: &'a BulkConfig, request: &Request, moved: &'a mut u64) -> io::Result<Self> {
        let mut stream = TcpStream::connect_timeout(&config.target, config.stall)?;
        stream.set_read_timeout(Some(config.stall))?;
        stream.set_write_timeout(Some(config.stall))?;
        stream.set_nodelay(true)?;
        let mut bytes = Vec::new();
        request.encode_frame(0, &mut bytes);
        stream.write_all(&bytes)?;
        let content = Content::new(config.seed);
        Ok(Transfer { config, stream, content, digest: Digest::default(), moved, first_wrong: None })
    }

    /// Moves all content. `observe` gets the bytes moved so far after every piece.
    fn carry(&mut self, mut observe: impl FnMut(u64)) -> io::Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        while *self.moved < self.config.bytes {
            let rest = self.config.bytes - *self.moved;
            let limit = usize::try_from(rest).unwrap_or(usize::MAX).min(buffer.len());
            let n = self.piece(&mut buffer[..limit])?;
            self.digest.update(&buffer[..n]);
            *self.moved += n as u64;
            observe(*self.moved);
        }
        Ok(())
    }

    /// Moves up to one buffer's content, and returns how much that was.
    fn piece(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        match self.config.direction {
            Direction::Upload => {
                self.content.fill(piece);
                self.stream.write_all(piece)?;
                Ok(piece.len())
            }
            Direction::Download => {
                let n = self.stream.read(piece)?;
                if n == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                if self.first_wrong.is_none() {
                    self.first_wrong = self.content.matches(&piece[..n]).err();
                }
                Ok(n)
            }
        }
    }

    /// The device's answer, which follows the content.
    fn answer(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        if length > MAX_FRAME {
            // Content that is too long looks like this, so it is a finding about the content.
            self.first_wrong = self.first_wrong.or(Some(self.config.bytes));
            return Ok(Vec::new());
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer)?;
        Ok(answer)
    }
}

/// Runs one transfer on the calling thread, in whose namespace the socket is. `observe` gets the bytes moved
/// so far after every piece.
pub fn transfer(config: &BulkConfig, keys: &Keyring, observe: impl FnMut(u64)) -> Result<BulkResult> {
    let start = Instant::now();
    let kind = match config.direction {
        Direction::Download => Kind::Download,
        Direction::Upload => Kind::Upload,
    };
    let request = Request { kind, connection: config.seed, sequence: config.seed, argument: config.bytes };
    let mut moved = 0;
    let run = || {
        let mut transfer = Transfer::begin(config, &request, &mut moved)?;
        transfer.carry(observe)?;
        let answer = transfer.answer()?;
        Ok((answer, transfer.digest.finish(), transfer.first_wrong))
    };
    let (answer, digest, first_wrong) = run().map_err(|e| {
        let (bytes, target) = (config.bytes, config.target);
        Error::os(format!("transfer with {target} failed after {moved} of {bytes} bytes"), e)
    })?;
    let device = match keys.verify(&answer, &request) {
        Verdict::Good(device) => Some(keys.names()[device].clone()),
        Verdict::OtherRequest | Verdict::Forged => None,
    };
    let same = keys.verify_any(&answer).is_some_and(|(_, answer)| answer.digest == digest);
    Ok(BulkResult {
        bytes: moved,
        elapsed: start.elapsed(),
        intact: device.is_some() && same && first_wrong.is_none(),
        device,
        first_wrong,
    })
}
