//! A language server for P4_16 (Language Server Protocol 3.17), as a state machine: messages in, messages out.
//!
//! [`Server::handle`] takes one message and returns the answers. Documents are analyzed when an answer needs it, or when
//! the owner finds time for [`Server::idle`], which returns the diagnostics that changed. Files are accessed through a
//! [`World`]; text of open documents replaces that on disk. [`frame`] separates messages in a stream of bytes.
//!
//! A file that others include is shown as part of the program that includes it: the front end reads whole programs, and the
//! meaning of an included file depends on what comes before it.

#![forbid(unsafe_code)]

mod actions;
mod analysis;
mod complete;
mod diagnostics;
mod documents;
mod fold;
pub mod frame;
mod hover;
mod navigate;
mod outline;
mod position;
mod rename;
mod requests;
mod scopes;
mod server;
mod symbols;
mod uri;
mod workspace;

pub use server::Server;
pub use uri::from_path as file_uri;

use pointsman_frontend::Checked;

/// A file that is part of the program that serves.
#[derive(Clone, Debug)]
pub struct BuiltIn {
    /// The text.
    pub text: String,
    /// A readable copy, to which editors can go.
    pub path: Option<String>,
}

/// What the server knows of the machine: files, and the architecture.
pub trait World {
    /// The text of a file.
    fn read(&self, path: &str) -> Option<String>;

    /// The paths of the P4 files in a folder, in any order.
    fn folder(&self, path: &str) -> Vec<String>;

    /// The file of `#include <name>` if it is in no folder.
    fn built_in(&self, name: &str) -> Option<BuiltIn>;

    /// The names for which there is a [`World::built_in`].
    fn built_in_names(&self) -> Vec<String>;

    /// Whether programs whose `main` is an instance of this package are to run.
    fn runs(&self, package: &str) -> bool;

    /// Adds the problems that the architecture has with a right program.
    fn finish(&self, checked: &mut Checked);

    /// A page that explains a diagnostic code.
    fn explanation(&self, code: &str) -> Option<String>;
}
