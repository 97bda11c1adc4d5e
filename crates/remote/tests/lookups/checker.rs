//! Compares packets with the changes of the table. Shares no code with the tables.

use pointsman_testkit::packet::Packet;

/// One state of a flow's entry: its version, or none.
#[derive(Clone, Copy, Debug)]
pub struct State {
    pub version: Option<u16>,
    /// When the change was asked for, and acknowledged.
    pub asked: u64,
    pub acked: Option<u64>,
}

/// A packet that was sent.
struct Sent {
    flow: u16,
    at: u64,
    padding: usize,
    seen: bool,
}

/// Violations, and packets by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub sent: u64,
    pub found: u64,
    pub absent: u64,
    /// Violations: another flow's entry, or a version that cannot be; no entry although there was one; changed bytes; twice.
    pub wrong: u64,
    pub missing: u64,
    pub altered: u64,
    pub doubled: u64,
}

impl Verdict {
    pub fn violations(&self) -> u64 {
        self.wrong + self.missing + self.altered + self.doubled
    }
}

#[derive(Default)]
pub struct Checker {
    pub flows: Vec<Vec<State>>,
    packets: Vec<Sent>,
    pub verdict: Verdict,
}

// Flows share addresses and ports, so that halves of two keys are a third one.
fn source(flow: u16) -> String {
    format!("10.0.0.{}:{}", flow / 8, 4000 + flow % 8)
}

/// The key of a flow: source, destination, ports, protocol.
pub fn key(flow: u16) -> Vec<u8> {
    let [high, low] = (4000 + flow % 8).to_be_bytes();
    vec![10, 0, 0, (flow / 8) as u8, 198, 51, 100, 1, high, low, 0, 80, 0, 0, 0, 17]
}

/// The flow of a key.
pub fn flow(key: &[u8]) -> u16 {
    u16::from(key[3]) * 8 + u16::from_be_bytes([key[8], key[9]]) - 4000
}

/// A version of a flow's value: another source, which shows both.
pub fn value(flow: u16, version: u16) -> Vec<u8> {
    [&[0, 0][..], &version.to_be_bytes(), &[10, 200], &flow.to_be_bytes()].concat()
}

fn packet(from: &str, number: u64, padding: usize) -> Packet {
    let payload = [&number.to_be_bytes()[..], &vec![number as u8; padding]].concat();
    Packet::udp(from, "198.51.100.1:80", payload)
}

impl Checker {
    /// The next packet of a flow.
    pub fn send(&mut self, now: u64, flow: u16, padding: usize) -> Vec<u8> {
        let number = self.packets.len() as u64;
        self.packets.push(Sent { flow, at: now, padding, seen: false });
        self.verdict.sent += 1;
        packet(&source(flow), number, padding).bytes()
    }

    /// A packet left, with an entry or as one that has none.
    pub fn receive(&mut self, now: u64, found: bool, frame: &[u8]) {
        let Some(number) = frame.get(42..50).and_then(|b| b.try_into().ok()).map(u64::from_be_bytes) else {
            self.verdict.altered += 1;
            return;
        };
        let Some(sent) = self.packets.get_mut(number as usize) else {
            self.verdict.altered += 1;
            return;
        };
        self.verdict.doubled += u64::from(sent.seen);
        sent.seen = true;
        let (mut from, mut to) = (source(sent.flow), None);
        let mut shown = None;
        if found {
            shown = Some(u16::from_be_bytes([frame[34], frame[35]]));
            from = format!("{}.{}.{}.{}:{}", frame[26], frame[27], frame[28], frame[29], shown.unwrap_or(0));
            to = Some("02:00:00:00:00:22");
        }
        let mut expected = packet(&from, number, sent.padding).bytes();
        if to.is_some() {
            expected[..6].copy_from_slice(&[2, 0, 0, 0, 0, 0x22]);
        }
        self.verdict.altered += u64::from(expected != frame);
        let own =
            !found || frame[26..30] == [10, 200, sent.flow.to_be_bytes()[0], sent.flow.to_be_bytes()[1]];
        let states = &self.flows[usize::from(sent.flow)];
        let possible = states.iter().enumerate().any(|(i, s)| {
            let over = states.get(i + 1).and_then(|next| next.acked);
            s.version == shown && s.asked <= now && over.is_none_or(|acked| acked >= sent.at)
        });
        match (own && possible, found) {
            (true, true) => self.verdict.found += 1,
            (true, false) => self.verdict.absent += 1,
            (false, true) => self.verdict.wrong += 1,
            (false, false) => self.verdict.missing += 1,
        }
    }
}

#[test]
fn violations_are_counted() {
    let state = |version, asked, acked| State { version, asked, acked };
    let states = vec![
        state(None, 0, Some(0)),
        state(Some(1), 10, Some(20)),
        state(Some(2), 30, Some(40)),
        state(None, 50, None),
    ];
    let run = |sent: u64, now: u64, shown: Option<u16>, change: &dyn Fn(&mut Vec<u8>)| {
        let mut checker = Checker { flows: vec![Vec::new(), states.clone()], ..Checker::default() };
        let mut frame = checker.send(sent, 1, 3);
        if let Some(version) = shown {
            frame = packet(&format!("10.200.0.1:{version}"), 0, 3).bytes();
            frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 0x22]);
        }
        change(&mut frame);
        checker.receive(now, shown.is_some(), &frame);
        let v = checker.verdict;
        (v.wrong, v.missing, v.altered)
    };
    let good = [
        (5, 6, None),
        (5, 15, Some(1)),
        (15, 16, None),
        (20, 25, None),
        (21, 25, Some(1)),
        (39, 45, Some(1)),
        (41, 60, None),
        (60, 61, Some(2)),
    ];
    for (sent, now, shown) in good {
        assert_eq!(run(sent, now, shown, &|_| {}), (0, 0, 0), "{sent} {now} {shown:?}");
    }
    for (sent, now, shown, expected) in [
        (5, 9, Some(1), (1, 0, 0)),
        (21, 25, None, (0, 1, 0)),
        (41, 45, Some(1), (1, 0, 0)),
        (41, 45, None, (0, 1, 0)),
    ] {
        assert_eq!(run(sent, now, shown, &|_| {}), expected, "{sent} {now} {shown:?}");
    }
    assert_eq!(run(60, 61, None, &|f| f[20] ^= 1), (0, 0, 1));
    assert_eq!(run(60, 61, Some(2), &|f| f.truncate(52)), (0, 0, 1));
    // Another flow's entry.
    assert_eq!(run(60, 61, Some(2), &|f| f[29] ^= 2).0, 1);
}
