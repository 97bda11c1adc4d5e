//! What a P4 program takes of a pipeline chip: stages, memory, crossbars, ALUs, and words of the packet header vector.
//!
//! A program (or a [`GraphFile`]) becomes a [`Graph`] of tables, arrays and actions with their [`Demand`]s and
//! [`Dependency`]s, which name no chip. A [`Target`] describes a chip as data. [`place`] puts the nodes into stages: by
//! heuristics, and by a search that proves the fewest stages unless its budget of steps runs out.
//!
//! Pure functions: equal inputs give equal reports. docs/resources.md says what is counted and what is assumed.
#![forbid(unsafe_code)]

pub mod arch;
mod chain;
mod cost;
mod fold;
mod graph;
mod graph_file;
mod phv;
mod place;
mod program;
mod report;
mod resource;
mod target;
mod walk;

pub use chain::{Chain, chain};
pub use graph::{Array, ArrayKind, Cycle, Demand, Dependency, Graph, MOST_ENTRIES, Matching, Node, NodeKind};
pub use graph_file::GraphFile;
pub use phv::PhvUse;
pub use place::{BUDGET, Excess, Part, Placed, Placement, place};
pub use report::{InStage, Report, Violation, graph_of, resize, resources, resources_of_graph};
pub use resource::{Amounts, Resource};
pub use target::{Arrays, BUILT_IN, Crossbar, MOST_STAGES, Phv, Sram, Target, Tcam, UNLIMITED, WORD_BITS};
