//! A port whose wire is made of capture files.

use std::fs::File;
use std::io::BufReader;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use super::{ReadError, Reader, Writer, file_name};
use crate::{Counters, Direction, DropReason, Frame, FramePool, Port, PortError};

/// Frames delivered in one call at most.
const BATCH: usize = 64;

/// When a replayed frame arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As fast as frames are received.
    Immediate,
    /// With the gaps of the capture, counted from the first call of [`receive`](Port::receive).
    Recorded,
}

/// Replays the frames of one capture and records transmitted frames in another.
#[derive(Debug)]
pub struct PcapPort {
    name: String,
    path: PathBuf,
    /// `None` at the end.
    input: Option<Reader<BufReader<File>>>,
    /// Read ahead: its time in the capture, and the frame.
    next: Option<(u64, Frame)>,
    /// An error to report once the frames before it are delivered.
    error: Option<ReadError>,
    output: Option<Writer<File>>,
    pace: Pace,
    /// The caller's time of the first call, and the first frame's time in the capture.
    start: Option<(u64, u64)>,
    counters: Counters,
}

impl PcapPort {
    /// A port `name` that replays the file `input`, and writes to the file `output`, if given.
    ///
    /// # Errors
    /// [`PortError::Replay`] or [`PortError::Capture`] when a file cannot be opened or is not a capture.
    pub fn open(name: &str, input: &Path, output: Option<&Path>, pace: Pace) -> Result<Self, PortError> {
        let failed = |source| PortError::Replay { path: input.into(), source };
        let reader = Reader::open(input).map_err(failed)?;
        let output = output
            .map(|path| {
                Writer::create(path).map_err(|source| PortError::Capture { path: path.into(), source })
            })
            .transpose()?;
        let mut port = Self {
            name: name.into(),
            path: input.into(),
            input: Some(reader),
            next: None,
            error: None,
            output,
            pace,
            start: None,
            counters: Counters::default(),
        };
        port.read_ahead(Vec::new());
        Ok(port)
    }

    /// A port `name` that replays `<name>_in.pcap` and writes `<name>_out.pcap` in `directory`.
    ///
    /// # Errors
    /// As for [`PcapPort::open`].
    pub fn in_directory(name: &str, directory: &Path, pace: Pace) -> Result<Self, PortError> {
        let [input, output] =
            [Direction::Receive, Direction::Transmit].map(|way| directory.join(file_name(name, way)));
        Self::open(name, &input, Some(&output), pace)
    }

    /// Whether everything was delivered.
    pub fn finished(&self) -> bool {
        self.next.is_none() && self.error.is_none()
    }

    fn read_ahead(&mut self, mut frame: Frame) {
        while let Some(reader) = &mut self.input {
            match reader.read(&mut frame) {
                Ok(Some(record)) if frame.len() < record.original_bytes as usize => {
                    self.counters.add_drops(DropReason::RxTruncated, 1);
                }
                Ok(Some(_)) if frame.len() < 14 => self.counters.add_drops(DropReason::RxTooShort, 1),
                Ok(Some(record)) => {
                    self.next = Some((record.time_ns, frame));
                    return;
                }
                Ok(None) => self.input = None,
                Err(error) => {
                    self.error = Some(error);
                    self.input = None;
                }
            }
        }
    }

    /// When a frame of the capture is due, in the caller's time. Captures may go back in time a little.
    fn due_at(&self, captured_ns: u64) -> u64 {
        match (self.pace, self.start) {
            (Pace::Recorded, Some((start_ns, first_ns))) => {
                start_ns.saturating_add(captured_ns.saturating_sub(first_ns))
            }
            _ => 0,
        }
    }
}

impl Port for PcapPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn raw_fd(&self) -> Option<RawFd> {
        None
    }

    fn due(&self) -> Option<u64> {
        match &self.next {
            Some((captured_ns, _)) => Some(self.due_at(*captured_ns)),
            None => self.error.is_some().then_some(0),
        }
    }

    fn receive(
        &mut self,
        now_ns: u64,
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        let before = frames.len();
        while frames.len() - before < BATCH
            && let Some((captured_ns, frame)) = self.next.take()
        {
            self.start.get_or_insert((now_ns, captured_ns));
            if self.due_at(captured_ns) > now_ns {
                self.next = Some((captured_ns, frame));
                break;
            }
            frames.push(frame);
            self.read_ahead(pool.take());
        }
        self.counters.add_received(&frames[before..]);
        match self.error.take_if(|_| self.next.is_none()) {
            Some(source) => Err(PortError::Replay { path: self.path.clone(), source }),
            None => Ok(frames.len() - before),
        }
    }

    fn transmit(
        &mut self,
        now_ns: u64,
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        let sent = frames.len();
        self.counters.add_sent(frames);
        let mut result = Ok(());
        if let Some(output) = &mut self.output {
            result = frames.iter().try_for_each(|frame| output.record(now_ns, frame));
            result = result.and_then(|()| output.flush());
        }
        pool.give_all(frames.drain(..));
        match (result, &self.output) {
            (Err(source), Some(output)) => {
                let path = output.path().into();
                self.output = None;
                Err(PortError::Capture { path, source })
            }
            _ => Ok(sent),
        }
    }

    fn discard(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>) {
        self.counters.add_drops(DropReason::TxQueueFull, frames.len() as u64);
        pool.give_all(frames.drain(..));
    }

    fn counters(&mut self) -> Counters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traced::tests::Scratch;

    fn write(path: &Path, frames: &[(u64, usize)]) {
        let mut writer = Writer::create(path).unwrap();
        for &(time_ns, length) in frames {
            writer.record(time_ns, &vec![length as u8; length]).unwrap();
        }
    }

    fn receive(port: &mut PcapPort, now_ns: u64) -> Vec<usize> {
        let mut frames = Vec::new();
        port.receive(now_ns, &mut FramePool::default(), &mut frames).unwrap();
        frames.iter().map(Vec::len).collect()
    }

    #[test]
    fn frames_come_with_the_gaps_of_the_capture() {
        let scratch = Scratch::new("gaps");
        write(&scratch.0.join("p_in.pcap"), &[(1000, 60), (1500, 13), (1500, 61), (1400, 62), (3000, 63)]);
        let mut port = PcapPort::in_directory("p", &scratch.0, Pace::Recorded).unwrap();
        assert_eq!(port.due(), Some(0));
        assert_eq!(receive(&mut port, 50_000), [60]);
        assert_eq!(port.due(), Some(50_500));
        assert_eq!(receive(&mut port, 50_499), [0usize; 0]);
        assert_eq!(receive(&mut port, 50_500), [61, 62]);
        assert!(!port.finished());
        assert_eq!(receive(&mut port, 90_000), [63]);
        assert!(port.finished());
        assert_eq!(port.due(), None);
        assert_eq!(port.counters().dropped(DropReason::RxTooShort), 1);
        assert_eq!(port.counters().rx_packets, 4);
    }

    #[test]
    fn everything_comes_at_once_and_what_is_sent_is_recorded() {
        let scratch = Scratch::new("at-once");
        write(&scratch.0.join("p_in.pcap"), &(0..100).map(|i| (i * 1_000_000_000, 60)).collect::<Vec<_>>());
        let mut port = PcapPort::in_directory("p", &scratch.0, Pace::Immediate).unwrap();
        let (mut pool, mut frames) = (FramePool::default(), Vec::new());
        assert_eq!(port.receive(7, &mut pool, &mut frames).unwrap(), 64);
        assert_eq!(port.receive(7, &mut pool, &mut frames).unwrap(), 36);
        assert_eq!(port.transmit(9, &mut pool, &mut frames).unwrap(), 100);
        let mut reader = Reader::open(&scratch.0.join("p_out.pcap")).unwrap();
        let (mut frame, mut count) = (Vec::new(), 0);
        while let Some(record) = reader.read(&mut frame).unwrap() {
            assert_eq!((record.time_ns, &frame[..]), (9, &[60; 60][..]));
            count += 1;
        }
        assert_eq!(count, 100);
    }

    #[test]
    fn a_damaged_file_gives_its_frames_and_then_one_error() {
        let scratch = Scratch::new("damaged");
        let path = scratch.0.join("p_in.pcap");
        write(&path, &[(0, 60), (0, 61)]);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
        let mut port = PcapPort::open("p", &path, None, Pace::Immediate).unwrap();
        let (mut pool, mut frames) = (FramePool::default(), Vec::new());
        let error = port.receive(0, &mut pool, &mut frames).unwrap_err().to_string();
        assert!(error.contains("p_in.pcap") && error.contains("byte 100"), "{error}");
        assert_eq!(frames.len(), 1);
        assert_eq!(port.receive(0, &mut pool, &mut frames).unwrap(), 0);
        assert!(port.finished());
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = PcapPort::open("p", Path::new("/nowhere/x.pcap"), None, Pace::Immediate).unwrap_err();
        assert!(error.to_string().contains("/nowhere/x.pcap"), "{error}");
    }
}
