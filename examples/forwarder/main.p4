// An Ethernet switch in its simplest form: entries that a controller writes into `forward` decide where a frame goes; a frame
// for an unknown address goes to multicast group 1. README.md says how to run it.

#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

struct headers_t {
    ethernet_t ethernet;
}

struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control NoVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Forward(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    // Frames and bytes received on each port.
    counter(512, CounterType.packets_and_bytes) received;
    // Frames forwarded by each entry of `forward`.
    direct_counter(CounterType.packets_and_bytes) forwarded;

    action send(bit<9> port) {
        forwarded.count();
        standard.egress_spec = port;
    }

    action flood() {
        forwarded.count();
        standard.mcast_grp = 1;
    }

    action drop() {
        forwarded.count();
        mark_to_drop(standard);
    }

    table forward {
        key = { hdr.ethernet.dst: exact @name("dst"); }
        actions = { send; flood; drop; }
        default_action = flood();
        counters = forwarded;
        size = 1024;
    }

    apply {
        received.count((bit<32>)standard.ingress_port);
        forward.apply();
    }
}

control Prune(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        // A flooded frame is not sent back to its ingress port.
        if (standard.mcast_grp != 0 && standard.egress_port == standard.ingress_port) {
            mark_to_drop(standard);
        }
    }
}

control NoUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
    }
}

V1Switch(Parse(), NoVerify(), Forward(), Prune(), NoUpdate(), Deparse()) main;
