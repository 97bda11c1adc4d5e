//! What `pointsman agent --list-gpus` prints.

use super::nvml::{Details, Instance, Listed, Nvml, NvmlError};
use std::fmt::Write;
use std::time::Instant;

/// The GPUs of this machine, with their MIG instances.
///
/// # Errors
/// There is no driver, or it does not list them.
pub fn list() -> Result<Vec<Listed>, NvmlError> {
    Nvml::load(Instant::now())?.list()
}

fn in_use(percent: &[(&str, f64)]) -> String {
    let all: Vec<String> = percent.iter().map(|(name, value)| format!("{name} {value:.0} %")).collect();
    all.join(", ")
}

fn gpu(out: &mut String, index: u32, d: &Details) {
    let mut line = |uuid: &str, rest: [&str; 3]| {
        let rest: Vec<&str> = rest.into_iter().filter(|r| !r.is_empty()).collect();
        let _ = writeln!(out, "nvml = \"{uuid}\"  {}", rest.join(", "));
    };
    line(&d.uuid, [&format!("GPU {index} at {}: {}", d.address, d.name), &in_use(&d.use_percent), ""]);
    for Instance { uuid, name, id, use_percent } in d.instances.iter().flatten() {
        let id = id.map(|id| format!("GPU_I_ID=\"{id}\"")).unwrap_or_default();
        line(uuid, [name, &id, &in_use(use_percent)]);
    }
}

/// A line for each GPU and instance, that begins with what `rack.toml` may say.
pub fn text(list: &[Listed]) -> String {
    let mut out = String::new();
    for Listed { index, found } in list {
        match found {
            Ok(details) => gpu(&mut out, *index, details),
            Err(e) => {
                let _ = writeln!(out, "nvml = {index}  {e}");
            }
        }
    }
    if list.is_empty() {
        out.push_str("NVIDIA's management library lists no GPUs\n");
    }
    out
}
