//! Packets in and out: AF_PACKET, pcap, in-memory.
