//! The binary called by the name of a program that existing scripts start: a link `simple_switch_grpc` is `pointsman switch`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The names, and the words of our command line that they mean.
const NAMES: [(&str, &[&str]); 4] = [
    ("simple_switch", &["switch"]),
    ("simple_switch_grpc", &["switch"]),
    ("p4c", &["p4", "compile"]),
    ("p4c-bm2-ss", &["p4", "compile"]),
];

/// BMv2's device id, for scripts and controllers that rely on it.
const DEVICE_ID: &str = "--device-id";
const BMV2_DEVICE_ID: &str = "--device-id=0";

/// The command line with the words that the name of the program stands for. Other names change nothing.
pub fn command_line(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    let name = args.first().and_then(|path| Path::new(path).file_name()).and_then(OsStr::to_str);
    let Some((_, words)) = NAMES.iter().find(|(known, _)| Some(*known) == name) else { return args };
    let given = args.iter().any(|a| a.to_string_lossy().split('=').next() == Some(DEVICE_ID));
    let id = (words == &["switch"] && !given).then_some(&BMV2_DEVICE_ID);
    args.splice(1..1, words.iter().chain(id).map(OsString::from));
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> String {
        let words = command_line(line.split(' ').map(OsString::from));
        words.join(OsStr::new(" ")).to_string_lossy().into_owned()
    }

    #[test]
    fn names() {
        for (line, meant) in [
            ("pointsman switch --no-p4", "pointsman switch --no-p4"),
            ("simple_switch_grpc --no-p4", "simple_switch_grpc switch --device-id=0 --no-p4"),
            (
                "/opt/x/simple_switch a.json -- --cpu-port 5",
                "/opt/x/simple_switch switch --device-id=0 a.json -- --cpu-port 5",
            ),
            ("simple_switch --device-id 3 a.json", "simple_switch switch --device-id 3 a.json"),
            ("simple_switch --device-id=3 a.json", "simple_switch switch --device-id=3 a.json"),
            ("p4c --target bmv2 a.p4", "p4c p4 compile --target bmv2 a.p4"),
            ("./p4c-bm2-ss a.p4", "./p4c-bm2-ss p4 compile a.p4"),
            ("pointsman-old top", "pointsman-old top"),
        ] {
            assert_eq!(read(line), meant);
        }
        assert_eq!(command_line([]), Vec::<OsString>::new());
    }
}
