//! `pointsman p4 compile`: p4c's command line, for scripts that compile before they start a switch.

use crate::tools::bundle::bundled;
use clap::Args as ClapArgs;
use pointsman_compile::sources::{Sources, as_json, parse_define};
use pointsman_compile::{TRANSLATE, compile_file};
use pointsman_console::{results, say};
use pointsman_control::p4info::p4info;
use pointsman_control::text::to_text;
use pointsman_frontend::Define;
use prost::Message;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Compile a program as p4c does, with p4c's command line.
///
/// The output is the device config of this switch: the program and its includes as one text, in a JSON object under the name that
/// p4c would give its JSON. `pointsman switch` takes it as its program, and over P4Runtime from controllers that read this file.
#[derive(ClapArgs)]
pub struct Args {
    /// The program's main file.
    file: PathBuf,
    /// The folder of the output, or a file that ends in `.json`.
    #[arg(short, value_name = "PATH", default_value = ".")]
    output: PathBuf,
    /// The target: bmv2.
    #[arg(short = 'b', long, visible_alias = "backend", default_value = "bmv2")]
    target: String,
    /// The architecture: v1model.
    #[arg(short, long, default_value = "v1model")]
    arch: String,
    /// The language: p4-16.
    #[arg(long = "std", visible_alias = "p4v", value_name = "LANGUAGE", default_value = "p4-16")]
    language: String,
    /// Write P4Info to these files, separated by commas: text, or binary if the name ends in .bin.
    #[arg(long, visible_alias = "p4runtime-file", value_name = "FILES", value_delimiter = ',')]
    p4runtime_files: Vec<PathBuf>,
    /// Format of the files of P4Info whose names do not tell: `text` or `binary`.
    #[arg(long, value_name = "FORMAT")]
    p4runtime_format: Option<String>,
    /// Folder to search for included files. Repeatable.
    #[arg(short = 'I', value_name = "DIR")]
    include: Vec<PathBuf>,
    /// Macro to define.
    #[arg(short = 'D', value_name = "NAME[=VALUE]", value_parser = parse_define)]
    define: Vec<Define>,
    /// Macro to undefine.
    #[arg(short = 'U', value_name = "NAME")]
    undefine: Vec<String>,
    /// Write the program to this file, with its includes, as one text.
    #[arg(long = "pp", value_name = "FILE")]
    pp: Option<PathBuf>,
    #[command(flatten)]
    ignored: Ignored,
    #[command(flatten)]
    missing: Missing,
}

/// Flags of p4c without a meaning here.
#[derive(ClapArgs)]
struct Ignored {
    #[arg(short = 'g', hide = true)]
    debug: bool,
    #[arg(short = 'v', hide = true)]
    verbose: bool,
    #[arg(long, hide = true)]
    emit_externs: bool,
    #[arg(long, hide = true)]
    ndebug: bool,
    #[arg(long, hide = true)]
    testgen: bool,
    #[arg(long = "Wdisable", num_args = 0..=1, require_equals = true, default_missing_value = "", hide = true)]
    wdisable: Vec<String>,
    #[arg(long = "Wwarn", num_args = 0..=1, require_equals = true, default_missing_value = "", hide = true)]
    wwarn: Vec<String>,
    #[arg(long = "Werror", num_args = 0..=1, require_equals = true, default_missing_value = "", hide = true)]
    werror: Vec<String>,
    #[arg(short = 'T', value_name = "LEVELS", hide = true)]
    log: Vec<String>,
    #[arg(long = "maxErrorCount", value_name = "N", hide = true)]
    max_error_count: Option<String>,
    #[arg(long = "top4", value_name = "PASSES", hide = true)]
    top4: Option<String>,
    #[arg(long = "dump", value_name = "DIR", hide = true)]
    dump: Option<String>,
}

/// Flags of p4c whose output later steps of a script need, and which is not made here.
#[derive(ClapArgs)]
struct Missing {
    #[arg(short = 'E', hide = true)]
    preprocess: bool,
    #[arg(long = "toJSON", value_name = "FILE", hide = true)]
    to_json: Option<PathBuf>,
    #[arg(long, visible_alias = "p4runtime-entries-file", value_name = "FILES", hide = true)]
    p4runtime_entries_files: Option<String>,
}

/// Flags of p4c that cannot be followed here.
#[derive(Debug)]
enum FlagError {
    /// What is not written, the flag first.
    Unwritten(&'static str),
    /// Not a target.
    Target(String),
    /// Not an architecture.
    Architecture(String),
    /// Not a language.
    Language(String),
    /// The folder of an output cannot be made.
    Folder(PathBuf, io::Error),
    /// P4Info is not written as JSON.
    Json(PathBuf),
    /// Not a format of P4Info.
    Format(String),
}

impl fmt::Display for FlagError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlagError::Unwritten(why) => f.write_str(why),
            FlagError::Target(target) => {
                write!(f, "--target {target}: this switch is compatible with bmv2 only; give --target bmv2")
            }
            FlagError::Architecture(arch) => {
                write!(f, "{arch}: only programs for v1model run here; `pointsman p4 check` checks others")
            }
            FlagError::Language(language) => {
                write!(f, "--std {language}: only P4_16 is compiled here; {TRANSLATE}")
            }
            FlagError::Folder(path, e) => write!(f, "cannot make the folder {}: {e}", path.display()),
            FlagError::Json(path) => write!(
                f,
                "{}: P4Info is written as text or binary, not as JSON: give a name that ends in .txtpb or .bin",
                path.display()
            ),
            FlagError::Format(format) => write!(f, "--p4runtime-format {format}: give text or binary"),
        }
    }
}

impl Error for FlagError {}

impl Missing {
    fn refuse(&self) -> Result<(), FlagError> {
        let all = [
            (
                self.preprocess,
                "-E: preprocessed text is not written; --pp FILE writes the program with its includes, macros as they are",
            ),
            (
                self.to_json.is_some(),
                "--toJSON: p4c's own form of a program is not written; remove the flag, or use p4c for this step",
            ),
            (
                self.p4runtime_entries_files.is_some(),
                "--p4runtime-entries-files: entries in the program are not written to a file: the switch has them as soon as it runs \
                 the program, so remove the flag and the step that writes them",
            ),
        ];
        all.into_iter().find(|(given, _)| *given).map_or(Ok(()), |(_, why)| Err(FlagError::Unwritten(why)))
    }
}

impl Ignored {
    /// The flags that were given.
    fn given(&self) -> Vec<&'static str> {
        let all = [
            (self.debug, "-g"),
            (self.verbose, "-v"),
            (self.emit_externs, "--emit-externs"),
            (self.ndebug, "--ndebug"),
            (self.testgen, "--testgen"),
            (!self.wdisable.is_empty(), "--Wdisable"),
            (!self.wwarn.is_empty(), "--Wwarn"),
            (!self.werror.is_empty(), "--Werror"),
            (!self.log.is_empty(), "-T"),
            (self.max_error_count.is_some(), "--maxErrorCount"),
            (self.top4.is_some(), "--top4"),
            (self.dump.is_some(), "--dump"),
        ];
        all.into_iter().filter(|(given, _)| *given).map(|(_, flag)| flag).collect()
    }
}

/// Compiles.
///
/// # Errors
/// The target is another one, the program has errors, or a file cannot be written.
pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    refuse(args)?;
    args.missing.refuse()?;
    for flag in args.ignored.given() {
        say(&format!("warning: {flag} has no effect here"));
    }
    let mut defines = args.define.clone();
    defines.extend(args.undefine.iter().map(|name| Define::Unset(name.clone())));
    let sources = Sources { include_dirs: args.include.clone() };
    let (compiled, warnings) = compile_file(&args.file, &sources, &defines)?;
    pointsman_console::show(&warnings);
    let text = bundled(&args.file, &sources, &defines)?;
    let output = output(args);
    folder(&output)?;
    results::write(&output, "-o", as_json(&text))?;
    if let Some(path) = &args.pp {
        folder(path)?;
        results::write(path, "--pp", &text)?;
    }
    let info = p4info(&compiled.program)?;
    for path in &args.p4runtime_files {
        folder(path)?;
        let bytes = match is_binary(path, args.p4runtime_format.as_deref())? {
            true => info.encode_to_vec(),
            false => to_text(&info)?.into_bytes(),
        };
        results::write(path, "--p4runtime-files", bytes)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What this switch does not compile for.
fn refuse(args: &Args) -> Result<(), FlagError> {
    let target = args.target.as_str();
    // `-b bmv2-v1model`, `--target bmv2-ss-p4org`: the older names.
    if target != "bmv2" && !target.starts_with("bmv2-") {
        return Err(FlagError::Target(target.to_string()));
    }
    if target.contains("psa") || target.contains("pna") || args.arch != "v1model" {
        let arch = if args.arch == "v1model" { target } else { &args.arch };
        return Err(FlagError::Architecture(arch.to_string()));
    }
    match args.language.to_ascii_lowercase().as_str() {
        "p4-16" | "p4_16" | "16" | "p416" => Ok(()),
        _ => Err(FlagError::Language(args.language.clone())),
    }
}

/// The file that p4c would write.
fn output(args: &Args) -> PathBuf {
    if args.output.extension().is_some_and(|e| e == "json") {
        return args.output.clone();
    }
    let stem = args.file.file_stem().unwrap_or_default();
    args.output.join(stem).with_extension("json")
}

/// Makes the folder of a file.
fn folder(path: &Path) -> Result<(), FlagError> {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => {
            std::fs::create_dir_all(dir).map_err(|e| FlagError::Folder(dir.to_path_buf(), e))
        }
        _ => Ok(()),
    }
}

/// Whether a file of P4Info is binary.
fn is_binary(path: &Path, format: Option<&str>) -> Result<bool, FlagError> {
    match (path.extension().and_then(|e| e.to_str()), format) {
        (Some("bin"), _) => Ok(true),
        (Some("txt" | "txtpb" | "pb"), None) => Ok(false),
        (Some("json"), _) | (_, Some("json")) => Err(FlagError::Json(path.to_path_buf())),
        (_, Some("binary")) => Ok(true),
        (_, None | Some("text")) => Ok(false),
        (_, Some(other)) => Err(FlagError::Format(other.to_string())),
    }
}
