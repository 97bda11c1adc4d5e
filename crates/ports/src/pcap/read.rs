//! Reading captures.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::{error, fmt};

use super::ng::Blocks;
use super::{ETHERNET, MAGIC_MICROSECONDS, MAGIC_NANOSECONDS, MAX_FRAME_BYTES};

/// Why a capture cannot be read any further.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The file cannot be read.
    Io(io::Error),
    /// The file starts like no capture.
    NotACapture,
    /// The file ends in the middle of something; everything before was delivered.
    Truncated {
        /// Where the unfinished part starts, in bytes.
        offset: u64,
    },
    /// The file contradicts itself.
    Malformed {
        /// Where the part starts, in bytes.
        offset: u64,
        /// The error.
        what: &'static str,
    },
    /// The frames are not Ethernet frames.
    NotEthernet {
        /// The link type that the file names.
        link_type: u32,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::NotACapture => {
                write!(
                    f,
                    "neither pcap nor pcapng: record it with `tcpdump -w FILE` or save it from Wireshark"
                )
            }
            Self::Truncated { offset } => {
                write!(
                    f,
                    "the file ends in the middle of the record at byte {offset}; record or copy it again"
                )
            }
            Self::Malformed { offset, what } => {
                write!(f, "at byte {offset}: {what}; record or copy it again")
            }
            Self::NotEthernet { link_type } => write!(
                f,
                "link type {link_type} is not Ethernet (1): record on an Ethernet interface rather than on `any`"
            ),
        }
    }
}

impl error::Error for ReadError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// The properties of a frame in a capture besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Since the Unix epoch, in nanoseconds. 0 if the file has no time.
    pub time_ns: u64,
    /// The frame's length on the wire. Larger than the record if the capture was made with a snap length.
    pub original_bytes: u32,
}

/// An input that knows how far it was read.
#[derive(Debug)]
pub(super) struct Source<R> {
    input: R,
    pub offset: u64,
}

impl<R: Read> Source<R> {
    /// Fills the buffer; `false` at a clean end of the file. `from`: where the part started that this belongs to.
    pub fn fill(&mut self, buffer: &mut [u8], from: u64) -> Result<bool, ReadError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.input.read(&mut buffer[filled..]) {
                Ok(0) if filled == 0 && self.offset == from => return Ok(false),
                Ok(0) => return Err(ReadError::Truncated { offset: from }),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ReadError::Io(error)),
            }
        }
        self.offset += buffer.len() as u64;
        Ok(true)
    }
}

/// Byte order of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    pub fn u16(self, bytes: [u8; 2]) -> u16 {
        if self == Self::Little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) }
    }

    pub fn u32(self, bytes: [u8; 4]) -> u32 {
        if self == Self::Little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }
    }

    /// The word at `at`; 0 if the bytes end before.
    pub fn word(self, bytes: &[u8], at: usize) -> u32 {
        bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, |word| self.u32(word))
    }

    /// The half word at `at`; 0 if the bytes end before.
    pub fn half(self, bytes: &[u8], at: usize) -> u16 {
        bytes.get(at..at + 2).and_then(|half| half.try_into().ok()).map_or(0, |half| self.u16(half))
    }
}

#[derive(Debug)]
enum Format {
    /// Classic pcap, and how many nanoseconds a unit of the fraction is.
    Classic(Order, u64),
    Blocks(Blocks),
}

/// Reads the frames of a capture one after the other.
#[derive(Debug)]
pub struct Reader<R> {
    source: Source<R>,
    format: Format,
}

impl Reader<BufReader<File>> {
    /// Opens a file.
    ///
    /// # Errors
    /// [`ReadError`]
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        Self::new(BufReader::new(File::open(path).map_err(ReadError::Io)?))
    }
}

impl<R: Read> Reader<R> {
    /// Reads the file's header. `input` should be buffered.
    ///
    /// # Errors
    /// [`ReadError`]
    pub fn new(input: R) -> Result<Self, ReadError> {
        let mut source = Source { input, offset: 0 };
        let mut magic = [0; 4];
        match source.fill(&mut magic, 0) {
            Ok(true) => {}
            Ok(false) | Err(ReadError::Truncated { .. }) => return Err(ReadError::NotACapture),
            Err(error) => return Err(error),
        }
        if magic == super::ng::SECTION_HEADER {
            let blocks = Blocks::start(&mut source)?;
            return Ok(Self { source, format: Format::Blocks(blocks) });
        }
        let (order, unit_ns) = match (u32::from_le_bytes(magic), u32::from_be_bytes(magic)) {
            (MAGIC_MICROSECONDS, _) => (Order::Little, 1000),
            (MAGIC_NANOSECONDS, _) => (Order::Little, 1),
            (_, MAGIC_MICROSECONDS) => (Order::Big, 1000),
            (_, MAGIC_NANOSECONDS) => (Order::Big, 1),
            _ => return Err(ReadError::NotACapture),
        };
        let mut header = [0; 20];
        source.fill(&mut header, 0)?;
        // The upper half holds the length of frame check sequences; files that have them are rare and not for us.
        let link_type = order.word(&header, 16);
        if link_type != ETHERNET {
            return Err(ReadError::NotEthernet { link_type });
        }
        Ok(Self { source, format: Format::Classic(order, unit_ns) })
    }

    /// Reads the next frame into `frame`, replacing its content. `None` at the end of the file.
    ///
    /// # Errors
    /// [`ReadError`]; the rest of the file cannot be read then.
    pub fn read(&mut self, frame: &mut Vec<u8>) -> Result<Option<Record>, ReadError> {
        frame.clear();
        match &mut self.format {
            Format::Classic(order, unit_ns) => read_classic(&mut self.source, *order, *unit_ns, frame),
            Format::Blocks(blocks) => blocks.read(&mut self.source, frame),
        }
    }
}

fn read_classic<R: Read>(
    source: &mut Source<R>,
    order: Order,
    unit_ns: u64,
    frame: &mut Vec<u8>,
) -> Result<Option<Record>, ReadError> {
    let offset = source.offset;
    let mut header = [0; 16];
    if !source.fill(&mut header, offset)? {
        return Ok(None);
    }
    let [seconds, fraction, kept, original_bytes] = [0, 4, 8, 12].map(|at| order.word(&header, at));
    let kept = kept as usize;
    if kept > MAX_FRAME_BYTES {
        return Err(ReadError::Malformed { offset, what: "a frame of more than 262144 bytes" });
    }
    frame.resize(kept, 0);
    source.fill(frame, offset)?;
    let time_ns = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * unit_ns;
    Ok(Some(Record { time_ns, original_bytes }))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::pcap::Writer;

    /// All frames of a capture up to its end or the first error.
    pub fn read_all(bytes: &[u8]) -> (Vec<(Record, Vec<u8>)>, Option<ReadError>) {
        let mut records = Vec::new();
        let mut reader = match Reader::new(bytes) {
            Ok(reader) => reader,
            Err(error) => return (records, Some(error)),
        };
        loop {
            let mut frame = Vec::new();
            match reader.read(&mut frame) {
                Ok(Some(record)) => records.push((record, frame)),
                Ok(None) => return (records, None),
                Err(error) => return (records, Some(error)),
            }
        }
    }

    fn capture() -> Vec<u8> {
        let mut output = Vec::new();
        let mut writer = Writer::new(&mut output).unwrap();
        writer.record(1_700_000_000_123_456_789, &[1; 60]).unwrap();
        writer.record(1_700_000_001_000_000_000, &[2; 1514]).unwrap();
        drop(writer);
        output
    }

    fn swap_words(bytes: &mut [u8]) {
        bytes.as_chunks_mut::<4>().0.iter_mut().for_each(|word| word.reverse());
    }

    #[test]
    fn what_was_written_is_read_back() {
        let (records, error) = read_all(&capture());
        assert!(error.is_none());
        let record = |time_ns, original_bytes| Record { time_ns, original_bytes };
        assert_eq!(records[0], (record(1_700_000_000_123_456_789, 60), vec![1; 60]));
        assert_eq!(records[1], (record(1_700_000_001_000_000_000, 1514), vec![2; 1514]));
        assert_eq!(records.len(), 2);
    }

    #[test]
    fn microseconds_and_the_other_byte_order_are_understood() {
        let mut bytes = capture()[..24 + 16 + 60].to_vec();
        bytes[..4].copy_from_slice(&MAGIC_MICROSECONDS.to_le_bytes());
        bytes[28..32].copy_from_slice(&999_999u32.to_le_bytes());
        assert_eq!(read_all(&bytes).0[0].0.time_ns, 1_700_000_000_999_999_000);
        swap_words(&mut bytes[..40]);
        let (records, error) = read_all(&bytes);
        assert!(error.is_none());
        assert_eq!(records[0].0, Record { time_ns: 1_700_000_000_999_999_000, original_bytes: 60 });
    }

    fn check_error(bytes: &[u8], records: usize, message: &str) {
        let (found, error) = read_all(bytes);
        assert_eq!(found.len(), records);
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(message), "'{error}' does not say '{message}'");
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        let good = capture();
        check_error(b"", 0, "neither pcap nor pcapng");
        check_error(b"#!/bin/sh\n", 0, "neither pcap nor pcapng");
        check_error(&good[..20], 0, "ends in the middle of the record at byte 0");
        check_error(&good[..30], 0, "at byte 24");
        check_error(&good[..110], 1, "at byte 100");
        check_error(&good[..good.len() - 1], 1, "at byte 100");
        let mut huge = good.clone();
        huge[35] = 0xff;
        check_error(&huge, 0, "at byte 24: a frame of more than");
        let mut cooked = good.clone();
        cooked[20] = 113;
        check_error(&cooked, 0, "link type 113");
    }
}
