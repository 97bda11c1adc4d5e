//! Readers of files and frames that others made.

use pointsman_balance::Rack;
use pointsman_balance::report::Report;
use pointsman_ports::pcap::Reader;

/// A capture file, classic or pcapng.
pub fn pcap(data: &[u8]) {
    let mut input = data;
    let Ok(mut reader) = Reader::new(&mut input) else { return };
    let mut frame = Vec::new();
    let mut total = 0;
    while let Ok(Some(_)) = reader.read(&mut frame) {
        total += frame.len();
        assert!(total <= data.len(), "more bytes of frames than of file");
    }
}

/// A load report: what decodes encodes to a report that decodes to the same.
pub fn report(data: &[u8]) {
    if let Ok(report) = Report::decode(data) {
        let again = Report::decode(&report.encode());
        assert_eq!(again.as_ref(), Ok(&report));
    }
}

/// A rack file.
pub fn config(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Rack::parse("rack.toml", &text) {
        Ok(rack) => {
            rack.devices().for_each(|(_, d)| {
                rack.device_name(d.number);
            });
        }
        Err(errors) => assert!(!errors.to_string().is_empty()),
    }
}
