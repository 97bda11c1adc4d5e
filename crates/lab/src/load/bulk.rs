//! One large TCP transfer through the virtual IP, every byte checked.

use crate::error::{Error, Result};
use crate::wire::{Content, Digest, Keyring, Kind, MAX_FRAME, Request, Verdict};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
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

/// The transfer as the client's end sees it when it has the answer.
struct Seen {
    first_wrong: Option<u64>,
    digest: [u8; 16],
    answer: Vec<u8>,
    request: Request,
}

/// Runs one transfer on the calling thread, in whose namespace the socket is. `observe` gets the bytes moved
/// so far after every piece.
pub fn transfer(config: &BulkConfig, keys: &Keyring, mut observe: impl FnMut(u64)) -> Result<BulkResult> {
    let start = Instant::now();
    let mut moved = 0;
    let mut run = || -> std::io::Result<Seen> {
        let mut stream = TcpStream::connect_timeout(&config.target, config.stall)?;
        stream.set_read_timeout(Some(config.stall))?;
        stream.set_write_timeout(Some(config.stall))?;
        stream.set_nodelay(true)?;
        let kind = match config.direction {
            Direction::Download => Kind::Download,
            Direction::Upload => Kind::Upload,
        };
        let request =
            Request { kind, connection: config.seed, sequence: config.seed, argument: config.bytes };
        let mut bytes = Vec::new();
        request.encode_frame(0, &mut bytes);
        stream.write_all(&bytes)?;

        let (mut content, mut digest) = (Content::new(config.seed), Digest::default());
        let mut buffer = vec![0; 64 * 1024];
        let mut wrong = None;
        while moved < config.bytes {
            let limit = usize::try_from(config.bytes - moved).unwrap_or(usize::MAX).min(buffer.len());
            let piece = &mut buffer[..limit];
            let n = match config.direction {
                Direction::Upload => {
                    content.fill(piece);
                    stream.write_all(piece)?;
                    limit
                }
                Direction::Download => {
                    let n = stream.read(piece)?;
                    if n == 0 {
                        return Err(std::io::ErrorKind::UnexpectedEof.into());
                    }
                    if wrong.is_none() {
                        wrong = content.matches(&piece[..n]).err();
                    }
                    n
                }
            };
            digest.update(&buffer[..n]);
            moved += n as u64;
            observe(moved);
        }
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        if length > MAX_FRAME {
            // Content that is too long looks like this, so it is a finding about the content.
            let first_wrong = wrong.or(Some(config.bytes));
            return Ok(Seen { first_wrong, digest: digest.finish(), answer: Vec::new(), request });
        }
        let mut answer = vec![0; length];
        stream.read_exact(&mut answer)?;
        Ok(Seen { first_wrong: wrong, digest: digest.finish(), answer, request })
    };
    let Seen { first_wrong, digest, answer, request } = run().map_err(|e| {
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
