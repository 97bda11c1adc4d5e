// SPDX-License-Identifier: Apache-2.0
// A router for IPv4 that counts the packets, or with `-D COUNT_BYTES` the bytes, of each flow. The counters are in the memory of servers (docs/dram.md), or with
// `-D PLAIN` in the switch.

#include <core.p4>
#include <v1model.p4>
#include <pointsman/ipv4.p4>

// Counters, of all servers together. Flows with the same hash have one.
#ifndef FLOWS
#define FLOWS 16777216
#endif

#ifndef PLAIN
#include <pointsman/dram/counters.p4>
#endif

struct headers_t {
#ifndef PLAIN
    counters_headers_t counters;
#endif
    ethernet_t ethernet;
    ipv4_t     ipv4;
    ports_t    ports;
}

struct metadata_t {
#ifndef PLAIN
    counters_meta_t counters;
#endif
    bit<32>         flow;
}

parser CountParser(packet_in packet,
                   out headers_t hdr,
                   inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
#ifdef PLAIN
    state start {
        transition parse_ethernet;
    }
#else
    CountersParser() counters;

    state start {
        bool more;
        counters.apply(packet, hdr.counters, meta.counters, standard_metadata, more);
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
        // Only packets without options that are not fragments have ports behind the header.
        transition select(hdr.ipv4.version_ihl_tos[15:8], hdr.ipv4.fragment & 0x3fff, hdr.ipv4.proto) {
            (0x45, 0, 6): parse_ports;
            (0x45, 0, 17): parse_ports;
            default: accept;
        }
    }

    state parse_ports {
        packet.extract(hdr.ports);
        transition accept;
    }
}

control CountVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
#ifdef PLAIN
        IPV4_VERIFY(true, hdr.ipv4);
#else
        COUNTERS_VERIFY(hdr.counters, meta.counters);
        IPV4_VERIFY(!COUNTERS_OWN(hdr.counters), hdr.ipv4);
#endif
    }
}

control CountIngress(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
#ifdef PLAIN
    counter(FLOWS, CounterType.packets_and_bytes) flows;
#else
    Counters() counters;
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
        bool is_packet = !COUNTERS_OWN(hdr.counters);
#endif
        if (is_packet) {
            if (hdr.ipv4.isValid() && standard_metadata.checksum_error == 0 && hdr.ipv4.ttl > 1) {
                hash(meta.flow, HashAlgorithm.crc32, 32w0,
                     { hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.proto, hdr.ports }, 64w0 + FLOWS);
#ifdef PLAIN
                flows.count(meta.flow);
#else
                meta.counters.index = meta.flow;
#ifdef COUNT_BYTES
                meta.counters.amount = (bit<64>)standard_metadata.packet_length;
#else
                meta.counters.amount = 1;
#endif
#endif
                routes.apply();
            } else {
                drop();
            }
        }
#ifndef PLAIN
        counters.apply(hdr.counters, meta.counters, standard_metadata);
#endif
    }
}

control CountEgress(inout headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
#ifndef PLAIN
    CountersDepart() depart;
#endif

    apply {
#ifndef PLAIN
        depart.apply(hdr.counters, meta.counters, standard_metadata);
#endif
    }
}

control CountCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
#ifndef PLAIN
        ROCE_COMPUTE(hdr.counters);
#endif
        IPV4_COMPUTE(hdr.ipv4);
    }
}

control CountDeparser(packet_out packet, in headers_t hdr) {
    apply {
#ifndef PLAIN
        COUNTERS_EMIT(packet, hdr.counters);
#endif
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ports);
    }
}

V1Switch(CountParser(), CountVerify(), CountIngress(), CountEgress(), CountCompute(), CountDeparser()) main;
