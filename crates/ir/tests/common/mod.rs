//! Programs written by hand, for the tests of every crate that works on them.
#![allow(dead_code)]

pub mod build;
pub mod good;
