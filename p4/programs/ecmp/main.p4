// SPDX-License-Identifier: Apache-2.0
// Routing over equal-cost paths, for leaves and spines alike: the longest prefix names a next hop or a group of them, and a
// hash of the flow chooses within the group. Each switch has its own seed for the hash.

#include <core.p4>
#include <v1model.p4>

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_IPV6 = 0x86dd;
const bit<8> PROTO_TCP = 6;
const bit<8> PROTO_UDP = 17;

typedef bit<48> mac_t;

header ethernet_t {
    mac_t   dst;
    mac_t   src;
    bit<16> ethertype;
}

header ipv4_t {
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
    bit<32> src;
    bit<32> dst;
}

header ipv6_t {
    bit<4>   version;
    bit<8>   dscp_ecn;
    bit<20>  flow_label;
    bit<16>  len;
    bit<8>   next_header;
    bit<8>   hop_limit;
    bit<128> src;
    bit<128> dst;
}

// The part that TCP and UDP have in common.
header ports_t {
    bit<16> src;
    bit<16> dst;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    ipv6_t     ipv6;
    ports_t    ports;
}

struct metadata_t {
    bit<32> seed;
    bit<8>  rotation;
    bit<32> hash;
    bit<32> flow;
}

parser EcmpParser(packet_in packet,
                  out headers_t hdr,
                  inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_IPV6: parse_ipv6;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        verify(hdr.ipv4.version == 4 && hdr.ipv4.ihl == 5, error.ParserInvalidArgument);
        // Fragments after the first have no ports; the first one goes the same way as they do.
        transition select(hdr.ipv4.fragment, hdr.ipv4.flags[0:0], hdr.ipv4.proto) {
            (0, 0, PROTO_TCP): parse_ports;
            (0, 0, PROTO_UDP): parse_ports;
            default: accept;
        }
    }

    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        verify(hdr.ipv6.version == 6, error.ParserInvalidArgument);
        transition select(hdr.ipv6.next_header) {
            PROTO_TCP: parse_ports;
            PROTO_UDP: parse_ports;
            default: accept;
        }
    }

    state parse_ports {
        packet.extract(hdr.ports);
        transition accept;
    }
}

control EcmpVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp_ecn, hdr.ipv4.len, hdr.ipv4.id, hdr.ipv4.flags,
              hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.proto, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control EcmpIngress(inout headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    action_selector(HashAlgorithm.identity, 4096, 32) next_hops;

    action drop() {
        mark_to_drop(standard_metadata);
    }

    action forward(bit<9> port, mac_t src, mac_t dst) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.src = src;
        hdr.ethernet.dst = dst;
    }

    // A CRC is linear: a seed alone would only renumber the choices of the switch before this one. The rotation makes switches
    // choose by different bits.
    action set_seed(bit<32> seed, bit<8> rotation) {
        meta.seed = seed;
        meta.rotation = rotation;
    }

    table switch_config {
        actions = { set_seed; }
        default_action = set_seed(0, 0);
        size = 1;
    }

    table routes_v4 {
        key = {
            hdr.ipv4.dst: lpm @name("prefix");
            meta.hash: selector;
        }
        actions = { forward; drop; }
        implementation = next_hops;
        size = 16384;
    }

    table routes_v6 {
        key = {
            hdr.ipv6.dst: lpm @name("prefix");
            meta.hash: selector;
        }
        actions = { forward; drop; }
        implementation = next_hops;
        size = 16384;
    }

    apply {
        if (standard_metadata.parser_error != error.NoError || standard_metadata.checksum_error == 1) {
            drop();
            exit;
        }
        switch_config.apply();
        bit<32> ports = 0;
        if (hdr.ports.isValid()) {
            ports = hdr.ports.src ++ hdr.ports.dst;
        }
        // Without a route, the packet is dropped.
        drop();
        if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1) {
            hash(meta.flow, HashAlgorithm.crc32, 32w0, { hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.proto, ports, meta.seed },
                 64w0x100000000);
            meta.hash = meta.flow << meta.rotation | meta.flow >> (32 - meta.rotation);
            hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
            routes_v4.apply();
        } else if (hdr.ipv6.isValid() && hdr.ipv6.hop_limit > 1) {
            hash(meta.flow, HashAlgorithm.crc32, 32w0,
                 { hdr.ipv6.src, hdr.ipv6.dst, hdr.ipv6.next_header, ports, meta.seed }, 64w0x100000000);
            meta.hash = meta.flow << meta.rotation | meta.flow >> (32 - meta.rotation);
            hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
            routes_v6.apply();
        }
    }
}

control EcmpEgress(inout headers_t hdr,
                   inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    apply {}
}

control EcmpCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp_ecn, hdr.ipv4.len, hdr.ipv4.id, hdr.ipv4.flags,
              hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.proto, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control EcmpDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.ports);
    }
}

V1Switch(EcmpParser(), EcmpVerify(), EcmpIngress(), EcmpEgress(), EcmpCompute(), EcmpDeparser()) main;
