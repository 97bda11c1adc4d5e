//! Includes without files.

use pointsman_frontend::source::Loader;
use pointsman_ir::Program;
use std::sync::Arc;

/// Knows our own includes by name. `main.p4` is the program itself: a program may include itself.
pub struct Builtin<'a>(pub &'a str);

macro_rules! files {
    ($($name:literal => $path:literal,)*) => {
        fn own(name: &str) -> Option<&'static str> {
            match name {
                $($name => Some(include_str!(concat!("../../", $path))),)*
                _ => None,
            }
        }
    };
}

files! {
    "core.p4" => "p4/include/core.p4",
    "v1model.p4" => "p4/include/v1model.p4",
    "include/skeleton.p4" => "crates/frontend/tests/accept/include/skeleton.p4",
    "headers.p4" => "p4/programs/balancer/headers.p4",
    "parser.p4" => "p4/programs/balancer/parser.p4",
    "connections.p4" => "p4/programs/balancer/connections.p4",
    "blocks.p4" => "p4/programs/balancer/blocks.p4",
    "load.p4" => "p4/programs/balancer/load.p4",
    "servers.p4" => "p4/programs/balancer/servers.p4",
    "select.p4" => "p4/programs/balancer/select.p4",
    "translate.p4" => "p4/programs/balancer/translate.p4",
    "respond.p4" => "p4/programs/balancer/respond.p4",
    "checksum.p4" => "p4/programs/balancer/checksum.p4",
}

impl Loader for Builtin<'_> {
    fn include(&self, name: &str, _quoted: bool, _from: &str) -> Option<(String, String)> {
        let text = if name == "main.p4" { Some(self.0) } else { own(name) };
        text.map(|t| (name.to_string(), t.to_string()))
    }
}

/// Compiles one of our own programs.
pub fn compiled(name: &str, text: &str) -> Arc<Program> {
    match pointsman_frontend::compile(name, text, &Builtin(text), &[]) {
        Ok(compiled) => Arc::new(compiled.program),
        Err(f) => panic!(
            "{name}: {}",
            pointsman_frontend::render::all_to_text(&f.source_map, &f.diagnostics, false)
        ),
    }
}
