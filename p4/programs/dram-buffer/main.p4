// SPDX-License-Identifier: Apache-2.0
// A router for IPv4. Packets for a port that is congested wait in the memory of servers (docs/dram.md), or with `-D PLAIN` in the switch alone.

#include <core.p4>
#include <v1model.p4>
#include <pointsman/ipv4.p4>
#ifndef PLAIN
#include <pointsman/dram/buffer.p4>
#endif

struct headers_t {
#ifndef PLAIN
    buffer_headers_t buffer;
#endif
    ethernet_t ethernet;
    ipv4_t     ipv4;
}

struct metadata_t {
#ifndef PLAIN
    buffer_meta_t buffer;
#endif
}

parser RouteParser(packet_in packet,
                   out headers_t hdr,
                   inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
#ifdef PLAIN
    state start {
        transition parse_ethernet;
    }
#else
    BufferParser() buffer;

    state start {
        bool more;
        buffer.apply(packet, hdr.buffer, meta.buffer, standard_metadata, more);
        transition select(more) {
            true: parse_ethernet;
            default: accept;
        }
    }
#endif

    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            0x0800: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control RouteVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
#ifdef PLAIN
        IPV4_VERIFY(true, hdr.ipv4);
#else
        BUFFER_VERIFY(hdr.buffer, meta.buffer);
        IPV4_VERIFY(!BUFFER_OWN(hdr.buffer), hdr.ipv4);
#endif
    }
}

control RouteIngress(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
#ifndef PLAIN
    Buffer() buffer;
#endif

    action forward(bit<9> port, bit<48> mac) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    action drop() {
        mark_to_drop(standard_metadata);
    }

    table routes {
        key = { hdr.ipv4.dst: lpm @name("prefix"); }
        actions = { forward; drop; }
        default_action = drop;
        size = 1024;
    }

    apply {
#ifdef PLAIN
        bool is_packet = true;
#else
        bool is_packet = !BUFFER_OWN(hdr.buffer);
#endif
        if (is_packet) {
            if (hdr.ipv4.isValid() && standard_metadata.checksum_error == 0 && hdr.ipv4.ttl > 1) {
                routes.apply();
            } else {
                drop();
            }
        }
#ifndef PLAIN
        buffer.apply(hdr.buffer, meta.buffer, standard_metadata);
#endif
    }
}

control RouteEgress(inout headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
#ifndef PLAIN
    BufferDepart() depart;
#endif

    apply {
#ifndef PLAIN
        depart.apply(hdr.buffer, meta.buffer, standard_metadata);
#endif
    }
}

control RouteCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
#ifndef PLAIN
        ROCE_COMPUTE(hdr.buffer);
#endif
        IPV4_COMPUTE(hdr.ipv4);
    }
}

control RouteDeparser(packet_out packet, in headers_t hdr) {
    apply {
#ifndef PLAIN
        BUFFER_EMIT(packet, hdr.buffer);
#endif
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(RouteParser(), RouteVerify(), RouteIngress(), RouteEgress(), RouteCompute(), RouteDeparser()) main;
