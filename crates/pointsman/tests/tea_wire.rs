//! `pointsman tea`: a switch, memory servers and their controller as processes; every packet checked, every look-up accounted for.

use crate::support::captures::judge;
use crate::support::{Scratch, pointsman};
use pointsman_lab::ensure;
use pointsman_lab::harness::Test;
use serde_json::Value;

pub const TESTS: &[(&str, Test)] = &[
    ("entries_change_under_look_ups", entries_change_under_look_ups),
    ("rows_have_the_packet_with_the_cells", rows_have_the_packet_with_the_cells),
    ("a_load_balancer_with_one_copy", a_load_balancer_with_one_copy),
    ("a_vpn_gateway_with_entries_for_ipv6", a_vpn_gateway_with_entries_for_ipv6),
    ("a_nat_of_both_families", a_nat_of_both_families),
    ("two_tables_with_dependent_keys", two_tables_with_dependent_keys),
    ("connections_move_to_servers_and_back", connections_move_to_servers_and_back),
    ("the_cache_answers_for_popular_entries", the_cache_answers_for_popular_entries),
    ("a_server_that_hangs_costs_only_what_it_had", a_server_that_hangs_costs_only_what_it_had),
    ("look_ups_avoid_a_full_link", look_ups_avoid_a_full_link),
    ("a_table_moves_to_other_cells", a_table_moves_to_other_cells),
    ("flags_that_do_not_go_together", flags_that_do_not_go_together),
];

pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// Runs it: its JSON, if everything was right.
pub fn tea(dir: &Scratch, app: &str, arguments: &[&str]) -> Result<Value, Box<dyn std::error::Error>> {
    let json = dir.path("r.json");
    let all = [&["tea", "--app", app, "--quick", "--entries", "5000", "--json", &json], arguments].concat();
    // For --memory tests/guest/memory.
    let output = pointsman(&all).env("POINTSMAN", env!("CARGO_BIN_EXE_pointsman")).output()?;
    ensure!(output.status.success(), "{output:?}");
    let result: Value = serde_json::from_str(&std::fs::read_to_string(&json)?)?;
    let lookups = &result["lookups"];
    let lost: u64 = lookups["lost"].as_object().into_iter().flat_map(|l| l.values()).map(number).sum();
    let parts = ["cache", "stash", "remote", "absent"].map(|name| number(&lookups[name]));
    // Of three keys, with this application.
    let keys = if app == "policy" { 3 } else { 1 };
    let (sent, ended) = (number(&lookups["sent"]), parts.iter().sum::<u64>());
    ensure!(ended + lost >= sent && ended <= keys * sent, "{result:#}");
    ensure!(keys > 1 || ended + lost == sent, "{result:#}");
    for name in ["wrong", "missing", "altered", "doubled"] {
        ensure!(result["violations"][name] == 0, "{result:#}");
    }
    ensure!(number(&lookups["remote"]) > 500 && number(&lookups["absent"]) > 50, "{result:#}");
    Ok(result)
}

fn entries_change_under_look_ups() -> Outcome {
    let dir = Scratch::new("tea-churn");
    let captures = dir.path("captures");
    std::fs::create_dir(&captures)?;
    let result = tea(&dir, "nat", &["--churn", "--adverse", "--pcap", &captures])?;
    ensure!(number(&result["changes"]["acknowledged"]) > 100, "{result:#}");
    ensure!(number(&result["lookups"]["stash"]) > 10, "{result:#}");
    // Both servers answer their share.
    let shares = result["per_server"].as_array().cloned().unwrap_or_default();
    ensure!(shares.len() == 2 && shares.iter().all(|n| number(n) > 200), "{result:#}");
    judge("tea_wire", &captures, &ROCE, &[])
}

/// Captures of the ports to both memory servers.
const ROCE: [&str; 4] = ["10_in", "10_out", "11_in", "11_out"];

/// A scratchpad in each row: popular flows share it often.
fn rows_have_the_packet_with_the_cells() -> Outcome {
    let dir = Scratch::new("tea-rows");
    let captures = dir.path("captures");
    std::fs::create_dir(&captures)?;
    let flags = ["--layout", "inline", "--churn", "--adverse", "--zipf", "1.2", "--pcap", &captures];
    let result = tea(&dir, "nat", &flags)?;
    ensure!(result["layout"] == "inline", "{result:#}");
    ensure!(number(&result["changes"]["acknowledged"]) > 100, "{result:#}");
    // Rows of 1,792 bytes for four cells, at 0.5 entries each, twice.
    ensure!(number(&result["dram_bytes"]) > 2 * 1792 * 5000 / 2, "{result:#}");
    let answered = result["per_server"].as_array().into_iter().flatten().map(number).sum::<u64>();
    ensure!(answered >= number(&result["lookups"]["remote"]), "{result:#}");
    judge("tea_wire", &captures, &ROCE, &[])
}

/// Both servers' memory: cells of so many bytes, at 0.6 entries each, twice, and 512 KiB of scratchpads each; a little more for the ends of ranges.
fn has_cells_and_scratchpads(result: &Value, cell: u64) -> Outcome {
    let least = 2 * cell * 5000 * 10 / 6 + (1 << 20);
    let bytes = number(&result["dram_bytes"]);
    ensure!(bytes >= least && bytes < least + least / 50, "{bytes} bytes, not {least}: {result:#}");
    Ok(())
}

fn a_load_balancer_with_one_copy() -> Outcome {
    let dir = Scratch::new("tea-lb");
    let result = tea(&dir, "lb", &["--churn", "--copies", "1", "--servers", "1", "--fault", "pair"])?;
    ensure!(number(&result["pairs_revived"]) > 0, "{result:#}");
    ensure!(number(&result["changes"]["acknowledged"]) > 100, "{result:#}");
    ensure!(number(&result["lookups"]["replica"]) == 0, "{result:#}");
    Ok(())
}

/// Hosts and tunnels of both families, packets that come in a tunnel, and memory servers over IPv6; entries change.
fn a_vpn_gateway_with_entries_for_ipv6() -> Outcome {
    let dir = Scratch::new("tea-vpn");
    let captures = dir.path("captures");
    std::fs::create_dir(&captures)?;
    let flags = ["--ipv6", "--churn", "--cache", "64", "--zipf", "1.2", "--pcap", &captures];
    let result = tea(&dir, "vpn", &flags)?;
    ensure!(number(&result["changes"]["acknowledged"]) > 100, "{result:#}");
    ensure!(number(&result["lookups"]["cache"]) > 100, "{result:#}");
    has_cells_and_scratchpads(&result, 48)?;
    judge("tea_wire", &captures, &ROCE, &[])?;
    judge("tea_wire", &captures, &["2_out"], &["--tunnels"])
}

/// Half of the flows are of IPv6; entries change, and memory servers do what InfiniBand allows.
fn a_nat_of_both_families() -> Outcome {
    let dir = Scratch::new("tea-nat6");
    let captures = dir.path("captures");
    std::fs::create_dir(&captures)?;
    let result = tea(&dir, "nat6", &["--churn", "--adverse", "--pcap", &captures])?;
    ensure!(number(&result["changes"]["acknowledged"]) > 100, "{result:#}");
    has_cells_and_scratchpads(&result, 68)?;
    judge("tea_wire", &captures, &ROCE, &[])
}

/// Three keys of a packet, the third of which depends on another one's entry.
fn two_tables_with_dependent_keys() -> Outcome {
    let dir = Scratch::new("tea-policy");
    let captures = dir.path("captures");
    std::fs::create_dir(&captures)?;
    let result = tea(&dir, "policy", &["--churn", "--adverse", "--pcap", &captures])?;
    ensure!(number(&result["changes"]["acknowledged"]) > 100, "{result:#}");
    let (found, sent) = (number(&result["lookups"]["remote"]), number(&result["lookups"]["sent"]));
    ensure!(found > sent, "{result:#}");
    has_cells_and_scratchpads(&result, 24)?;
    judge("tea_wire", &captures, &ROCE, &[])
}

/// The balancer: connections begin, settle and end while devices leave and return.
fn connections_move_to_servers_and_back() -> Outcome {
    let dir = Scratch::new("tea-balancer");
    let captures = dir.path("captures");
    std::fs::create_dir(&captures)?;
    let result = tea(&dir, "balancer", &["--churn", "--adverse", "--pcap", &captures])?;
    let connections = &result["connections"];
    let counts = ["begun", "ended", "kept", "pools"].map(|name| number(&connections[name]));
    ensure!(counts.iter().zip([100, 50, 500, 20]).all(|(count, least)| *count > least), "{result:#}");
    // Each entry that is new, and each that is deleted.
    ensure!(number(&result["changes"]["acknowledged"]) > 100, "{result:#}");
    ensure!(number(&result["entries"]) > 5050, "{result:#}");
    has_cells_and_scratchpads(&result, 32)?;
    judge("tea_wire", &captures, &ROCE, &[])
}

fn the_cache_answers_for_popular_entries() -> Outcome {
    let dir = Scratch::new("tea-cache");
    for layout in ["ring", "inline"] {
        let flags = ["--layout", layout, "--churn", "--cache", "64", "--zipf", "1.2"];
        let result = tea(&dir, "nat", &flags)?;
        ensure!(result["layout"] == layout, "{result:#}");
        ensure!(number(&result["lookups"]["cache"]) * 5 > number(&result["lookups"]["sent"]), "{result:#}");
        ensure!(number(&result["changes"]["acknowledged"]) > 100, "{result:#}");
    }
    Ok(())
}

fn a_server_that_hangs_costs_only_what_it_had() -> Outcome {
    let dir = Scratch::new("tea-hang");
    let result = tea(&dir, "firewall", &["--fault", "hang", "--rate", "3000"])?;
    // Of 6,000 packets half are for this server: it takes as many as it has credits, then its replica serves.
    ensure!(number(&result["lookups"]["replica"]) > 300, "{result:#}");
    ensure!(number(&result["in_fault"]["lost"]) < 500, "{result:#}");
    // After the repair everything passes; on a busy machine an answer may be late.
    let after = &result["after_repair"];
    ensure!(
        number(&after["sent"]) > 200 && number(&after["lost"]) * 50 < number(&after["sent"]),
        "{result:#}"
    );
    Ok(())
}

fn look_ups_avoid_a_full_link() -> Outcome {
    let dir = Scratch::new("tea-congestion");
    let result = tea(&dir, "lb", &["--fault", "congestion", "--rate", "1000"])?;
    // For 2 s the link is full, and half of the look-ups are for its server.
    ensure!(number(&result["lookups"]["by_load"]) > 100, "{result:#}");
    Ok(())
}

/// To the servers that are left when one is gone, and to twice as many rows.
fn a_table_moves_to_other_cells() -> Outcome {
    let dir = Scratch::new("tea-move");
    let common = ["--churn", "--servers", "3", "--rate", "1000", "--move"];
    for more in [&["lose"][..], &["double", "--layout", "inline", "--cache", "64"]] {
        let result = tea(&dir, "nat", &[&common, more].concat())?;
        ensure!(result["moved_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{result:#}");
        ensure!(number(&result["changes"]["acknowledged"]) > 100, "{result:#}");
        // Later than that no look-up needs a server that is not there; on a busy machine an answer may be late.
        let after = &result["after_repair"];
        ensure!(
            number(&after["sent"]) > 200 && number(&after["lost"]) * 50 < number(&after["sent"]),
            "{result:#}"
        );
    }
    Ok(())
}

fn flags_that_do_not_go_together() -> Outcome {
    for (flags, says) in [
        (&["drain", "--servers", "1"][..], "use --servers 2"),
        (&["lose", "--servers", "2"], "use --servers 3"),
        (&["lose", "--servers", "3", "--copies", "1"], "omit --copies 1"),
        (&["double", "--servers", "8"], "at most --servers 7"),
        (&["double", "--fault", "hang"], "use --fault none"),
    ] {
        let output = pointsman(&[&["tea", "--app", "nat", "--move"], flags].concat()).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.code() == Some(1) && said.contains(says), "{flags:?}: {said}");
    }
    let output = pointsman(&["tea", "--app", "nat", "--fault", "congestion"]).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(1) && said.contains("use --app lb"), "{said}");
    let output = pointsman(&["tea", "--app", "lb", "--fault", "congestion", "--ipv6"]).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(1) && said.contains("omit --ipv6"), "{said}");
    for more in [
        &["--churn"][..],
        &["--adverse"],
        &["--memory", "x"],
        &["--ipv6"],
        &["--fault", "port"],
        &["--cache"],
        &["--layout", "inline"],
        &["--move", "double"],
    ] {
        let output = pointsman(&[&["tea", "--app", "nat", "--plain"], more].concat()).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.code() == Some(1) && said.contains("no memory servers"), "{more:?}: {said}");
    }
    let output = pointsman(&["tea", "--app", "balancer", "--plain"]).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(1) && said.contains("omit --plain"), "{said}");
    let output = pointsman(&["tea", "--app", "nat", "--entries", "0"]).output()?;
    ensure!(output.status.code() == Some(2), "{output:?}");
    let output = pointsman(&["tea", "--app", "nat", "--zipf", "3"]).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(2) && said.contains("from 0 to 2"), "{said}");
    Ok(())
}
