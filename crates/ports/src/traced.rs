//! Recording what passes through a port.

use std::fs::File;
use std::io;
use std::os::fd::RawFd;
use std::path::Path;

use crate::pcap::{Writer, append_record, file_name};
use crate::{Counters, Direction, Frame, FramePool, Port, PortError};

/// Any port, with its received frames recorded in `<name>_in.pcap` and its transmitted ones in `<name>_out.pcap`.
///
/// The files are complete after every batch, so that they can be read while the port works, and after a crash. Frames
/// are stamped with the caller's `now_ns`. If a file cannot be written, one call returns the error and the port
/// continues without that file.
#[derive(Debug)]
pub struct Traced<P> {
    inner: P,
    incoming: Option<Writer<File>>,
    outgoing: Option<Writer<File>>,
    /// Records of frames that may be sent, and where each ends.
    records: Vec<u8>,
    ends: Vec<usize>,
    /// A file that could not be written, not yet reported to the caller.
    trouble: Option<PortError>,
}

impl<P: Port> Traced<P> {
    /// Creates the two files in `directory`, emptying old ones.
    ///
    /// # Errors
    /// [`PortError::Capture`] naming the file.
    pub fn new(inner: P, directory: &Path) -> Result<Self, PortError> {
        let create = |direction| {
            let path = directory.join(file_name(inner.name(), direction));
            Writer::create(&path).map_err(|source| PortError::Capture { path, source })
        };
        let (incoming, outgoing) = (create(Direction::Receive)?, create(Direction::Transmit)?);
        Ok(Self {
            inner,
            incoming: Some(incoming),
            outgoing: Some(outgoing),
            records: Vec::new(),
            ends: Vec::new(),
            trouble: None,
        })
    }

    /// The result of the inner port; or, if that is good, the error of a file.
    fn tell(&mut self, result: Result<usize, PortError>) -> Result<usize, PortError> {
        let count = result?;
        self.trouble.take().map_or(Ok(count), Err)
    }

    /// The port inside.
    pub fn into_inner(self) -> P {
        self.inner
    }
}

/// Writes with `write`; if it fails, stops using the file and returns the reason.
fn write(
    file: &mut Option<Writer<File>>,
    write: impl FnOnce(&mut Writer<File>) -> io::Result<()>,
) -> Option<PortError> {
    let writer = file.as_mut()?;
    let source = write(writer).and_then(|()| writer.flush()).err()?;
    let path = writer.path().into();
    *file = None;
    Some(PortError::Capture { path, source })
}

impl<P: Port> Port for Traced<P> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn raw_fd(&self) -> Option<RawFd> {
        self.inner.raw_fd()
    }

    fn due(&self) -> Option<u64> {
        self.inner.due()
    }

    fn receive(
        &mut self,
        now_ns: u64,
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        let before = frames.len();
        let result = self.inner.receive(now_ns, pool, frames);
        let new = &frames[before..];
        if !new.is_empty() {
            let trouble =
                write(&mut self.incoming, |file| new.iter().try_for_each(|frame| file.record(now_ns, frame)));
            self.trouble = trouble.or(self.trouble.take());
        }
        self.tell(result)
    }

    fn transmit(
        &mut self,
        now_ns: u64,
        pool: &mut FramePool,
        frames: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        self.records.clear();
        self.ends.clear();
        if self.outgoing.is_some() {
            for frame in frames.iter() {
                append_record(&mut self.records, now_ns, frame);
                self.ends.push(self.records.len());
            }
        }
        let offered = frames.len();
        let result = self.inner.transmit(now_ns, pool, frames);
        // The frames that the port took, which it may have counted as dropped; the rest is offered again later.
        let taken = offered - frames.len();
        if let Some(&end) = taken.checked_sub(1).and_then(|last| self.ends.get(last)) {
            let records = &self.records[..end];
            let trouble = write(&mut self.outgoing, |file| file.record_all(records));
            self.trouble = trouble.or(self.trouble.take());
        }
        self.tell(result)
    }

    fn discard(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>) {
        self.inner.discard(pool, frames);
    }

    fn is_up(&self) -> bool {
        self.inner.is_up()
    }

    fn has_carrier(&mut self) -> bool {
        self.inner.has_carrier()
    }

    fn counters(&mut self) -> Counters {
        self.inner.counters()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::MemoryPort;
    use crate::pcap::Reader;

    /// A directory that is removed in the end.
    pub struct Scratch(pub PathBuf);

    impl Scratch {
        pub fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("pointsman-ports-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn check_file(path: &Path, expected: &[(u64, u8)]) {
        let mut reader = Reader::open(path).unwrap();
        let mut found = Vec::new();
        let mut frame = Vec::new();
        while let Some(record) = reader.read(&mut frame).unwrap() {
            found.push((record.time_ns, frame[0]));
        }
        assert_eq!(found, expected, "{}", path.display());
    }

    #[test]
    fn both_directions_are_recorded_at_once() {
        let scratch = Scratch::new("traced");
        let (left, mut right) = MemoryPort::pair("left", "right", 2).unwrap();
        let any: Box<dyn Port> = Box::new(left);
        let mut traced = Traced::new(any, &scratch.0).unwrap();
        let mut pool = FramePool::default();
        right.send(&[1; 60]);
        let mut frames = Vec::new();
        traced.receive(5, &mut pool, &mut frames).unwrap();
        traced.receive(6, &mut pool, &mut frames).unwrap();
        frames.extend([vec![2; 60], vec![3; 60]]);
        // The cable holds two; the third is recorded only when it is sent.
        assert_eq!(traced.transmit(7, &mut pool, &mut frames).unwrap(), 2);
        check_file(&scratch.0.join("left_in.pcap"), &[(5, 1)]);
        check_file(&scratch.0.join("left_out.pcap"), &[(7, 1), (7, 2)]);
        right.take();
        assert_eq!(traced.transmit(8, &mut pool, &mut frames).unwrap(), 1);
        check_file(&scratch.0.join("left_out.pcap"), &[(7, 1), (7, 2), (8, 3)]);
    }

    #[test]
    fn a_directory_that_is_missing_is_named() {
        let (left, _right) = MemoryPort::pair("left", "right", 2).unwrap();
        let error = Traced::new(left, Path::new("/nowhere")).unwrap_err().to_string();
        assert!(error.contains("/nowhere/left_in.pcap"), "{error}");
    }

    #[test]
    fn a_full_disk_ends_the_tracing_but_not_the_traffic() {
        let (left, mut right) = MemoryPort::pair("left", "right", 9).unwrap();
        let scratch = Scratch::new("full");
        let mut traced = Traced::new(left, &scratch.0).unwrap();
        // Takes no bytes at all, unlike a file that cannot even be created.
        let Ok(full) = File::options().write(true).open("/dev/full") else { return };
        let mut stuck = Writer::create(&scratch.0.join("stuck.pcap")).unwrap();
        stuck.replace_output(full);
        traced.outgoing = Some(stuck);
        let mut pool = FramePool::default();
        let error = traced.transmit(1, &mut pool, &mut vec![vec![1; 60]]).unwrap_err().to_string();
        assert!(error.contains("stuck.pcap"), "{error}");
        assert_eq!(traced.transmit(1, &mut pool, &mut vec![vec![2; 60]]).unwrap(), 1);
        assert_eq!(right.take().len(), 2);
    }
}
