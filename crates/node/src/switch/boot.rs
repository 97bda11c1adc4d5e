//! How a switch starts: with a program, or with a saved state and its program.

use super::runtime::{Handle, Runtime};
use super::state_file::{Fault, Saved};
use pointsman_compile::sources::{Sources, balancer, directives, flatten_file};
use pointsman_console::show;
use pointsman_frontend::Define;
use std::error::Error;
use std::path::{Path, PathBuf};
use tokio::signal::unix::Signal;

/// Whether this is the built-in program.
fn is_built_in(file: &Path) -> bool {
    file == Path::new("balancer") && !file.exists()
}

/// The text of `file` with everything that it includes: controllers may ask for it, and send it to the next switch.
fn config_text(file: &Path, sources: &Sources, defines: &[Define]) -> Result<String, Box<dyn Error>> {
    if is_built_in(file) {
        return Ok(directives(defines) + &balancer());
    }
    flatten_file(file, sources, defines).map_err(|e| format!("cannot read {}: {e}", file.display()).into())
}

/// Compiles `file`, reports its errors, and starts with it.
pub fn boot(
    runtime: &mut Runtime,
    file: &Path,
    sources: &Sources,
    defines: &[Define],
) -> Result<(), Box<dyn Error>> {
    let compiled = if is_built_in(file) {
        pointsman_compile::compile("balancer", &balancer(), sources, defines)
            .map_err(|e| pointsman_compile::rendered(&e))?
    } else {
        let (compiled, warnings) = pointsman_compile::compile_file(file, sources, defines)?;
        show(&warnings);
        compiled
    };
    let config = config_text(file, sources, defines)?;
    runtime.boot((compiled.program, compiled.source_map), &config).map_err(|e| e.message)?;
    Ok(())
}

/// Fills the tables of the program that runs, as the statements in this file say.
pub fn fill(runtime: &mut Runtime, path: &Path) -> Result<(), Box<dyn Error>> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    let lines = pointsman_stf::parse(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    runtime.fill(&lines).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(())
}

/// Starts with a saved state, whose program must be `file` if there is one.
pub fn resume(
    runtime: &mut Runtime,
    saved: &Saved,
    file: Option<&Path>,
    sources: &Sources,
    defines: &[Define],
) -> Result<(), Box<dyn Error>> {
    if let Some(file) = file
        && config_text(file, sources, defines)?.as_bytes() != saved.server.device_config()
    {
        boot(runtime, file, sources, defines)?;
        let fault = Fault::OtherProgram {
            saved: saved.switch.program().clone(),
            given: file.to_path_buf(),
            id: runtime.program_id().ok_or("no program runs")?,
        };
        return Err(saved.error(fault).into());
    }
    runtime.restore(saved)?;
    Ok(())
}

/// Saves the state at each SIGUSR1.
pub async fn save_on_request(mut request: Signal, handle: Handle, path: PathBuf) {
    while request.recv().await.is_some() {
        let path = path.clone();
        if handle.post(move |core| core.save_now(&path)).is_err() {
            return;
        }
    }
}
