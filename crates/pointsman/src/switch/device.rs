//! The box that P4Runtime sees: a v1model switch on the interpreter, compiled from P4 source text.

use crate::sources::Sources;
use pointsman_control::target::Device;
use pointsman_frontend::{Failure, compile, render};
use pointsman_interp::Interp;
use pointsman_ir::Program;
use pointsman_v1model::{Keep, Pipeline, Sink, Switch, SwitchConfig, Time};
use std::sync::Arc;
