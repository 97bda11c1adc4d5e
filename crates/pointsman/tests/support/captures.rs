//! Captures of a switch's ports, judged by programs of others.

use pointsman_lab::ensure;
use std::process::Command;

/// tshark takes the frames of these captures apart, and scapy gives them the same check values, or lengths and checksums.
pub fn judge(
    test: &str,
    captures: &str,
    files: &[&str],
    flags: &[&str],
) -> Result<(), Box<dyn std::error::Error>> {
    let (Some(python), true) =
        (pointsman_needs::python(test, "roce"), pointsman_needs::programs(test, &["tshark"]))
    else {
        return Ok(());
    };
    let script = super::file("tests/check_captures.py");
    let files = files.iter().map(|name| format!("{captures}/veth{name}.pcap"));
    let mut judge = Command::new(python);
    judge.args([&script, "--first", "2000", "--every", "20"]).args(flags).args(files);
    let output = judge.output()?;
    ensure!(output.status.success(), "{output:?}");
    Ok(())
}
