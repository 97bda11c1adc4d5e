//! Load reports in separate Ethernet frames: `frame_report_t` of the data plane, right behind the Ethernet header, after
//! P4Hauler's. For devices without an IP stack, and where the shortest way counts.
//!
//! | bytes | field |
//! |---|---|
//! | 1 | version: 17 without digest, 18 with one |
//! | 1 | flags: 1, it can take no new connections; 2, the queue is all that is in flight; 4, it failed its health check; 8, eight is to be
//! added to the slot |
//! | 2 | device: server (13 bits) and slot (3 bits) |
//! | 1, 1, 1, 1 | compute, memory, network (per cent), queue (requests) |
//! | 1 | number of the key, from 1 |
//! | 7 | sequence: the sender's microseconds since 1970, each number used once, rising |
//! | 8 | digest of the bytes before it, or zero |
//!
//! A [`Notice`] goes the other way, from the controller to an agent, in a frame of the same type: version 19, load and all flags but 8 zero, number of
//! the key and sequence of the newest accepted report, and its digest with this key.

use crate::report::{Load, ReportError, Stamp};
use crate::trust::ReportKey;
use crate::types::DeviceNumber;

/// Ethertype of these frames: the first that is free for local use (IEEE 802).
pub const ETHERTYPE: u16 = 0x88b5;
/// Version of those without digest.
pub const PLAIN: u8 = 17;
/// Version of those with one.
pub const SIGNED: u8 = 18;
/// Version of a [`Notice`].
pub const NOTICE: u8 = 19;
/// Bytes behind the Ethernet header.
pub const LEN: usize = 24;
/// The flag of devices in slots above 7.
const HIGH: u8 = 8;

fn put_device(out: &mut [u8; LEN], device: DeviceNumber) {
    let (low, high) = device.parts();
    out[1] |= if high { HIGH } else { 0 };
    out[2..4].copy_from_slice(&low.to_be_bytes());
}

/// The content of such a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameReport {
    /// The device.
    pub device: DeviceNumber,
    /// It takes no new connections.
    pub busy: bool,
    /// It failed its health check.
    pub failed: bool,
    /// Its load.
    pub load: Load,
    /// Number of the key (0 without digest) and sequence.
    pub stamp: Stamp,
}

impl FrameReport {
    /// The bytes after the Ethernet header. Without a key they have no digest.
    pub fn encode(&self, key: Option<&ReportKey>) -> [u8; LEN] {
        let mut out = [0; LEN];
        out[0] = if key.is_some() { SIGNED } else { PLAIN };
        out[1] = u8::from(self.busy) | u8::from(self.failed) << 2;
        put_device(&mut out, self.device);
        out[4..8].copy_from_slice(&self.load.word().to_be_bytes());
        out[8..16].copy_from_slice(&self.stamp.bytes());
        if let Some(key) = key {
            let digest = key.digest(&out[..16]);
            out[16..].copy_from_slice(&digest);
        }
        out
    }

    /// Reads the bytes after an Ethernet header as strictly as the data plane does, apart from whether it is new. Padding is not
    /// looked at. `key` is the key of a number.
    ///
    /// # Errors
    /// It is not such a report, or not signed with a known key.
    pub fn decode(
        bytes: &[u8],
        key: impl FnOnce(u8) -> Option<ReportKey>,
    ) -> Result<FrameReport, ReportError> {
        let Some((b, _)) = bytes.split_first_chunk::<LEN>() else { return Err(ReportError::Truncated) };
        let [version, flags, d0, d1, l0, l1, l2, l3, stamp @ .., _, _, _, _, _, _, _, _] = *b;
        let stamp = Stamp::from_bytes(stamp);
        match version {
            PLAIN => {}
            SIGNED => {
                let known = Some(stamp.number).filter(|n| *n > 0).and_then(key);
                let key = known.ok_or(ReportError::Key(stamp.number))?;
                if key.digest(&b[..16]) != b[16..] {
                    return Err(ReportError::Digest);
                }
            }
            other => return Err(ReportError::Version(other)),
        }
        Ok(FrameReport {
            device: DeviceNumber::from_parts(u16::from_be_bytes([d0, d1]), flags & HIGH != 0),
            busy: flags & 1 != 0,
            failed: flags & 4 != 0,
            load: Load::from_word(u32::from_be_bytes([l0, l1, l2, l3])),
            stamp,
        })
    }
}

/// Sends an agent whose reports are refused as replayed the number to exceed. Perhaps its clock was ahead before, and was set
/// right. Replaying a notice gains nothing: numbers accepted earlier are lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The device of the agent.
    pub device: DeviceNumber,
    /// Key and sequence of the newest accepted report.
    pub newest: Stamp,
}

impl Notice {
    /// The part after the Ethernet header.
    pub fn encode(&self, key: &ReportKey) -> [u8; LEN] {
        let mut out = [0; LEN];
        out[0] = NOTICE;
        put_device(&mut out, self.device);
        out[8..16].copy_from_slice(&self.newest.bytes());
        let digest = key.digest(&out[..16]);
        out[16..].copy_from_slice(&digest);
        out
    }

    /// Reads what follows an Ethernet header; None unless it is a notice with the digest of this key.
    pub fn decode(bytes: &[u8], (number, key): (u8, &ReportKey)) -> Option<Notice> {
        let b = bytes.first_chunk::<LEN>()?;
        let newest = Stamp::from_bytes(*b.get(8..)?.first_chunk()?);
        let genuine = b[0] == NOTICE && newest.number == number && key.digest(&b[..16]) == b[16..];
        genuine.then_some(Notice {
            device: DeviceNumber::from_parts(u16::from_be_bytes([b[2], b[3]]), b[1] & HIGH != 0),
            newest,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices() {
        let newest = Stamp { number: 7, sequence: 0x0012_3456_789a_bcde };
        let notice = Notice { device: DeviceNumber::new(5, 11), newest };
        let key = ReportKey::new([7; 8]);
        let bytes = notice.encode(&key);
        assert_eq!(Notice::decode(&[&bytes[..], &[0; 22]].concat(), (7, &key)), Some(notice));
        assert_eq!(Notice::decode(&bytes, (6, &key)), None);
        assert_eq!(Notice::decode(&bytes, (7, &ReportKey::new([6; 8]))), None);
        assert_eq!(Notice::decode(&bytes[..LEN - 1], (7, &key)), None);
        for bit in 0..8 * LEN {
            let mut other = bytes;
            other[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Notice::decode(&other, (7, &key)), None, "bit {bit}");
        }
        // No report, and no report passes for one.
        assert_eq!(FrameReport::decode(&bytes, |_| Some(key)), Err(ReportError::Version(NOTICE)));
    }

    fn key(n: u8) -> Option<ReportKey> {
        (n == 7).then(|| ReportKey::new([n; 8]))
    }

    #[test]
    fn there_and_back() {
        for bits in [0, 1, 4, 5, 8, 9, 12, 13u8] {
            let report = FrameReport {
                device: DeviceNumber::new(5, 3 | bits & 8),
                busy: bits & 1 != 0,
                failed: bits & 4 != 0,
                load: Load { compute: 1, memory: 2, network: 3, queue: 255 },
                stamp: Stamp { number: 7, sequence: 0x0012_3456_789a_bcde },
            };
            let signed = report.encode(key(7).as_ref());
            assert_eq!(signed[..8], [18, bits, 0, 43, 1, 2, 3, 255]);
            assert_eq!(FrameReport::decode(&[&signed[..], &[0; 22]].concat(), key), Ok(report));
            for bit in 0..8 * LEN {
                let mut other = signed;
                other[bit / 8] ^= 1 << (bit % 8);
                // 18 differs from 17 in several bits.
                assert!(FrameReport::decode(&other, key).is_err(), "bit {bit}");
            }
            let plain = report.encode(None);
            assert_eq!((plain[0], FrameReport::decode(&plain, |_| None)), (17, Ok(report)));
            for len in 0..LEN {
                assert_eq!(FrameReport::decode(&plain[..len], key), Err(ReportError::Truncated));
            }
        }
    }
}
