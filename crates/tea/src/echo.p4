// Packets of IPv4 as they are: from the sender to the first memory server's place, where the same program returns them, and on to a host.
// Ports are those of the bed (bed.rs): 1 and 3 are hosts, 10 is the server; the switch in the server's place has port 0.
// Other packets are those of hosts' kernels: dropped.

#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<96> addresses;
    bit<16> type;
}

struct headers {
    ethernet_t ethernet;
}

struct metadata {}

parser EchoParser(packet_in p, out headers h, inout metadata m, inout standard_metadata_t sm) {
    state start {
        p.extract(h.ethernet);
        transition accept;
    }
}

control EchoVerify(inout headers h, inout metadata m) {
    apply {}
}

control EchoIngress(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    apply {
        if (h.ethernet.type != 0x800) {
            mark_to_drop(sm);
        } else if (sm.ingress_port == 1) {
            sm.egress_spec = 10;
        } else if (sm.ingress_port == 10) {
            sm.egress_spec = 3;
        } else {
            sm.egress_spec = sm.ingress_port;
        }
    }
}

control EchoEgress(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    apply {}
}

control EchoChecksum(inout headers h, inout metadata m) {
    apply {}
}

control EchoDeparser(packet_out p, in headers h) {
    apply {
        p.emit(h.ethernet);
    }
}

V1Switch(EchoParser(), EchoVerify(), EchoIngress(), EchoEgress(), EchoChecksum(), EchoDeparser()) main;
