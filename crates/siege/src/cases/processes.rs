//! Processes that are killed, stopped or hung up, and links that are cut.

use super::{BASE, NOTHING, ms};
use crate::case::Signal::{Continue, Hangup, Kill, Stop};
use crate::case::{Act, Case, Limits, Moment, Who};
use crate::storm::Storm;
use std::time::Duration;

/// A switch that is killed: its connections are lost, and that is noticed at once.
const SWITCH_LOST: Limits = Limits {
    standing_lost: None,
    new_tcp_lost: None,
    new_udp_lost: None,
    violations: None,
    recovery: ms(2000),
    // Linux doubles its time-outs: what is sent when an outage of more than 1.4 s begins is sent again after 3 s.
    stuck: ms(4000),
    control_gap: None,
    ..NOTHING
};

/// Data passes; no controller is in charge for a while.
const CONTROLLER_LOST: Limits = Limits { recovery: ms(3000), control_gap: None, ..NOTHING };

/// A device fails: the others notice nothing, new connections avoid it soon.
const DEVICE_LOST: Limits =
    Limits { new_tcp_lost: None, new_udp_lost: None, stuck: None, recovery: ms(2000), ..NOTHING };

/// Nothing can pass while it lasts.
const ALL_LOST: Limits = Limits {
    standing_lost: None,
    new_tcp_lost: None,
    new_udp_lost: None,
    stuck: None,
    recovery: ms(3000),
    ..NOTHING
};

/// The longest time without a controller that makes changes.
const LEADERLESS: Duration = Duration::from_secs(2);

/// Controllers that share etcd: connections notice nothing.
const GROUP: Case = Case {
    controllers: 2,
    lasts: Duration::ZERO,
    limits: Limits { control_gap: None, memory_mb: Some(128.0), log_bytes: None, ..NOTHING },
    ..BASE
};

pub const CASES: &[Case] = &[
    Case {
        name: "switch-killed",
        about: "The switch gets SIGKILL and is started again after 0.2 s, without its state.",
        quick: true,
        steps: &[(0, Act::Signal(Who::Switch, Kill))],
        recovers_from: Moment::Begin,
        limits: SWITCH_LOST,
        ..BASE
    },
    Case {
        name: "switch-killed-twice",
        about: "The switch gets SIGKILL twice, 1.5 s apart.",
        steps: &[(0, Act::Signal(Who::Switch, Kill)), (1500, Act::Signal(Who::Switch, Kill))],
        lasts: Duration::from_millis(1600),
        recovers_from: Moment::End,
        limits: SWITCH_LOST,
        ..BASE
    },
    Case {
        name: "switch-hup",
        about: "The switch gets SIGHUP three times.",
        quick: true,
        steps: &[
            (0, Act::Signal(Who::Switch, Hangup)),
            (300, Act::Signal(Who::Switch, Hangup)),
            (600, Act::Signal(Who::Switch, Hangup)),
        ],
        lasts: Duration::from_millis(1500),
        ..BASE
    },
    Case {
        name: "switch-stopped",
        about: "The switch is stopped for 1 s (SIGSTOP).",
        steps: &[(0, Act::Signal(Who::Switch, Stop)), (1000, Act::Signal(Who::Switch, Continue))],
        lasts: Duration::from_millis(1000),
        limits: Limits { control_gap: None, ..ALL_LOST },
        ..BASE
    },
    Case {
        name: "controller-killed",
        about: "The only controller gets SIGKILL and is started again after 0.2 s.",
        quick: true,
        steps: &[(0, Act::Signal(Who::Primary, Kill))],
        recovers_from: Moment::Begin,
        limits: CONTROLLER_LOST,
        ..BASE
    },
    Case {
        name: "controller-gone",
        about: "The only controller is down for 4 s.",
        steps: &[(0, Act::Remove(Who::Primary))],
        lasts: Duration::from_secs(4),
        limits: CONTROLLER_LOST,
        ..BASE
    },
    Case {
        name: "controller-hup",
        about: "The controller gets SIGHUP three times.",
        steps: &[
            (0, Act::Signal(Who::Primary, Hangup)),
            (300, Act::Signal(Who::Primary, Hangup)),
            (600, Act::Signal(Who::Primary, Hangup)),
        ],
        ..BASE
    },
    Case {
        name: "controller-stopped",
        about: "The controller is stopped for 3 s (SIGSTOP).",
        steps: &[(0, Act::Signal(Who::Primary, Stop))],
        limits: CONTROLLER_LOST,
        ..BASE
    },
    Case {
        name: "agent-killed",
        about: "An agent gets SIGKILL and is started again after 0.2 s.",
        steps: &[(0, Act::Signal(Who::Agent("s1/cpu"), Kill))],
        lasts: Duration::from_millis(100),
        ..BASE
    },
    Case {
        name: "agent-gone",
        about: "An agent is down for 3 s; its device serves.",
        steps: &[(0, Act::Remove(Who::Agent("s1/cpu")))],
        limits: Limits { recovery: ms(2000), ..NOTHING },
        ..BASE
    },
    Case {
        name: "agents-gone",
        about: "All agents are down for 3 s; the devices serve.",
        steps: &[(0, Act::Remove(Who::Agents))],
        limits: Limits { recovery: ms(2000), ..NOTHING },
        ..BASE
    },
    Case {
        name: "agent-hup",
        about: "All agents get SIGHUP.",
        quick: true,
        steps: &[(0, Act::Signal(Who::Agents, Hangup))],
        lasts: Duration::from_millis(1500),
        ..BASE
    },
    Case {
        name: "agent-stopped",
        about: "An agent is stopped for 2 s (SIGSTOP).",
        steps: &[(0, Act::Signal(Who::Agent("s2/nic"), Stop))],
        lasts: Duration::from_secs(2),
        limits: Limits { recovery: ms(2000), ..NOTHING },
        ..BASE
    },
    Case {
        name: "device-killed",
        about: "The server process of a device is killed and down for 6 s; its agent keeps running.",
        quick: true,
        steps: &[(0, Act::Remove(Who::Device("s1/cpu")))],
        lasts: Duration::from_secs(6),
        recovers_from: Moment::Begin,
        hits: &["s1/cpu"],
        limits: DEVICE_LOST,
        ..BASE
    },
    Case {
        name: "device-restarted",
        about: "The server process of a device gets SIGKILL and is started again after 0.2 s.",
        steps: &[(0, Act::Signal(Who::Device("s1/nic"), Kill))],
        recovers_from: Moment::Begin,
        hits: &["s1/nic"],
        limits: DEVICE_LOST,
        ..BASE
    },
    Case {
        name: "device-stopped",
        about: "The server process of a device is stopped for 6 s (SIGSTOP): it accepts connections but answers nothing.",
        steps: &[(0, Act::Signal(Who::Device("s2/cpu"), Stop))],
        lasts: Duration::from_secs(6),
        recovers_from: Moment::Begin,
        hits: &["s2/cpu"],
        // The kernel accepts connections for it, so a check by TCP fails only once its queue is full.
        limits: Limits { recovery: None, ..DEVICE_LOST },
        ..BASE
    },
    Case {
        name: "device-and-agent-killed",
        about: "The server process of a device and its agent are down for 4 s.",
        steps: &[(0, Act::Remove(Who::Device("s2/nic"))), (0, Act::Remove(Who::Agent("s2/nic")))],
        lasts: Duration::from_secs(4),
        recovers_from: Moment::Begin,
        hits: &["s2/nic"],
        limits: DEVICE_LOST,
        ..BASE
    },
    Case {
        name: "switch-and-controller-killed",
        about: "Switch and controller get SIGKILL at the same time and are started again after 0.2 s.",
        steps: &[(0, Act::Signal(Who::Switch, Kill)), (0, Act::Signal(Who::Primary, Kill))],
        lasts: Duration::from_secs(4),
        recovers_from: Moment::Begin,
        limits: Limits { recovery: ms(4000), stuck: ms(5000), ..SWITCH_LOST },
        ..BASE
    },
    Case {
        name: "server-without-controller",
        about: "Both devices of a server and their agents fail while the controller is away.",
        steps: &[
            (0, Act::Remove(Who::Controllers)),
            (1000, Act::Remove(Who::Agent("s1/cpu"))),
            (1000, Act::Remove(Who::Agent("s1/nic"))),
            (1000, Act::Remove(Who::Device("s1/cpu"))),
            (1000, Act::Remove(Who::Device("s1/nic"))),
        ],
        lasts: Duration::from_secs(7),
        hits: &["s1/cpu", "s1/nic"],
        // Half of the new connections for report_timeout_ms, 0.5 s, and a heartbeat.
        limits: Limits {
            new_tcp_lost: Some(40),
            new_udp_lost: Some(20),
            stuck: None,
            recovery: ms(3000),
            control_gap: None,
            ..NOTHING
        },
        ..BASE
    },
    Case {
        name: "link-cut-client",
        about: "The link of the clients is down for 2 s.",
        steps: &[(0, Act::Cut("client"))],
        lasts: Duration::from_secs(2),
        limits: ALL_LOST,
        ..BASE
    },
    Case {
        name: "link-cut-device",
        about: "The link of a device is down for 4 s.",
        steps: &[(0, Act::Cut("s1/cpu"))],
        lasts: Duration::from_secs(4),
        recovers_from: Moment::Begin,
        hits: &["s1/cpu"],
        limits: DEVICE_LOST,
        ..BASE
    },
    Case {
        name: "interface-replaced-client",
        about: "The interfaces towards the clients are removed; new ones with the same names appear 1.5 s later.",
        steps: &[(0, Act::Unplug("client"))],
        lasts: Duration::from_millis(1500),
        limits: ALL_LOST,
        ..BASE
    },
    Case {
        name: "interface-replaced-device",
        about: "The interfaces of a device are removed; new ones with the same names appear 1.5 s later.",
        steps: &[(0, Act::Unplug("s2/cpu"))],
        lasts: Duration::from_millis(1500),
        hits: &["s2/cpu"],
        limits: Limits { recovery: ms(3000), ..DEVICE_LOST },
        ..BASE
    },
    Case {
        name: "controller-of-two-killed",
        about: "Of two controllers, the active one is killed and down for 5 s.",
        quick: true,
        controllers: 2,
        steps: &[(0, Act::Remove(Who::Primary))],
        lasts: Duration::from_secs(5),
        recovers_from: Moment::Begin,
        limits: Limits { recovery: ms(2000), control_gap: None, ..NOTHING },
        ..BASE
    },
    Case {
        name: "standby-killed",
        about: "Of two controllers, the standby gets SIGKILL and is started again.",
        controllers: 2,
        steps: &[(0, Act::Signal(Who::Standby, Kill))],
        limits: Limits { control_gap: None, ..NOTHING },
        ..BASE
    },
    Case {
        name: "controllers-killed",
        about: "Both controllers are down for 4 s.",
        controllers: 2,
        steps: &[(0, Act::Remove(Who::Controllers))],
        lasts: Duration::from_secs(4),
        limits: CONTROLLER_LOST,
        ..BASE
    },
    Case {
        name: "switch-of-two-killed",
        about: "The switch gets SIGKILL while it has two controllers.",
        controllers: 2,
        steps: &[(0, Act::Signal(Who::Switch, Kill))],
        recovers_from: Moment::Begin,
        limits: SWITCH_LOST,
        ..BASE
    },
    Case {
        name: "controllers-with-etcd",
        about: "Two controllers with three nodes of etcd: 6 faults at random under 1,000 new connections a second.",
        quick: true,
        storm: Some(Storm {
            faults: 6,
            connections_per_s: 1000,
            seed: 1,
            leaderless: LEADERLESS,
            drifts: false,
        }),
        ..GROUP
    },
    Case {
        name: "controllers-with-etcd-long",
        about: "The same with 100 faults under 5,000 new connections a second.",
        storm: Some(Storm {
            faults: 100,
            connections_per_s: 5000,
            seed: 2,
            leaderless: LEADERLESS,
            drifts: false,
        }),
        ..GROUP
    },
    Case {
        name: "members-with-etcd",
        about: "Members come and go while two controllers with three nodes of etcd have 6 faults at random.",
        quick: true,
        storm: Some(Storm {
            faults: 6,
            connections_per_s: 1000,
            seed: 3,
            leaderless: LEADERLESS,
            drifts: true,
        }),
        ..GROUP
    },
];
