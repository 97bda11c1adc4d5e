//! Questions to a DNS server and its answers as bytes (RFC 1035; SRV: RFC 2782; AAAA: RFC 3596), as far as members need them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Longest name in a message, in bytes.
const MAX_NAME: usize = 255;
/// Longest label.
const MAX_LABEL: usize = 63;
/// Names that lead to each other in one answer.
const MAX_ALIASES: usize = 8;
/// Length of the head.
const HEAD: usize = 12;

const CLASS_IN: u16 = 1;
const CNAME: u16 = 5;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
    /// Hosts of a service.
    Srv,
}

impl Type {
    fn code(self) -> u16 {
        match self {
            Type::A => 1,
            Type::Aaaa => 28,
            Type::Srv => 33,
        }
    }
}

/// A record of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// An address.
    Address(IpAddr),
    /// A host of a service.
    Host {
        /// The lowest is preferred.
        priority: u16,
        /// Share among those with the same priority.
        weight: u16,
        /// Its name.
        name: String,
    },
}

/// The records of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// In the order of the message. None: there is nothing of this name and type.
    pub records: Vec<Record>,
    /// Seconds for which they hold; `None` without records.
    pub ttl_s: Option<u32>,
}

/// Why a message is not an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// It ends early, or its names are not names.
    Malformed,
    /// It answers another question.
    Foreign,
    /// It did not fit: to be asked again over TCP.
    Truncated,
    /// The server refuses, or cannot answer: its code.
    Code(u8),
    /// Names lead to each other without end.
    Aliases,
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MessageError::Malformed => f.write_str("the answer is damaged"),
            MessageError::Foreign => f.write_str("the answer is to another question"),
            MessageError::Truncated => f.write_str("the answer is incomplete"),
            MessageError::Code(2) => f.write_str("the server failed (SERVFAIL)"),
            MessageError::Code(5) => f.write_str("the server refuses to answer (REFUSED)"),
            MessageError::Code(code) => write!(f, "the server answers with code {code}"),
            MessageError::Aliases => f.write_str("the answer has a chain of aliases that is too long"),
        }
    }
}

impl std::error::Error for MessageError {}

/// Whether a text can be asked for: labels of letters, digits, `-` and `_`, with dots between them.
pub fn is_name(text: &str) -> bool {
    let good = |label: &str| {
        let known = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
        !label.is_empty() && label.len() <= MAX_LABEL && label.bytes().all(known)
    };
    text.len() <= MAX_NAME - 2 && text.split('.').all(good)
}

/// The question for records of a name, for which [`is_name`] holds.
pub fn question(id: u16, name: &str, of: Type) -> Vec<u8> {
    // One question; the server may ask others.
    let mut out = [&id.to_be_bytes()[..], &[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]].concat();
    for label in name.split('.') {
        out.push(label.len().min(MAX_LABEL) as u8);
        out.extend(label.bytes().take(MAX_LABEL));
    }
    out.push(0);
    out.extend(of.code().to_be_bytes());
    out.extend(CLASS_IN.to_be_bytes());
    out
}

/// Reads a message from its start to its end.
struct Reader<'a> {
    message: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], MessageError> {
        let end = self.at.checked_add(N).ok_or(MessageError::Malformed)?;
        let found = self.message.get(self.at..end).and_then(|b| b.try_into().ok());
        self.at = end;
        found.ok_or(MessageError::Malformed)
    }

    fn u16(&mut self) -> Result<u16, MessageError> {
        self.bytes().map(u16::from_be_bytes)
    }

    /// A name in lower case. A pointer must lead backwards, so that names end.
    fn name(&mut self) -> Result<String, MessageError> {
        let (mut out, mut at, mut behind) = (String::new(), self.at, None);
        loop {
            let length = usize::from(*self.message.get(at).ok_or(MessageError::Malformed)?);
            if length == 0 {
                self.at = behind.unwrap_or(at + 1);
                return Ok(out);
            }
            if length >> 6 == 3 {
                let low = usize::from(*self.message.get(at + 1).ok_or(MessageError::Malformed)?);
                let to = (length & 0x3f) << 8 | low;
                behind = behind.or(Some(at + 2));
                if to >= at {
                    return Err(MessageError::Malformed);
                }
                at = to;
                continue;
            }
            let label = self.message.get(at + 1..at + 1 + length).ok_or(MessageError::Malformed)?;
            let label = std::str::from_utf8(label).map_err(|_| MessageError::Malformed)?;
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(&label.to_ascii_lowercase());
            if length > MAX_LABEL || out.len() > MAX_NAME || !is_name(&out) {
                return Err(MessageError::Malformed);
            }
            at += 1 + length;
        }
    }
}

/// A record of any type, with the place of its data.
struct Raw {
    owner: String,
    of: u16,
    ttl_s: u32,
    data: std::ops::Range<usize>,
}

fn raw(r: &mut Reader<'_>) -> Result<Raw, MessageError> {
    let owner = r.name()?;
    let (of, class) = (r.u16()?, r.u16()?);
    let ttl_s = u32::from_be_bytes(r.bytes()?);
    let length = usize::from(r.u16()?);
    let data = r.at..r.at + length;
    if data.end > r.message.len() {
        return Err(MessageError::Malformed);
    }
    r.at = data.end;
    // RFC 2181, section 8: with the highest bit it counts as 0.
    let ttl_s = if ttl_s >> 31 == 1 { 0 } else { ttl_s };
    Ok(Raw { owner, of: if class == CLASS_IN { of } else { 0 }, ttl_s, data })
}

fn record(message: &[u8], raw: &Raw) -> Result<Record, MessageError> {
    let mut r = Reader { message, at: raw.data.start };
    let record = match raw.of {
        1 => Record::Address(Ipv4Addr::from(r.bytes::<4>()?).into()),
        28 => Record::Address(Ipv6Addr::from(r.bytes::<16>()?).into()),
        _ => {
            let (priority, weight, _port) = (r.u16()?, r.u16()?, r.u16()?);
            Record::Host { priority, weight, name: r.name()? }
        }
    };
    if r.at == raw.data.end { Ok(record) } else { Err(MessageError::Malformed) }
}

/// The records in the answer to [`question`] with these arguments.
///
/// # Errors
/// It is not such an answer.
pub fn answer(message: &[u8], id: u16, name: &str, of: Type) -> Result<Answer, MessageError> {
    let mut r = Reader { message, at: 0 };
    let (of_id, flags, questions, answers) = (r.u16()?, r.u16()?, r.u16()?, r.u16()?);
    r.at = HEAD;
    let name = name.to_ascii_lowercase();
    if of_id != id || flags >> 15 == 0 || flags >> 11 & 15 != 0 || questions != 1 {
        return Err(MessageError::Foreign);
    }
    if (r.name()?, r.u16()?, r.u16()?) != (name.clone(), of.code(), CLASS_IN) {
        return Err(MessageError::Foreign);
    }
    // NXDOMAIN: there is nothing of this name.
    match flags & 15 {
        0 | 3 => {}
        code => return Err(MessageError::Code(code as u8)),
    }
    if flags >> 9 & 1 == 1 {
        return Err(MessageError::Truncated);
    }
    let all: Vec<Raw> = (0..answers).map(|_| raw(&mut r)).collect::<Result<_, _>>()?;
    let (mut owner, mut ttl_s) = (name, None::<u32>);
    for _ in 0..=MAX_ALIASES {
        let own = || all.iter().filter(|r| r.owner == owner);
        let found: Vec<&Raw> = own().filter(|r| r.of == of.code()).collect();
        let alias = own().find(|r| r.of == CNAME);
        let shortest = found.iter().copied().chain(alias).map(|r| r.ttl_s).chain(ttl_s).min();
        ttl_s = shortest;
        match alias {
            Some(alias) if found.is_empty() => {
                owner = Reader { message, at: alias.data.start }.name()?;
            }
            _ => {
                let records = found.iter().map(|r| record(message, r)).collect::<Result<_, _>>()?;
                return Ok(Answer { records, ttl_s });
            }
        }
    }
    Err(MessageError::Aliases)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "_web._tcp.rack.example";

    fn name(text: &str) -> Vec<u8> {
        let mut out: Vec<u8> =
            text.split('.').flat_map(|l| [&[l.len() as u8], l.as_bytes()].concat()).collect();
        out.push(0);
        out
    }

    /// An answer to a question, with records: owner as bytes, type, time to live, data.
    fn message(question: &[u8], flags: u16, records: &[(Vec<u8>, u16, u32, Vec<u8>)]) -> Vec<u8> {
        let mut out = question.to_vec();
        out[2..4].copy_from_slice(&(0x8180 | flags).to_be_bytes());
        out[6..8].copy_from_slice(&(records.len() as u16).to_be_bytes());
        for (owner, of, ttl_s, data) in records {
            out.extend(owner);
            out.extend(
                [&of.to_be_bytes()[..], &[0, 1], &ttl_s.to_be_bytes(), &(data.len() as u16).to_be_bytes()]
                    .concat(),
            );
            out.extend(data);
        }
        out
    }

    fn srv(priority: u16, weight: u16, host: &[u8]) -> Vec<u8> {
        [&priority.to_be_bytes()[..], &weight.to_be_bytes(), &80u16.to_be_bytes(), host].concat()
    }

    /// Points to the name in the question.
    fn same() -> Vec<u8> {
        vec![0xc0, HEAD as u8]
    }

    #[test]
    fn hosts_and_addresses() {
        let q = question(7, NAME, Type::Srv);
        assert_eq!(&q[..HEAD], [0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        // The second name ends with that of the question, which is at 22.
        let short = [&b"\x02B2"[..], &[0xc0, HEAD as u8 + 10]].concat();
        let m = message(
            &q,
            0,
            &[(same(), 33, 60, srv(1, 5, &name("b1.rack.example"))), (same(), 33, 30, srv(2, 0, &short))],
        );
        let host = |priority, weight, name: &str| Record::Host { priority, weight, name: name.into() };
        let right = Answer {
            records: vec![host(1, 5, "b1.rack.example"), host(2, 0, "b2.rack.example")],
            ttl_s: Some(30),
        };
        assert_eq!(answer(&m, 7, NAME, Type::Srv), Ok(right));
        // However it is cut off or damaged, it is not another answer without an error, nor a panic.
        for end in 0..m.len() {
            assert!(answer(&m[..end], 7, NAME, Type::Srv).is_err(), "{end}");
        }
        for (at, bit) in (0..m.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut damaged = m.clone();
            damaged[at] ^= 1 << bit;
            let _ = answer(&damaged, 7, NAME, Type::Srv);
        }
        let q = question(1, "b1.example", Type::A);
        let m = message(
            &q,
            0,
            &[
                (name("b1.example"), CNAME, 5, name("c.example")),
                (name("other.example"), 1, 1, vec![10, 0, 0, 9]),
                (name("C.example"), 1, 60, vec![10, 0, 0, 1]),
                (name("c.example"), 28, 1, vec![0; 16]),
                (name("c.example"), 1, 1 << 31, vec![10, 0, 0, 2]),
            ],
        );
        let address = |last| Record::Address(Ipv4Addr::new(10, 0, 0, last).into());
        assert_eq!(
            answer(&m, 1, "B1.example", Type::A),
            Ok(Answer { records: vec![address(1), address(2)], ttl_s: Some(0) })
        );
        let q = question(1, "b1.example", Type::Aaaa);
        let m = message(&q, 0, &[(same(), 28, 9, Ipv6Addr::LOCALHOST.octets().to_vec())]);
        let right = Answer { records: vec![Record::Address(Ipv6Addr::LOCALHOST.into())], ttl_s: Some(9) };
        assert_eq!(answer(&m, 1, "b1.example", Type::Aaaa), Ok(right));
    }

    #[test]
    fn what_is_not_an_answer() {
        let q = question(7, NAME, Type::A);
        let none = Ok(Answer { records: vec![], ttl_s: None });
        let of = |m: &[u8]| answer(m, 7, NAME, Type::A);
        assert_eq!(of(&message(&q, 0, &[])), none);
        assert_eq!(of(&message(&q, 3, &[])), none, "the name does not exist");
        assert_eq!(of(&q), Err(MessageError::Foreign), "a question");
        assert_eq!(of(&message(&question(8, NAME, Type::A), 0, &[])), Err(MessageError::Foreign));
        assert_eq!(of(&message(&question(7, "a.example", Type::A), 0, &[])), Err(MessageError::Foreign));
        assert_eq!(of(&message(&question(7, NAME, Type::Aaaa), 0, &[])), Err(MessageError::Foreign));
        assert_eq!(of(&message(&q, 2, &[])), Err(MessageError::Code(2)));
        assert_eq!(of(&message(&q, 0x200, &[])), Err(MessageError::Truncated));
        assert_eq!(of(&message(&q, 0, &[(same(), 1, 9, vec![10, 0, 0])])), Err(MessageError::Malformed));
        assert_eq!(
            of(&message(&q, 0, &[(same(), 1, 9, vec![10, 0, 0, 1, 1])])),
            Err(MessageError::Malformed)
        );
        // A pointer to itself, a name that never ends, one that is not text, and aliases in a circle.
        let here = q.len() as u8;
        assert_eq!(
            of(&message(&q, 0, &[(vec![0xc0, here], 1, 9, vec![10, 0, 0, 1])])),
            Err(MessageError::Malformed)
        );
        // Forwards, to a name that ends.
        let data = here + 12;
        assert_eq!(
            of(&message(&q, 0, &[(vec![0xc0, data], 1, 9, vec![0, 0, 0, 1])])),
            Err(MessageError::Malformed)
        );
        let long = name(&["a"; 200].join("."));
        assert_eq!(of(&message(&q, 0, &[(long, 1, 9, vec![10, 0, 0, 1])])), Err(MessageError::Malformed));
        let odd = name("a\u{1b}b.example");
        assert_eq!(of(&message(&q, 0, &[(same(), CNAME, 9, odd)])), Err(MessageError::Malformed));
        assert_eq!(of(&message(&q, 0, &[(same(), CNAME, 9, same())])), Err(MessageError::Aliases));
    }

    #[test]
    fn names() {
        for good in ["a", "rack.example", "_web._tcp.rack-1.example"] {
            assert!(is_name(good), "{good}");
        }
        let (long, longer) = ("a".repeat(64), ["abc"; 64].join("."));
        for bad in ["", ".", "a.", ".a", "a..b", "a b", "\u{e4}.example", "a\0", &long, &longer] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
