// Heartbeats between neighbours, without a controller: a packet generator makes one every period, the switch sends it to multicast
// group 1 and notes when it last heard each neighbour. If a port goes down, a notice goes to the same group. README.md says how to run it.

#include <core.p4>
#include <v1model.p4>
#include <pointsman/generator.p4>

// Generated packets come in as from this port.
const bit<9> GENERATOR_PORT = 68;
const bit<16> HEARTBEATS = 1;

// The first experimental type of IEEE 802.
const bit<16> TYPE_HEARTBEAT = 0x88b5;
const bit<16> TYPE_PORT_DOWN = 0x88b6;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header heartbeat_t {
    // Heartbeats made before this one, or the port that went down.
    bit<32> number;
}

struct headers_t {
    generated_t generated;
    ethernet_t ethernet;
    heartbeat_t heartbeat;
}

struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        transition select(standard.ingress_port) {
            GENERATOR_PORT: generated;
            default: ethernet;
        }
    }
    state generated {
        packet.extract(hdr.generated);
        transition ethernet;
    }
    state ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            TYPE_HEARTBEAT: heartbeat;
            default: accept;
        }
    }
    state heartbeat {
        packet.extract(hdr.heartbeat);
        transition accept;
    }
}

control NoVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Beat(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    // When each port last received a heartbeat, in microseconds.
    register<bit<48>>(512) heard;

    apply {
        if (hdr.generated.isValid()) {
            hdr.heartbeat.setValid();
            if (hdr.generated.generator == HEARTBEATS) {
                hdr.ethernet.type = TYPE_HEARTBEAT;
                hdr.heartbeat.number = hdr.generated.batch;
            } else {
                hdr.ethernet.type = TYPE_PORT_DOWN;
                hdr.heartbeat.number = (bit<32>)hdr.generated.port;
            }
            hdr.generated.setInvalid();
            standard.mcast_grp = 1;
        } else {
            if (hdr.heartbeat.isValid()) {
                heard.write((bit<32>)standard.ingress_port, standard.ingress_global_timestamp);
            }
            mark_to_drop(standard);
        }
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}

control NoCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(Parse(), NoVerify(), Beat(), NoEgress(), NoCompute(), Deparse()) main;
