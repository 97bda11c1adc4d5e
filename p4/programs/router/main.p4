// SPDX-License-Identifier: Apache-2.0
// Bridging and routing: frames for a station leave on its port, frames for the router are routed by the longest prefix.

#include <core.p4>
#include <v1model.p4>

const bit<16> ETHERTYPE_IPV4 = 0x0800;

typedef bit<48> mac_t;
typedef bit<32> ipv4_t;
typedef bit<16> next_hop_t;

header ethernet_t {
    mac_t   dst;
    mac_t   src;
    bit<16> ethertype;
}

header ipv4_header_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  dscp_ecn;
    bit<16> len;
    bit<16> id;
    bit<3>  flags;
    bit<13> fragment;
    bit<8>  ttl;
    bit<8>  proto;
    bit<16> checksum;
    ipv4_t  src;
    ipv4_t  dst;
}

struct headers_t {
    ethernet_t    ethernet;
    ipv4_header_t ipv4;
}

struct metadata_t {
    next_hop_t next_hop;
    bool       routed;
}

parser RouterParser(packet_in packet,
                    out headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        // Options would follow between this header and the payload, and in the checksum.
        verify(hdr.ipv4.version == 4 && hdr.ipv4.ihl == 5, error.ParserInvalidArgument);
        transition accept;
    }
}

control RouterVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp_ecn, hdr.ipv4.len, hdr.ipv4.id, hdr.ipv4.flags,
              hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.proto, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control RouterIngress(inout headers_t hdr,
                      inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    action drop() {
        mark_to_drop(standard_metadata);
    }

    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    action flood(bit<16> group) {
        standard_metadata.mcast_grp = group;
    }

    // The frame is for the router itself.
    action route() {}

    // Stations of the bridge, and the router's own address.
    table stations {
        key = { hdr.ethernet.dst: exact @name("mac"); }
        actions = { forward; flood; route; drop; }
        default_action = drop();
        size = 16384;
    }

    action set_next_hop(next_hop_t next_hop) {
        meta.next_hop = next_hop;
    }

    table routes {
        key = { hdr.ipv4.dst: lpm @name("prefix"); }
        actions = { set_next_hop; drop; }
        default_action = drop();
        size = 65536;
    }

    action send(bit<9> port, mac_t src, mac_t dst) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.src = src;
        hdr.ethernet.dst = dst;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        meta.routed = true;
    }

    table next_hops {
        key = { meta.next_hop: exact @name("next_hop"); }
        actions = { send; drop; }
        default_action = drop();
        size = 4096;
    }

    apply {
        switch (stations.apply().action_run) {
            route: {
                if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1 && standard_metadata.parser_error == error.NoError
                    && standard_metadata.checksum_error == 0) {
                    if (routes.apply().hit) {
                        next_hops.apply();
                    }
                } else {
                    drop();
                }
            }
            default: {}
        }
    }
}

control RouterEgress(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    apply {
        // A flooded frame does not go back where it came from.
        if (standard_metadata.mcast_grp != 0 && standard_metadata.egress_port == standard_metadata.ingress_port) {
            mark_to_drop(standard_metadata);
        }
    }
}

control RouterCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(meta.routed,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp_ecn, hdr.ipv4.len, hdr.ipv4.id, hdr.ipv4.flags,
              hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.proto, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control RouterDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(RouterParser(), RouterVerify(), RouterIngress(), RouterEgress(), RouterCompute(), RouterDeparser()) main;
