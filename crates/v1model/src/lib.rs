//! The v1model architecture, generic over the executor; no I/O.
