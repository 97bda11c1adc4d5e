//! Why tests fail.

use super::{PROGRAM, explained, explained_in};

const ROUTES: &str = "add I.route h.ip.to:1 send(port:3)\nadd I.route h.ip.to:2 drop()\nadd I.route h.ip.to:3 flood(group:9)\n\
                      add I.route h.ip.to:7 send(port:7)\n";

/// The statements after [`ROUTES`], which are lines 1 to 4, have these failures and explanations.
#[track_caller]
fn check(stf: &str, want: &[&str]) {
    let got = explained(&format!("{ROUTES}{stf}"));
    assert_eq!(got.lines().collect::<Vec<_>>(), want, "\n{got}");
}

/// Look-ups of [`ROUTES`].
const SENT: &str = "  table I.route (hit: h.ip.to = 0x01) -> I.send";
const FLOODED: &str = "  table I.route (hit: h.ip.to = 0x03) -> I.flood";

#[test]
fn a_packet_that_was_dropped() {
    check(
        "packet 0 1111080045aa00\nexpect 2 1111080045aa00\n",
        &[
            "no packet on port 2",
            "the packet of line 5: dropped at main.p4:23 by mark_to_drop in action I.drop of table I.route (miss: h.ip.to = 0xaa)",
            "  table I.route (miss: h.ip.to = 0xaa) -> I.drop",
        ],
    );
    check(
        "packet 0 11110800450200\nexpect 2\n",
        &[
            "no packet on port 2",
            "the packet of line 5: dropped at main.p4:23 by mark_to_drop in action I.drop of table I.route (entry 0x02)",
            "  table I.route (hit: h.ip.to = 0x02) -> I.drop",
        ],
    );
    // In egress.
    check(
        "packet 0 11110800450700\nexpect 7\n",
        &[
            "no packet on port 7",
            "the packet of line 5: dropped at main.p4:52 by mark_to_drop",
            "  table I.route (hit: h.ip.to = 0x07) -> I.send",
        ],
    );
}

#[test]
fn a_packet_that_left_elsewhere() {
    let left = "the packet of line 5: left by port 3: egress_spec = 0x003, set at main.p4:26 in action I.send of table I.route (entry 0x01)";
    check("packet 0 11110800450100\nexpect 2\n", &["no packet on port 2", left, SENT]);
    let unset = "the packet of line 5: left by port 0: no statement set egress_spec, which is then 0";
    check("packet 4 11110900\nexpect 2\n", &["no packet on port 2", unset]);
    // Ports 0 and 3 are named by statements, so their packets are unexpected.
    let want = [
        "an unexpected packet on port 0: 11110900",
        &unset.replace("the packet of line 5", "it comes from the packet of line 6"),
        "an unexpected packet on port 3: 111108004401ff",
        &left.replace("the packet of line 5", "it comes from the packet of line 5"),
        SENT,
    ];
    check("packet 0 11110800450100\npacket 3 11110900\n", &want);
}

#[test]
fn a_parser_that_rejects() {
    check(
        "packet 9 ffff080045\nexpect 6\n",
        &[
            "no packet on port 6",
            "the packet of line 5: left by port 0: no statement set egress_spec, which is then 0",
            "  the parser rejected it with PacketTooShort in the state at main.p4:16",
        ],
    );
}

#[test]
fn multicast() {
    check(
        "packet 0 11110800450300\nexpect 2\n",
        &[
            "no packet on port 2",
            "the packet of line 5: dropped: its multicast group does not exist: group 0x0009, set at main.p4:29 in action I.flood of table I.route (entry 0x03)",
            FLOODED,
        ],
    );
    let by = "multicast group 9, set at main.p4:29 in action I.flood of table I.route (entry 0x03)";
    check(
        "mc_mgrp_create 9\nmc_node_create 1 3 2\nmc_node_associate 9 0\npacket 0 11110800450300\nexpect 1\nno_packet\n",
        &[
            "no packet on port 1",
            &format!("the packet of line 8: left by port 2: {by}"),
            FLOODED,
            &format!("  as a replica: left by port 3: {by}"),
            "2 packets left, none expected",
            &format!("it comes from the packet of line 8, as a replica: left by port 3: {by}"),
            &format!("it comes from the packet of line 8: left by port 2: {by}"),
            FLOODED,
        ],
    );
}

#[test]
fn clones() {
    check(
        "mirroring_add 5 6\npacket 0 ffff0800450100\nexpect 2\nexpect 6 ffff08004501$\n",
        &[
            "no packet on port 2",
            "the packet of line 6: left by port 3: egress_spec = 0x003, set at main.p4:26 in action I.send of table I.route (entry 0x01)",
            SENT,
            "  as a clone from ingress for session 5: left by port 6",
            "port 6: too long:",
            "it comes from the packet of line 6, as a clone from ingress for session 5",
            "  headers: h.eth, h.ip; then 0 bytes of payload",
        ],
    );
    check(
        "packet 0 ffff0800450100\nexpect 6\n",
        &[
            "no packet on port 6",
            "the packet of line 5: left by port 3: egress_spec = 0x003, set at main.p4:26 in action I.send of table I.route (entry 0x01)",
            "  not cloned: session 5 does not exist or has no ports",
            SENT,
        ],
    );
}

#[test]
fn fields_that_differ() {
    check(
        "packet 0 dead08004501000102\nexpect 3 dead0801*5*2000104\n",
        &[
            "port 3: differs at digit 0 (byte 0):",
            "it comes from the packet of line 5",
            "  h.eth.dst is 0x0000, not 0xdead, set at main.p4:43",
            "  h.eth.kind is 0x0800, not 0x0801, as extracted at main.p4:9",
            "  h.ip.ttl is 0x4, not 0x5, set at main.p4:27 in action I.send of table I.route (entry 0x01)",
            "  h.ip.to is 0x01, not 0x*2, as extracted at main.p4:16",
            "  h.ip.sum is 0xff, not 0x00, set at main.p4:57 by update_checksum",
            "  payload byte 1 (byte 8 of the packet) is 02, not 04",
        ],
    );
}

/// The last write decides: a route that a later statement overrides is not the cause.
#[test]
fn the_last_write_counts() {
    let text = PROGRAM.replace(
        "        if (h.eth.dst == 0xdead) {",
        "        if (h.eth.dst == 1) { std.egress_spec = 8; }\n        if (h.eth.dst == 0xdead) {",
    );
    let got = explained_in(&text, &format!("{ROUTES}packet 0 00010800450100\nexpect 3 0001\n"));
    let line = text.lines().position(|l| l.contains("egress_spec = 8")).expect("a line") + 1;
    assert!(got.contains(&format!("left by port 8: egress_spec = 0x008, set at main.p4:{line}\n")), "{got}");
}

/// Priorities are those of the statements, which count from 0, and those that the program gives to its own entries.
#[test]
fn priorities_as_written() {
    let ternary = PROGRAM.replace("h.ip.to : exact", "h.ip.to : ternary");
    let routes = "add I.route 0 h.ip.to:1 drop()\nadd I.route 9 h.ip.to:2 drop()\n";
    let entry = |text: &str, to: &str| {
        let got = explained_in(text, &format!("{routes}packet 0 11110800450{to}00\nexpect 3\n"));
        let (_, told) = got.split_once("table I.route (").unwrap_or_else(|| panic!("{got}"));
        told.split_once(')').map(|(entry, _)| entry.to_string())
    };
    assert_eq!(entry(&ternary, "1").as_deref(), Some("entry 0x01&&&0xff, priority 0"));
    assert_eq!(entry(&ternary, "2").as_deref(), Some("entry 0x02&&&0xff, priority 9"));
    let own = "default_action = drop();\n        entries = { priority = 5: 7: drop(); }";
    let own = ternary.replace("default_action = drop();", own);
    assert_eq!(entry(&own, "2").as_deref(), Some("entry 0x02&&&0xff, priority 9"));
    assert_eq!(entry(&own, "7").as_deref(), Some("entry 0x07&&&0xff, priority 5"));
}

/// Of two packets the one is blamed that did not cause what another expectation found.
#[test]
fn the_packet_that_is_to_blame() {
    let got =
        explained(&format!("{ROUTES}packet 0 1111080045ff00\npacket 0 11110800450100\nexpect 3\nexpect 3\n"));
    assert!(got.contains("the packet of line 5: dropped") && !got.contains("line 6"), "{got}");
    // One whose packet was not expected is not to blame, either.
    let got = explained(&format!(
        "{ROUTES}packet 0 1111080045ff00\nno_packet\npacket 0 11110800450200\nexpect 3\n"
    ));
    assert!(got.contains("the packet of line 7: dropped") && !got.contains("line 5"), "{got}");
    // Expectations may be in front of the packet.
    let got = explained(&format!("{ROUTES}expect 3\npacket 0 1111080045ff00\n"));
    assert!(got.contains("the packet of line 6: dropped"), "{got}");
    assert_eq!(explained("expect 3\n"), "no packet on port 3\nthe test sends no packet");
}
