//! Half-written, hostile or missing files, and a full disk.

use super::{BASE, CUTS, NOTHING, ms};
use crate::case::{Act, Case, Check, Content, File, Limits};
use std::time::Duration;

/// With replaced keys, the agents' reports must be accepted again soon.
const KEYS: Limits = Limits { recovery: ms(2000), ..NOTHING };

pub const CASES: &[Case] = &[
    Case {
        name: "rack-file-half-written",
        about: "Three times rack.toml lacks its services for 0.4 s, as if an editor wrote it in two parts; a policy was set by API before.",
        quick: true,
        steps: &[
            (0, Act::Policy),
            (500, Act::Write(File::Rack, Content::Before(CUTS[0]))),
            (900, Act::Write(File::Rack, Content::Right)),
            (1600, Act::Write(File::Rack, Content::Before(CUTS[0]))),
            (2000, Act::Write(File::Rack, Content::Right)),
            (2700, Act::Write(File::Rack, Content::Before(CUTS[0]))),
            (3100, Act::Write(File::Rack, Content::Right)),
        ],
        lasts: Duration::from_millis(3500),
        checks: &[Check::PolicyKept],
        ..BASE
    },
    Case {
        name: "rack-file-truncated",
        about: "For 4 s rack.toml ends before its second server; a policy was set by API before.",
        steps: &[(0, Act::Policy), (500, Act::Write(File::Rack, Content::Before(CUTS[1])))],
        lasts: Duration::from_millis(4500),
        checks: &[Check::PolicyKept],
        ..BASE
    },
    Case {
        name: "rack-file-without-services",
        about: "For 4 s rack.toml has no services.",
        steps: &[(0, Act::Write(File::Rack, Content::Before(CUTS[0])))],
        lasts: Duration::from_secs(4),
        ..BASE
    },
    Case {
        name: "rack-file-empty",
        about: "For 3 s rack.toml is empty.",
        steps: &[(0, Act::Write(File::Rack, Content::Bytes(b"")))],
        ..BASE
    },
    Case {
        name: "rack-file-binary",
        about: "For 3 s rack.toml has bytes that are not text.",
        steps: &[(0, Act::Write(File::Rack, Content::Bytes(&[0xff, 0, 0xfe, b'[', 0x80])))],
        ..BASE
    },
    Case {
        name: "rack-file-huge",
        about: "For 3 s rack.toml is one line of 16 MB.",
        steps: &[(0, Act::Write(File::Rack, Content::Long(16_000_000)))],
        ..BASE
    },
    Case {
        name: "rack-file-hostile",
        about: "For 3 s rack.toml has numbers out of range and a VIP that is a gateway.",
        steps: &[
            (0, Act::Write(File::Rack, Content::Replaced("port = 8000", "port = 99999999999999999999"))),
            (1000, Act::Write(File::Rack, Content::Replaced("10.0.100.1", "10.0.0.1"))),
            (2000, Act::Write(File::Rack, Content::And("\n[[service]]\nname = \"inference\"\n"))),
        ],
        ..BASE
    },
    Case {
        name: "rack-file-removed",
        about: "rack.toml is missing for 3 s.",
        steps: &[(0, Act::Unlink(File::Rack))],
        ..BASE
    },
    Case {
        name: "rack-file-changing",
        about: "rack.toml changes its policy five times, each long enough to be read.",
        steps: &[
            (0, Act::Write(File::Rack, Content::Replaced("\"wrr\"", "\"ecmp\""))),
            (1200, Act::Write(File::Rack, Content::Right)),
            (2400, Act::Write(File::Rack, Content::Replaced("\"wrr\"", "\"power-of-two\""))),
            (3600, Act::Write(File::Rack, Content::Right)),
            (4800, Act::Write(File::Rack, Content::Replaced("\"wrr\"", "\"ecmp\""))),
        ],
        lasts: Duration::from_secs(6),
        limits: Limits { recovery: ms(3000), ..NOTHING },
        ..BASE
    },
    Case {
        name: "keys-half-written",
        about: "For 3 s the file of the agents' keys is truncated.",
        steps: &[(0, Act::Write(File::Keys, Content::Part(60)))],
        limits: KEYS,
        ..BASE
    },
    Case {
        name: "keys-removed",
        about: "The file of the agents' keys is missing for 3 s.",
        steps: &[(0, Act::Unlink(File::Keys))],
        limits: KEYS,
        ..BASE
    },
    Case {
        name: "tokens-empty",
        about: "For 3 s the file of the API's tokens is empty.",
        steps: &[(0, Act::Write(File::Tokens, Content::Bytes(b"")))],
        ..BASE
    },
    Case {
        name: "disk-full",
        about: "The disk is full while a policy is set by API, and has space again 3 s later.",
        steps: &[(0, Act::FillDisk), (500, Act::Policy)],
        lasts: Duration::from_millis(3500),
        checks: &[Check::PolicyKept, Check::StateSaved],
        ..BASE
    },
];
