//! Apache Arrow's reader and files of Parquet that we write.

use pointsman_chart::{Cell, Kind, Tidy};
use std::path::Path;
use std::process::Command;

/// What pyarrow reads of a table: a line with names and types, then the values of each line.
fn read(python: &Path, name: &str, table: &Tidy) -> String {
    let file = std::env::temp_dir().join(format!("pointsman-{}-{name}.parquet", std::process::id()));
    std::fs::write(&file, table.parquet()).expect("a file");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients/parquet.py");
    let out = Command::new(python).arg(script).arg(&file).output().expect("python runs");
    let _ = std::fs::remove_file(&file);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("text")
}

#[test]
fn arrow_reads_it() {
    let Some(python) = pointsman_needs::python("arrow_reads_it", "mcdm") else { return };
    let columns = [("policy", Kind::Text), ("seed", Kind::Whole), ("p99_ms", Kind::Number)];
    let mut table = Tidy::new(columns.map(|(name, kind)| (name.to_owned(), kind)));
    let head = "policy string, seed uint64, p99_ms double\n";
    assert_eq!(read(&python, "empty", &table), head);
    let mut expected = head.to_owned();
    // More lines than one byte counts, in runs of every length.
    for i in 0..1000u64 {
        let (null, name) = (i % 7 < i % 5, format!("é\"{},{i}", "x".repeat(i as usize % 300)));
        table.row([
            if null { Cell::Empty } else { name.clone().into() },
            i.into(),
            Cell::from((i > 500).then_some(i as f64 / 8.0)),
        ]);
        let name = if null { "None".to_owned() } else { name };
        let number = if i > 500 { format!("{:?}", i as f64 / 8.0) } else { "None".to_owned() };
        expected += &format!("{name} {i} {number}\n");
    }
    table.row([Cell::Empty, u64::MAX.into(), 1e300.into()]);
    expected += "None 18446744073709551615 1e+300\n";
    assert_eq!(read(&python, "full", &table), expected);
}
