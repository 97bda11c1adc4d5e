//! The tracefile format of LCOV (`man geninfo`, "FILES").

use super::report::Report;
use std::fmt::Write;

/// A report as a tracefile of LCOV. `full` makes of a path one that `genhtml` can open. Files built into the binary, such as `<core.p4>`,
/// are left out.
pub fn lcov(report: &Report, full: &dyn Fn(&str) -> String) -> String {
    let mut out = String::new();
    for (path, file) in report.files.iter().filter(|(path, _)| !path.starts_with('<')) {
        let _ = writeln!(out, "TN:\nSF:{}", full(path));
        for block in &file.blocks {
            let _ = writeln!(out, "FN:{},{}", block.line, block.name);
        }
        for block in &file.blocks {
            let _ = writeln!(out, "FNDA:{},{}", block.count, block.name);
        }
        let hit = file.blocks.iter().filter(|b| b.count > 0).count();
        let _ = writeln!(out, "FNF:{}\nFNH:{hit}", file.blocks.len());
        let (mut found, mut taken) = (0, 0);
        for (block, branch) in file.branches.iter().enumerate() {
            let ran = branch.arms.iter().any(|a| a.count > 0);
            for (i, arm) in branch.arms.iter().enumerate() {
                found += 1;
                taken += usize::from(arm.count > 0);
                let count = if ran { arm.count.to_string() } else { "-".into() };
                let _ = writeln!(out, "BRDA:{},{block},{i},{count}", branch.line);
            }
        }
        let _ = writeln!(out, "BRF:{found}\nBRH:{taken}");
        for (line, count) in &file.lines {
            let _ = writeln!(out, "DA:{line},{count}");
        }
        let hit = file.lines.values().filter(|n| **n > 0).count();
        let _ = writeln!(out, "LF:{}\nLH:{hit}\nend_of_record", file.lines.len());
    }
    out
}
