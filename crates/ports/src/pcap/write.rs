//! Writing captures.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{ETHERNET, MAGIC_NANOSECONDS, MAX_FRAME_BYTES};
use crate::Direction;

/// The name of a port's capture: `<port>_in.pcap` for received frames, `<port>_out.pcap` for transmitted ones, like
/// BMv2's `--pcap`. A '/' in the port's name becomes '_'.
pub fn file_name(port: &str, direction: Direction) -> String {
    let suffix = if direction == Direction::Receive { "in" } else { "out" };
    format!("{}_{suffix}.pcap", port.replace('/', "_"))
}

/// Writes frames to a capture. The records are in the output after [`flush`](Writer::flush), or when the writer is
/// dropped.
#[derive(Debug)]
pub struct Writer<W: Write> {
    output: W,
    path: Option<PathBuf>,
    /// Records that are not written yet.
    pending: Vec<u8>,
}

/// How much may be pending.
const PENDING_BYTES: usize = 64 * 1024;

impl Writer<File> {
    /// Creates the file, or empties an existing one.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut writer = Self::new(File::create(path)?)?;
        writer.path = Some(path.into());
        Ok(writer)
    }

    #[cfg(test)]
    pub(crate) fn replace_output(&mut self, output: File) {
        self.output = output;
    }
}

impl<W: Write> Writer<W> {
    /// Starts a capture, which begins with a header.
    ///
    /// # Errors
    /// Those of the output.
    pub fn new(output: W) -> io::Result<Self> {
        let mut pending = Vec::with_capacity(PENDING_BYTES);
        let [version, zone, accuracy] = [2 | 4 << 16, 0, 0];
        for word in [MAGIC_NANOSECONDS, version, zone, accuracy, MAX_FRAME_BYTES as u32, ETHERNET] {
            pending.extend_from_slice(&word.to_le_bytes());
        }
        let mut writer = Self { output, path: None, pending };
        writer.flush()?;
        Ok(writer)
    }

    /// Where the capture is, if it is a file.
    pub fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new("(capture in memory)"))
    }

    /// Records one frame. `time_ns`: since the Unix epoch, in nanoseconds; the format ends in the year 2106.
    ///
    /// # Errors
    /// Those of the output, when the buffer was full and could not be written. The frame was not recorded then.
    pub fn record(&mut self, time_ns: u64, frame: &[u8]) -> io::Result<()> {
        if self.pending.len() >= PENDING_BYTES {
            self.flush()?;
        }
        append_record(&mut self.pending, time_ns, frame);
        Ok(())
    }

    /// Takes records made by [`append_record`].
    pub(crate) fn record_all(&mut self, records: &[u8]) -> io::Result<()> {
        if self.pending.len() >= PENDING_BYTES {
            self.flush()?;
        }
        self.pending.extend_from_slice(records);
        Ok(())
    }

    /// Writes pending records.
    ///
    /// # Errors
    /// Those of the output. The pending records are lost then.
    pub fn flush(&mut self) -> io::Result<()> {
        let result = self.output.write_all(&self.pending).and_then(|()| self.output.flush());
        self.pending.clear();
        result
    }
}

impl<W: Write> Drop for Writer<W> {
    fn drop(&mut self) {
        // Whoever wants to know about errors flushes before.
        let _ = self.flush();
    }
}

/// Appends one frame in the form that the file has.
pub(crate) fn append_record(records: &mut Vec<u8>, time_ns: u64, frame: &[u8]) {
    let kept = &frame[..frame.len().min(MAX_FRAME_BYTES)];
    let seconds = u32::try_from(time_ns / 1_000_000_000).unwrap_or(u32::MAX);
    let original = u32::try_from(frame.len()).unwrap_or(u32::MAX);
    for word in [seconds, (time_ns % 1_000_000_000) as u32, kept.len() as u32, original] {
        records.extend_from_slice(&word.to_le_bytes());
    }
    records.extend_from_slice(kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_bmv2() {
        assert_eq!(file_name("veth1", Direction::Receive), "veth1_in.pcap");
        assert_eq!(file_name("a/b", Direction::Transmit), "a_b_out.pcap");
    }

    #[test]
    fn the_bytes_are_those_of_the_format() {
        let mut output = Vec::new();
        let mut writer = Writer::new(&mut output).unwrap();
        writer.record(5_000_000_007, &[0xab; 3]).unwrap();
        drop(writer);
        let expected = [
            &[0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0][..],
            &[5, 0, 0, 0, 7, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 0xab, 0xab, 0xab],
        ];
        assert_eq!(output, expected.concat());
    }
}
