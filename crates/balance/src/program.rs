//! The data plane that the controller fills: the balancer, from `p4/programs/balancer`.

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        /// Every file of the program, by the name that the others include it by.
        pub const FILES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../p4/programs/balancer/", $name)))),*];
    };
}

files! {
    "main.p4",
    "blocks.p4",
    "checksum.p4",
    "connections.p4",
    "fragments.p4",
    "headers.p4",
    "load.p4",
    "parser.p4",
    "reports.p4",
    "reset.p4",
    "respond.p4",
    "select.p4",
    "servers.p4",
    "siphash.p4",
    "state.p4",
    "tally.p4",
    "translate.p4",
    "tunnel.p4",
}

/// The text of one of them.
pub fn file(name: &str) -> Option<&'static str> {
    FILES.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}
