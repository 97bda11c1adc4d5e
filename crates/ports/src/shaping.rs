//! The effect of the kernel's traffic control on outgoing frames. AF_XDP bypasses it.

use std::io;

use crate::sys;

/// Kinds of queueing discipline that neither hold back, drop nor mark frames within the interface's capacity, and the
/// default without one.
const HARMLESS: [&str; 9] =
    ["noqueue", "noop", "pfifo_fast", "pfifo", "bfifo", "fq_codel", "fq", "mq", "clsact"];

/// Only for frames that arrive.
const INGRESS: &str = "ingress";

/// Parents in `tcmsg`: where `clsact` has the filters of frames that leave (TC_H_CLSACT, TC_H_MIN_EGRESS).
const EGRESS: u32 = 0xffff_fff3;

/// Bytes of `nlmsghdr` and `tcmsg`.
const HEADER: usize = 16;
const TCMSG: usize = 20;

const TCA_KIND: u16 = 1;

/// The discipline that shapes, drops or marks outgoing frames, for the log; `None` without such a discipline.
///
/// # Errors
/// The kernel does not answer.
pub(crate) fn shaping(interface: i32) -> io::Result<Option<String>> {
    let disciplines: Vec<String> = sys::dump(&request(libc::RTM_GETQDISC, 0, 0))?
        .iter()
        .filter_map(|message| described(message, libc::RTM_NEWQDISC, interface))
        .collect();
    let shapes = |kind: &&String| *kind != INGRESS && !HARMLESS.contains(&kind.as_str());
    if let Some(kind) = disciplines.iter().find(shapes) {
        return Ok(Some(format!("the queueing discipline {kind}")));
    }
    if !disciplines.iter().any(|kind| kind == "clsact") {
        return Ok(None);
    }
    let filters = sys::dump(&request(libc::RTM_GETTFILTER, interface, EGRESS))?;
    let any = filters.iter().find_map(|message| described(message, libc::RTM_NEWTFILTER, interface));
    Ok(any.map(|kind| format!("a filter of tc ({kind})")))
}

/// Asks for all objects of a kind; those of one interface and parent, where the kernel cares.
fn request(kind: u16, interface: i32, parent: u32) -> Vec<u8> {
    let mut bytes = vec![0; HEADER + TCMSG];
    bytes[..4].copy_from_slice(&((HEADER + TCMSG) as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
    bytes[6..8].copy_from_slice(&((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
    bytes[HEADER + 4..HEADER + 8].copy_from_slice(&interface.to_ne_bytes());
    bytes[HEADER + 12..HEADER + 16].copy_from_slice(&parent.to_ne_bytes());
    bytes
}

/// The kind of the discipline or filter that a message of the kernel is about, if it is one of the interface.
fn described(message: &[u8], of: u16, interface: i32) -> Option<String> {
    let half = |at: usize| Some(u16::from_ne_bytes(message.get(at..at + 2)?.try_into().ok()?));
    let index = i32::from_ne_bytes(message.get(HEADER + 4..HEADER + 8)?.try_into().ok()?);
    if half(4)? != of || index != interface {
        return None;
    }
    let mut at = HEADER + TCMSG;
    loop {
        let length = usize::from(half(at)?);
        let value = message.get(at + 4..at + length)?;
        if half(at + 2)? == TCA_KIND {
            let name = value.split(|byte| *byte == 0).next().unwrap_or_default();
            return Some(String::from_utf8_lossy(name).into_owned());
        }
        at += length.next_multiple_of(4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's message about a discipline: another attribute, then its kind.
    fn message(of: u16, interface: i32, kind: &str) -> Vec<u8> {
        let mut bytes = request(of, interface, u32::MAX);
        bytes.extend_from_slice(&[5, 0, 12, 0, 1, 0, 0, 0]);
        bytes.extend_from_slice(&(kind.len() as u16 + 5).to_ne_bytes());
        bytes.extend_from_slice(&TCA_KIND.to_ne_bytes());
        bytes.extend_from_slice(kind.as_bytes());
        bytes.push(0);
        bytes
    }

    #[test]
    fn kinds_are_read() {
        let tbf = message(libc::RTM_NEWQDISC, 7, "tbf");
        assert_eq!(described(&tbf, libc::RTM_NEWQDISC, 7).as_deref(), Some("tbf"));
        assert_eq!(described(&tbf, libc::RTM_NEWQDISC, 8), None);
        assert_eq!(described(&tbf, libc::RTM_NEWTFILTER, 7), None);
        for end in 0..tbf.len() - 1 {
            assert_eq!(described(&tbf[..end], libc::RTM_NEWQDISC, 7), None);
        }
    }
}
