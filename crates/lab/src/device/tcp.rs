//! One TCP connection of a device: frames in, signed answers out, bulk content either way.

use crate::sys::Interest;
use crate::wire::{self, Content, Digest, Key, Kind, MAX_FRAME, Request};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

/// Bytes moved per event: small enough that one bulk transfer does not hold up the device's timers.
const CHUNK: usize = 64 * 1024;
/// No more requests are read while this much output waits.
const OUTPUT_LIMIT: usize = 256 * 1024;

/// The device that answers, and its key.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub name: String,
    pub key: Key,
}

#[derive(Debug)]
enum Phase {
    Frames,
    Upload { request: Request, left: u64, digest: Digest },
    Download { request: Request, left: u64, content: Content, digest: Digest },
}

#[derive(Debug)]
pub(super) struct Connection {
    pub stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    /// Answers that must wait until the content of a running download has been sent.
    held: Vec<u8>,
    phase: Phase,
    /// The events last set with epoll.
    pub interest: Interest,
}

/// The result of an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Open,
    /// The peer closed, or the connection failed.
    Closed,
    /// The bytes received are not a frame of ours.
    Malformed,
}

impl Connection {
    pub fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            held: Vec::new(),
            phase: Phase::Frames,
            interest: Interest::READ,
        }
    }

    fn pending(&self) -> usize {
        self.output.len() - self.written
    }

    /// The events to watch for now.
    pub fn wanted(&self) -> Interest {
        let download = matches!(self.phase, Phase::Download { .. });
        let write = download || self.pending() > 0;
        let read = !download && self.pending() < OUTPUT_LIMIT;
        match (read, write) {
            (true, true) => Interest::BOTH,
            (true, false) => Interest::READ,
            (false, _) => Interest::WRITE,
        }
    }

    /// Reads once; work and probes are pushed to `requests`, bulk transfers are dealt with here.
    pub fn read(&mut self, me: &Identity, scratch: &mut [u8], requests: &mut Vec<Request>) -> Outcome {
        let limit = scratch.len().min(CHUNK);
        let n = match self.stream.read(&mut scratch[..limit]) {
            Ok(0) => return Outcome::Closed,
            Ok(n) => n,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Outcome::Open;
            }
            Err(_) => return Outcome::Closed,
        };
        let rest = self.upload(me, &scratch[..n]);
        self.input.extend_from_slice(rest);
        self.frames(me, requests)
    }

    /// Feeds a running upload; returns the bytes after its end.
    fn upload<'a>(&mut self, me: &Identity, bytes: &'a [u8]) -> &'a [u8] {
        let Phase::Upload { request, left, digest } = &mut self.phase else { return bytes };
        let take = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
        let (content, rest) = bytes.split_at(take);
        digest.update(content);
        *left -= take as u64;
        if *left == 0 {
            let (request, digest) = (*request, digest.finish());
            self.phase = Phase::Frames;
            self.answer(me, &request, digest);
        }
        rest
    }

    /// Takes complete frames out of the input.
    fn frames(&mut self, me: &Identity, requests: &mut Vec<Request>) -> Outcome {
        let mut input = std::mem::take(&mut self.input);
        let mut at = 0;
        while matches!(self.phase, Phase::Frames) {
            let Some(header) = input.get(at..at + 4).and_then(|b| <[u8; 4]>::try_from(b).ok()) else { break };
            let length = u32::from_be_bytes(header) as usize;
            if length > MAX_FRAME {
                return Outcome::Malformed;
            }
            let Some(frame) = input.get(at + 4..at + 4 + length) else { break };
            let Ok(request) = Request::decode(frame) else { return Outcome::Malformed };
            at += 4 + length;
            match request.kind {
                Kind::Work | Kind::Probe => requests.push(request),
                Kind::Download => {
                    let (content, digest) = (Content::new(request.sequence), Digest::default());
                    self.phase = Phase::Download { request, left: request.argument, content, digest };
                }
                Kind::Upload => {
                    let digest = Digest::default();
                    self.phase = Phase::Upload { request, left: request.argument, digest };
                    let rest = self.upload(me, &input[at..]).len();
                    at = input.len() - rest;
                }
            }
        }
        input.drain(..at);
        self.input = input;
        Outcome::Open
    }

    /// Queues the signed answer to `request`.
    pub fn answer(&mut self, me: &Identity, request: &Request, digest: [u8; 16]) {
        let length = wire::ANSWER_LEN + me.name.len();
        let download = matches!(self.phase, Phase::Download { .. });
        let output = if download { &mut self.held } else { &mut self.output };
        output.extend_from_slice(&(length as u32).to_be_bytes());
        wire::sign(request, &me.name, me.key, digest, output);
    }

    /// Continues a download and writes as much as the socket takes.
    pub fn write(&mut self, me: &Identity, requests: &mut Vec<Request>) -> Outcome {
        let mut finished = None;
        if let Phase::Download { request, left, content, digest } = &mut self.phase
            && self.output.len() - self.written < CHUNK
        {
            self.output.drain(..self.written);
            self.written = 0;
            let start = self.output.len();
            let more = usize::try_from(*left).unwrap_or(usize::MAX).min(CHUNK);
            self.output.resize(start + more, 0);
            content.fill(&mut self.output[start..]);
            digest.update(&self.output[start..]);
            *left -= more as u64;
            if *left == 0 {
                finished = Some((*request, digest.finish()));
            }
        }
        if let Some((request, digest)) = finished {
            self.phase = Phase::Frames;
            self.answer(me, &request, digest);
            self.output.append(&mut self.held);
            // Requests that arrived behind this one were waiting for it.
            if self.frames(me, requests) == Outcome::Malformed {
                return Outcome::Malformed;
            }
        }
        self.flush()
    }

    /// Writes as much of the waiting output as the socket takes.
    pub fn flush(&mut self) -> Outcome {
        while self.written < self.output.len() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(n) => self.written += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Outcome::Open,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Outcome::Closed,
            }
        }
        self.output.clear();
        self.written = 0;
        Outcome::Open
    }
}
