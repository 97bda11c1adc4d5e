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
                _ => pointsman_balance::program::file(name),
            }
        }
    };
}

files! {
    "core.p4" => "p4/include/core.p4",
    "v1model.p4" => "p4/include/v1model.p4",
    "include/skeleton.p4" => "crates/frontend/tests/accept/include/skeleton.p4",
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
