//! A rack on this machine: namespaces, veth pairs, devices, load generator.
