//! The part of pcapng that holds frames (draft-ietf-opsawg-pcapng, section 4).

use std::io::Read;

use super::read::{Order, ReadError, Record, Source};
use super::{ETHERNET, MAX_FRAME_BYTES};

/// A section header block's type, the same in both byte orders.
pub(super) const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

const INTERFACE: u32 = 1;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// Options of an interface description block.
const OPTION_END: u16 = 0;
const OPTION_RESOLUTION: u16 = 9;
const OPTION_OFFSET: u16 = 14;

/// Blocks that hold no frame (name resolution, secrets) may be longer than a frame; this much is not plausible.
const MAX_BLOCK_BYTES: usize = 16 << 20;

#[derive(Debug)]
struct Interface {
    link_type: u32,
    snap_bytes: usize,
    /// Units of time in a second.
    units: u128,
    offset_seconds: i64,
}

/// The state of reading a section.
#[derive(Debug)]
pub(super) struct Blocks {
    order: Order,
    interfaces: Vec<Interface>,
    body: Vec<u8>,
}

impl Blocks {
    /// Reads the first section header, whose type has been read already.
    pub fn start<R: Read>(source: &mut Source<R>) -> Result<Self, ReadError> {
        let mut blocks = Self { order: Order::Little, interfaces: Vec::new(), body: Vec::new() };
        blocks.section(source, 0)?;
        Ok(blocks)
    }

    /// A section header: it alone says the byte order, after its length.
    fn section<R: Read>(&mut self, source: &mut Source<R>, offset: u64) -> Result<(), ReadError> {
        let mut head = [0; 8];
        source.fill(&mut head, offset)?;
        let [l0, l1, l2, l3, magic @ ..] = head;
        self.order = match magic {
            [0x4d, 0x3c, 0x2b, 0x1a] => Order::Little,
            [0x1a, 0x2b, 0x3c, 0x4d] => Order::Big,
            _ => return Err(ReadError::Malformed { offset, what: "a section without byte-order magic" }),
        };
        self.interfaces.clear();
        self.read_body(source, offset, self.order.u32([l0, l1, l2, l3]), 12)
    }

    /// Reads the rest of a block of `total` bytes of which `read` are read.
    fn read_body<R: Read>(
        &mut self,
        source: &mut Source<R>,
        offset: u64,
        total: u32,
        read: usize,
    ) -> Result<(), ReadError> {
        let total = total as usize;
        if total < read + 4 || total > MAX_BLOCK_BYTES || !total.is_multiple_of(4) {
            return Err(ReadError::Malformed { offset, what: "a block of impossible length" });
        }
        self.body.resize(total - read, 0);
        source.fill(&mut self.body, offset)?;
        let again = self.order.word(&self.body, self.body.len() - 4) as usize;
        if again != total {
            return Err(ReadError::Malformed { offset, what: "a block whose two lengths differ" });
        }
        self.body.truncate(total - read - 4);
        Ok(())
    }

    /// Reads blocks up to the next frame.
    pub fn read<R: Read>(
        &mut self,
        source: &mut Source<R>,
        frame: &mut Vec<u8>,
    ) -> Result<Option<Record>, ReadError> {
        loop {
            let offset = source.offset;
            let mut kind = [0; 4];
            if !source.fill(&mut kind, offset)? {
                return Ok(None);
            }
            if kind == SECTION_HEADER {
                self.section(source, offset)?;
                continue;
            }
            let mut total = [0; 4];
            source.fill(&mut total, offset)?;
            self.read_body(source, offset, self.order.u32(total), 8)?;
            let record = match self.order.u32(kind) {
                INTERFACE => {
                    let interface = self.interface(offset)?;
                    self.interfaces.push(interface);
                    continue;
                }
                ENHANCED_PACKET => self.enhanced(frame),
                SIMPLE_PACKET => self.simple(frame),
                _ => continue,
            };
            return match record {
                Ok(record) => Ok(Some(record)),
                Err(Wrong::Packet(what)) => Err(ReadError::Malformed { offset, what }),
                Err(Wrong::LinkType(link_type)) => Err(ReadError::NotEthernet { link_type }),
            };
        }
    }

    fn interface(&self, offset: u64) -> Result<Interface, ReadError> {
        let (order, body) = (self.order, &self.body);
        let mut interface = Interface {
            link_type: u32::from(order.half(body, 0)),
            snap_bytes: order.word(body, 4) as usize,
            units: 1_000_000,
            offset_seconds: 0,
        };
        let mut at = 8;
        while at + 4 <= body.len() {
            let (code, length) = (order.half(body, at), usize::from(order.half(body, at + 2)));
            let Some(value) = body.get(at + 4..at + 4 + length) else {
                return Err(ReadError::Malformed { offset, what: "an option longer than its block" });
            };
            match (code, value) {
                (OPTION_END, _) => break,
                // 10^-n, or 2^-n with the highest bit set.
                (OPTION_RESOLUTION, &[n]) => {
                    let units = if n < 0x80 {
                        10u128.checked_pow(u32::from(n))
                    } else {
                        1u128.checked_shl(u32::from(n & 0x7f))
                    };
                    let what = "an impossible time resolution";
                    interface.units = units.ok_or(ReadError::Malformed { offset, what })?;
                }
                (OPTION_OFFSET, value) if length == 8 => {
                    let halves = [order.word(value, 0), order.word(value, 4)].map(u64::from);
                    let [low, high] = if order == Order::Little { halves } else { [halves[1], halves[0]] };
                    interface.offset_seconds = (high << 32 | low) as i64;
                }
                _ => {}
            }
            at += 4 + length.next_multiple_of(4);
        }
        Ok(interface)
    }

    fn ethernet(&self, index: u32) -> Result<&Interface, Wrong> {
        let interface = usize::try_from(index).ok().and_then(|index| self.interfaces.get(index));
        let interface = interface.ok_or(Wrong::Packet("a frame of an interface that was not described"))?;
        if interface.link_type == ETHERNET {
            Ok(interface)
        } else {
            Err(Wrong::LinkType(interface.link_type))
        }
    }

    fn enhanced(&self, frame: &mut Vec<u8>) -> Result<Record, Wrong> {
        let [index, high, low, kept, original_bytes] =
            [0, 4, 8, 12, 16].map(|at| self.order.word(&self.body, at));
        let interface = self.ethernet(index)?;
        self.copy(20, kept as usize, frame)?;
        let units = u128::from(high) << 32 | u128::from(low);
        let whole = (units / interface.units * 1_000_000_000) as i128;
        // The rest is less than a second; with very fine units its last digits are below a nanosecond anyway.
        let (rest, per_second) = (units % interface.units, interface.units);
        let fraction = rest
            .checked_mul(1_000_000_000)
            .map_or_else(|| rest / (per_second / 1_000_000_000), |rest| rest / per_second);
        let time = whole + fraction as i128 + i128::from(interface.offset_seconds) * 1_000_000_000;
        let time_ns = u64::try_from(time.max(0)).unwrap_or(u64::MAX);
        Ok(Record { time_ns, original_bytes })
    }

    /// A packet of the first interface, without a time.
    fn simple(&self, frame: &mut Vec<u8>) -> Result<Record, Wrong> {
        let interface = self.ethernet(0)?;
        let original_bytes = self.order.word(&self.body, 0);
        let snap = if interface.snap_bytes == 0 { usize::MAX } else { interface.snap_bytes };
        self.copy(4, snap.min(original_bytes as usize), frame)?;
        Ok(Record { time_ns: 0, original_bytes })
    }

    fn copy(&self, at: usize, length: usize, frame: &mut Vec<u8>) -> Result<(), Wrong> {
        if length > MAX_FRAME_BYTES {
            return Err(Wrong::Packet("a frame of more than 262144 bytes"));
        }
        let bytes = self.body.get(at..at + length).ok_or(Wrong::Packet("a frame longer than its block"))?;
        frame.extend_from_slice(bytes);
        Ok(())
    }
}

enum Wrong {
    Packet(&'static str),
    LinkType(u32),
}

#[cfg(test)]
mod tests {
    use super::super::read::tests::read_all;
    use super::*;

    fn words(order: Order, words: &[u32]) -> Vec<u8> {
        let bytes = |word: &u32| if order == Order::Little { word.to_le_bytes() } else { word.to_be_bytes() };
        words.iter().flat_map(bytes).collect()
    }

    fn block(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
        let length = body.len().next_multiple_of(4);
        let total = length as u32 + 12;
        let mut bytes = words(order, &[kind, total]);
        bytes.extend_from_slice(body);
        bytes.resize(8 + length, 0);
        bytes.extend(words(order, &[total]));
        bytes
    }

    fn section(order: Order) -> Vec<u8> {
        block(order, 0x0a0d_0d0a, &words(order, &[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]))
    }

    /// An Ethernet interface with an option of one byte.
    fn interface(order: Order, link_type: u32, resolution: u8) -> Vec<u8> {
        let link = if order == Order::Little { link_type } else { link_type << 16 };
        let option = if order == Order::Little { 9 | 1 << 16 } else { 9 << 16 | 1 };
        let mut body = words(order, &[link, 100, option]);
        body.extend([resolution, 0, 0, 0]);
        block(order, INTERFACE, &body)
    }

    fn enhanced(order: Order, units: u64, frame: &[u8]) -> Vec<u8> {
        let length = frame.len() as u32;
        let mut body = words(order, &[0, (units >> 32) as u32, units as u32, length, length + 1]);
        body.extend_from_slice(frame);
        block(order, ENHANCED_PACKET, &body)
    }

    #[test]
    fn frames_of_all_sections_are_read() {
        for order in [Order::Little, Order::Big] {
            let simple = block(order, SIMPLE_PACKET, &[&words(order, &[7])[..], &[3; 7]].concat());
            let bytes = [
                section(order),
                interface(order, 1, 9),
                block(order, 5, &[1; 40]),
                enhanced(order, 1_700_000_000_000_000_005, &[1; 61]),
                section(order),
                interface(order, 1, 0x80 | 20),
                enhanced(order, (5 << 20) | (1 << 19), &[2; 20]),
                simple,
            ]
            .concat();
            let (records, error) = read_all(&bytes);
            assert!(error.is_none(), "{error:?}");
            let record = |time_ns, original_bytes| Record { time_ns, original_bytes };
            assert_eq!(
                records,
                [
                    (record(1_700_000_000_000_000_005, 62), vec![1; 61]),
                    (record(5_500_000_000, 21), vec![2; 20]),
                    (record(0, 7), vec![3; 7]),
                ]
            );
        }
    }

    fn check_error(parts: &[Vec<u8>], message: &str) {
        let error = read_all(&parts.concat()).1.map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(message), "'{error}' does not say '{message}'");
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        let order = Order::Little;
        check_error(&[words(order, &[0x0a0d_0d0a, 28, 0])], "a section without byte-order magic");
        check_error(&[section(order), words(order, &[6, 13])], "impossible length");
        check_error(&[section(order), words(order, &[6, 16, 0, 20])], "two lengths differ");
        check_error(&[section(order), enhanced(order, 0, b"")], "interface that was not described");
        check_error(&[section(order), interface(order, 101, 6), enhanced(order, 0, b"")], "link type 101");
        check_error(&[section(order), interface(order, 1, 99)], "an impossible time resolution");
        let long = block(order, ENHANCED_PACKET, &words(order, &[0, 0, 0, 50, 50]));
        check_error(&[section(order), interface(order, 1, 6), long], "a frame longer than its block");
        check_error(&[section(order), vec![6, 0, 0, 0, 32]], "in the middle of the record at byte 28");
    }

    #[test]
    fn damaged_files_do_no_harm() {
        let order = Order::Little;
        let good = [section(order), interface(order, 1, 6), enhanced(order, 5, &[1; 60])].concat();
        let mut state = 7u32;
        for _ in 0..20_000 {
            let mut bytes = good.clone();
            for _ in 0..2 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = (state >> 8) as usize % bytes.len();
                bytes[at] = (state >> 24) as u8;
            }
            let (records, _) = read_all(&bytes);
            assert!(records.len() <= 1);
        }
    }
}
