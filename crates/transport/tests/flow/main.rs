//! Whole connections over a simulated path.

mod close;
mod ecn;
mod garbage;
mod hints;
mod laws;
mod loss;
mod net;
mod properties;
