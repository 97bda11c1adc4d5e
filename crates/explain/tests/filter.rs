//! Which packets a filter wants, and what is said about filters that cannot be read.

use pointsman_explain::filter::Filter;

/// Ethernet, VLAN 7, IPv4 10.0.0.1 to 10.0.1.2, TCP 40000 to 80.
fn tagged_tcp() -> Vec<u8> {
    let mut packet = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x81, 0, 0x20, 7, 8, 0];
    packet.extend([0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 1, 2]);
    packet.extend([0x9c, 0x40, 0, 80]);
    packet
}

/// fd00::1 to fd00::2, a header of options, UDP 53 to 5353.
fn udp6() -> Vec<u8> {
    let address = |last: u8| [&[0xfd][..], &[0; 14], &[last]].concat();
    let mut packet = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd];
    packet.extend([0x60, 0, 0, 0, 0, 16, 0, 64]);
    packet.extend(address(1));
    packet.extend(address(2));
    packet.extend([17, 0, 1, 4, 0, 0, 0, 0, 0, 53, 0x14, 0xe9]);
    packet
}

fn arp() -> Vec<u8> {
    let mut packet = vec![255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 8, 6];
    packet.extend([0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 9]);
    packet
}

#[test]
fn packets_that_are_wanted() {
    let check = |text: &str, want: [bool; 3]| {
        let filter = Filter::parse(text).unwrap_or_else(|e| panic!("{e}"));
        let got = [tagged_tcp(), udp6(), arp()].map(|packet| filter.wants(3, &packet));
        assert_eq!(got, want, "{text}");
    };
    check("all", [true; 3]);
    check("port=3", [true; 3]);
    check("port=4", [false; 3]);
    check("port!=4", [true; 3]);
    check("type=ipv4", [true, false, false]);
    check("type=0x86dd", [false, true, false]);
    check("type=arp dst=10.0.0.9", [false, false, true]);
    check("vlan=7", [true, false, false]);
    check("src=10.0.0.0/16", [true, false, true]);
    check("src=10.0.0.0/8,dst=10.0.1.0/24", [true, false, false]);
    check("src=0.0.0.0/0", [true, false, true]);
    check("src=::/0", [false, true, false]);
    check("host=fd00::2", [false, true, false]);
    check("host=fd00::3", [false; 3]);
    check("proto=tcp dport=80", [true, false, false]);
    check("proto=17 sport=50-60 dport=5353", [false, true, false]);
    check("dport=81-65535", [false, true, false]);
    check("dport!=80", [false, true, true]);
    check("smac=02:00:00:00:00:01", [true; 3]);
    check("dmac=02:00:00:00:00:02", [true, true, false]);
    check("bytes=18:45", [true, false, false]);
    check("bytes=60000:45", [false; 3]);
    // A packet that is cut matches as far as it is there.
    let filter = Filter::parse("dport=80").expect("a filter");
    let whole = tagged_tcp();
    assert!((0..whole.len()).all(|n| !filter.wants(0, &whole[..n])) && filter.wants(0, &whole));
    // A later fragment has no ports.
    let mut fragment = whole;
    fragment[25] = 1;
    assert!(!filter.wants(0, &fragment));
}

#[test]
fn limits_of_filters() {
    let filter = Filter::parse(" port=1,\tcount=3 rate=7 ").expect("a filter");
    assert_eq!((filter.count, filter.rate), (3, 7));
    let filter = Filter::parse("all").expect("a filter");
    assert_eq!((filter.count, filter.rate), (10, 100));
}

#[test]
fn filters_that_cannot_be_read() {
    let check = |text: &str, column: usize, part: &str| {
        let said = Filter::parse(text).expect_err(text).to_string();
        assert!(said.starts_with(&format!("filter, column {column}: ")) && said.contains(part), "{said}");
        let pointer = said.lines().last().expect("a line");
        assert_eq!(pointer.len(), 2 + column, "{said}");
    };
    check("", 1, "write `all`");
    check(" , ", 1, "write `all`");
    check("port=1 dts=10.0.0.1", 8, "unknown word `dts`; expected port, smac");
    check("port", 1, "`port` has no value");
    check("port=x", 6, "`x` is not a number from 0 to 4294967295");
    check("src=10.0.0", 5, "not an address or a network");
    check("src=10.0.0.1/33", 5, "/33 has more than 32 bits");
    check("proto=tpc", 7, "not one of icmp, tcp, udp");
    check("proto=256", 7, "from 0 to 255");
    check("sport=9-8", 7, "9 is above 8");
    check("smac=2:0", 6, "not a MAC address");
    check("bytes=14", 7, "not OFFSET:HEX");
    check("bytes=14:4", 7, "not OFFSET:HEX");
    check("count=0", 7, "from 1 to 10000");
    check("rate=1001", 6, "from 1 to 1000");
    check("count!=3", 1, "cannot be negated");
    check("\u{e4}=1 x=2", 1, "unknown word `\u{e4}`");
    check("port=1 \u{e4}=2", 8, "unknown word");
}

/// No text and no packet, however wrong, ends the switch.
#[test]
fn nonsense_is_survived() {
    let text = "port=3,src=10.0.0.0/8!=bytes0x:-..vlan type arp dport=5-9 \u{0}\u{fffd}";
    let chars: Vec<char> = text.chars().collect();
    let mut seed = 1u64;
    let mut draw = |n: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize % n
    };
    for _ in 0..20_000 {
        let text: String = (0..draw(30)).map(|_| chars[draw(chars.len())]).collect();
        match Filter::parse(&text) {
            Ok(filter) => {
                let packet: Vec<u8> = (0..draw(90)).map(|_| draw(256) as u8).collect();
                let _ = filter.wants(0, &packet);
            }
            Err(e) => assert!(e.to_string().contains("column")),
        }
    }
    let filter = Filter::parse("dport=1 host=::1 vlan=3").expect("a filter");
    for _ in 0..20_000 {
        let mut packet: Vec<u8> = (0..draw(90)).map(|_| draw(4) as u8 * 43).collect();
        if packet.len() > 14 {
            packet[12..14].copy_from_slice(&[[8, 0], [0x86, 0xdd], [0x81, 0]][draw(3)]);
        }
        let _ = filter.wants(1, &packet);
    }
}
