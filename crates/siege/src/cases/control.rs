//! Clients of the control plane: P4Runtime, the API, metrics.

use super::{BASE, NOTHING, ms};
use crate::case::{Act, Case, Http, Limits, P4Runtime, Server};
use std::time::Duration;

/// No packet waits more than 1 ms for the control plane.
const READS: Limits = Limits { added_p999: ms(1), control_gap: None, memory_mb: Some(128.0), ..NOTHING };

/// Another client is in charge for a while; then the rack's controller takes over again.
const SEIZED: Limits = Limits { recovery: ms(3000), memory_mb: Some(128.0), ..NOTHING };

pub const CASES: &[Case] = &[
    Case {
        name: "p4runtime-reads",
        about: "A client that is not primary repeatedly reads everything over P4Runtime.",
        steps: &[(0, Act::P4Runtime(P4Runtime::ReadAll, 1))],
        lasts: Duration::from_secs(6),
        limits: READS,
        ..BASE
    },
    Case {
        name: "p4runtime-reads-four",
        about: "Four clients read everything at the same time.",
        steps: &[(0, Act::P4Runtime(P4Runtime::ReadAll, 4))],
        lasts: Duration::from_secs(6),
        limits: Limits { memory_mb: Some(256.0), ..READS },
        ..BASE
    },
    Case {
        name: "p4runtime-seized",
        about: "A client holds the highest possible election id for 3 s.",
        quick: true,
        steps: &[(0, Act::P4Runtime(P4Runtime::Seize, 1))],
        limits: SEIZED,
        ..BASE
    },
    Case {
        name: "p4runtime-seized-of-two",
        about: "The same with two controllers.",
        controllers: 2,
        steps: &[(0, Act::P4Runtime(P4Runtime::Seize, 1))],
        limits: SEIZED,
        ..BASE
    },
    Case {
        name: "p4runtime-pushes",
        about: "A client with the highest election id sends the switch its own program repeatedly (RECONCILE).",
        steps: &[(0, Act::P4Runtime(P4Runtime::Push, 1))],
        lasts: Duration::from_secs(6),
        limits: Limits { added_p999: ms(1), control_gap: None, ..SEIZED },
        ..BASE
    },
    Case {
        name: "p4runtime-bad-updates",
        about: "A client with the highest election id sends batches of 100 invalid updates.",
        steps: &[(0, Act::P4Runtime(P4Runtime::BadUpdates, 1))],
        lasts: Duration::from_secs(5),
        limits: Limits { added_p999: ms(1), control_gap: None, ..SEIZED },
        ..BASE
    },
    Case {
        name: "p4runtime-sessions",
        about: "A client opens and closes sessions with low election ids.",
        steps: &[(0, Act::P4Runtime(P4Runtime::Sessions, 1))],
        ..BASE
    },
    Case {
        name: "p4runtime-silent",
        about: "64 connections to the P4Runtime server send nothing.",
        steps: &[(0, Act::Http(Server::P4Runtime, Http::Silent))],
        lasts: Duration::from_secs(4),
        ..BASE
    },
    Case {
        name: "p4runtime-malformed",
        about: "Clients send the P4Runtime server random bytes and invalid HTTP.",
        steps: &[(0, Act::Http(Server::P4Runtime, Http::Malformed))],
        ..BASE
    },
    Case {
        name: "api-silent",
        about: "64 connections to the API send nothing.",
        quick: true,
        steps: &[(0, Act::Http(Server::Api, Http::Silent))],
        lasts: Duration::from_secs(5),
        ..BASE
    },
    Case {
        name: "api-slow",
        about: "64 connections send the API a request at a byte a second.",
        steps: &[(0, Act::Http(Server::Api, Http::Slow))],
        lasts: Duration::from_secs(5),
        ..BASE
    },
    Case {
        name: "api-busy",
        about: "Four clients send requests to the API as fast as they are answered.",
        steps: &[(0, Act::Http(Server::Api, Http::Busy))],
        ..BASE
    },
    Case {
        name: "api-malformed",
        about: "Clients send the API random bytes, endless headers and bodies that never arrive.",
        steps: &[(0, Act::Http(Server::Api, Http::Malformed))],
        ..BASE
    },
    Case {
        name: "metrics-silent",
        about: "64 connections to the switch's metrics send nothing.",
        steps: &[(0, Act::Http(Server::Metrics, Http::Silent))],
        lasts: Duration::from_secs(5),
        ..BASE
    },
    Case {
        name: "metrics-slow",
        about: "64 connections send the switch's metrics a request at a byte a second.",
        steps: &[(0, Act::Http(Server::Metrics, Http::Slow))],
        lasts: Duration::from_secs(5),
        ..BASE
    },
    Case {
        name: "metrics-busy",
        about: "Four clients request the switch's metrics as fast as they are answered.",
        steps: &[(0, Act::Http(Server::Metrics, Http::Busy))],
        lasts: Duration::from_secs(5),
        limits: READS,
        ..BASE
    },
    Case {
        name: "metrics-malformed",
        about: "Clients send the switch's metrics random bytes, endless headers and bodies that never arrive.",
        steps: &[(0, Act::Http(Server::Metrics, Http::Malformed))],
        ..BASE
    },
];
