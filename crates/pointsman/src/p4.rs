//! `pointsman p4 ...`

use crate::tools::{Input, read_input};
use clap::{Args, ValueEnum};
use pointsman_compile::sources::{Sources, parse_define};
use pointsman_compile::{check, compile};
use pointsman_console::{print, show};
use pointsman_control::p4info::p4info;
use pointsman_control::text::to_text;
use pointsman_frontend::diag::Diagnostic;
use pointsman_frontend::source::SourceMap;
use pointsman_frontend::{Compiled, Define, codes, render};
use prost::Message;
use std::error::Error;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

/// Subcommands for P4 source.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Report all errors in a program, for any architecture whose declarations it includes.
    Check {
        /// The program.
        #[command(flatten)]
        source: Source,
    },
    /// Print the program's P4Info.
    Info {
        /// The program.
        #[command(flatten)]
        source: Source,
        /// Binary protobuf instead of text.
        #[arg(long)]
        binary: bool,
    },
    /// Explain a diagnostic code, such as P0401.
    Explain {
        /// The code.
        code: String,
    },
    /// Print the program's typed form.
    Ir {
        /// The program.
        #[command(flatten)]
        source: Source,
    },
}

/// A program and how to read it.
#[derive(Args)]
pub struct Source {
    /// The program's main file, or `-` for standard input.
    file: PathBuf,
    /// Name of standard input in diagnostics; quoted includes are relative to its folder. The default is `<stdin>`, in the
    /// working directory.
    #[arg(long, value_name = "FILE")]
    stdin_name: Option<PathBuf>,
    /// Folder to search for included files. Repeatable. A `core.p4` or `v1model.p4` there replaces the built-in
    /// one.
    #[arg(short = 'I', long, value_name = "DIR")]
    include: Vec<PathBuf>,
    /// Macro to define.
    #[arg(short = 'D', value_name = "NAME[=VALUE]", value_parser = parse_define)]
    define: Vec<Define>,
    /// Output format of diagnostics.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Clone, Copy, Default, PartialEq, ValueEnum)]
enum Format {
    /// Human-readable.
    #[default]
    Text,
    /// One JSON object per line, for editors.
    Json,
}

impl Source {
    /// Reads the program; `compile` makes of its path, text and so on a result with diagnostics, which go to standard
    /// error.
    fn read<T>(
        &self,
        compile: impl FnOnce(&str, &str, &Sources, &[Define]) -> T,
        said: impl FnOnce(&T) -> (&SourceMap, &[Diagnostic]),
    ) -> Result<T, Box<dyn Error>> {
        let Input { name, text } = read_input(&self.file, self.stdin_name.as_deref())?;
        let sources = Sources { include_dirs: self.include.clone() };
        let result = compile(&name, &text, &sources, &self.define);
        let (map, diagnostics) = said(&result);
        let shown = match self.format {
            Format::Text => render::all_to_text(map, diagnostics, std::io::stderr().is_terminal()),
            Format::Json => diagnostics.iter().map(|d| render::to_json(map, d)).collect(),
        };
        show(&shown);
        Ok(result)
    }

    /// Checks the program for any architecture. Is it valid?
    fn check(&self) -> Result<bool, Box<dyn Error>> {
        let checked = self.read(
            |path, text, sources, defines| check(path, text, sources, defines),
            |checked| (&checked.source_map, &checked.diagnostics),
        )?;
        Ok(checked.is_right())
    }

    /// Compiles the program for this switch. `None` if there were errors.
    fn compile(&self) -> Result<Option<Compiled>, Box<dyn Error>> {
        let result = self.read(
            |path, text, sources, defines| compile(path, text, sources, defines),
            |result| match result {
                Ok(c) => (&c.source_map, &c.warnings),
                Err(failure) => (&failure.source_map, &failure.diagnostics),
            },
        )?;
        Ok(result.ok())
    }
}

/// Runs the command. The exit code is that of a failure if the program is invalid.
pub fn run(command: Command) -> Result<ExitCode, Box<dyn Error>> {
    let output = match &command {
        Command::Check { source } => {
            return Ok(if source.check()? { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Command::Explain { code } => {
            let Some(e) = codes::explain(code) else {
                return Err(
                    format!("unknown code '{code}'; docs/diagnostics.md lists them, from P0101 on").into()
                );
            };
            format!("{}: {}\n\n{}\n", e.code, e.title, e.text).into_bytes()
        }
        Command::Ir { source } => {
            let Some(compiled) = source.compile()? else { return Ok(ExitCode::FAILURE) };
            pointsman_ir::text::print(&compiled.program).into_bytes()
        }
        Command::Info { source, binary } => {
            let Some(compiled) = source.compile()? else { return Ok(ExitCode::FAILURE) };
            let info = p4info(&compiled.program)?;
            if *binary { info.encode_to_vec() } else { to_text(&info)?.into_bytes() }
        }
    };
    print(&output)?;
    Ok(ExitCode::SUCCESS)
}
