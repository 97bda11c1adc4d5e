//! Packet builder, vector runner, differential runner.
