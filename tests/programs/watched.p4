// A selector whose members send to a port each, for a test of watch ports.

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

struct metadata_t {
    bit<8> key;
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control NoVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Pick(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    counter(512, CounterType.packets) picked;
    action_selector(HashAlgorithm.crc16, 32w16, 32w16) members;

    action out_of(bit<9> port) {
        picked.count((bit<32>)port);
        standard.egress_spec = port;
    }

    table spread {
        key = {
            meta.key: exact @name("key");
            hdr.ethernet.dst: selector;
        }
        actions = { out_of; @defaultonly NoAction; }
        implementation = members;
        size = 16;
    }

    apply {
        spread.apply();
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}

control NoUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
    }
}

V1Switch(Parse(), NoVerify(), Pick(), NoEgress(), NoUpdate(), Deparse()) main;
