// SPDX-License-Identifier: Apache-2.0
// Bytes to headers and back.

#ifndef BALANCER_PARSER_P4
#define BALANCER_PARSER_P4

#include "headers.p4"

parser BalancerParser(packet_in packet,
                      out headers_t hdr,
                      inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    bit<16> longest = 0; // what UDP may say of its length: any, where the rest comes in other fragments
#ifdef BALANCER_STORE
    RedPlaneFixedParser() answer;
    bool more;
#endif
#ifdef BALANCER_TEA
    TeaParser() servers;
    bool more;
#endif

    state start {
        transition select(standard_metadata.ingress_port) {
            CPU_PORT: parse_packet_out;
#ifdef BALANCER_STORE
            default: parse_store;
#elif defined(BALANCER_TEA)
            default: parse_servers;
#else
            default: parse_ethernet;
#endif
        }
    }

#ifdef BALANCER_STORE
    state parse_store {
        transition select(meta.foreign) {
            true: parse_ethernet;
            default: parse_answer;
        }
    }

    // An answer of the store, with the packet that it is about behind it.
    state parse_answer {
        answer.apply(packet, hdr.store_outer, hdr.store, more);
        transition select(more) {
            true: parse_ethernet;
            default: accept;
        }
    }
#endif

#ifdef BALANCER_TEA
    // An answer of a server, or a packet that goes to one as a whole.
    state parse_servers {
        servers.apply(packet, hdr.tea, meta.tea, standard_metadata, more);
        transition select(more) {
            true: parse_ethernet;
            default: accept;
        }
    }

    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition select(hdr.packet_out.egress_port) {
            SETTLED_PORT: parse_settled;
            default: parse_ethernet;
        }
    }

    state parse_settled {
        packet.extract(hdr.settled);
        transition accept;
    }
#else
    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition parse_ethernet;
    }
#endif

    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_ARP: parse_arp;
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_IPV6: parse_ipv6;
            ETHERTYPE_REPORT: parse_frame_report;
            default: accept;
        }
    }

    state parse_arp {
        packet.extract(hdr.arp);
        transition accept;
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        verify(hdr.ipv4.version == 4 && hdr.ipv4.ihl >= 5, error.ParserInvalidArgument);
        transition select(hdr.ipv4.ihl) {
            5: parse_ipv4_payload;
            default: parse_ipv4_options;
        }
    }

    state parse_ipv4_options {
        packet.extract(hdr.ipv4_options, ((bit<32>)hdr.ipv4.ihl - 5) << 5);
        transition parse_ipv4_payload;
    }

    state parse_ipv4_payload {
        verify(hdr.ipv4.len >= (bit<16>)hdr.ipv4.ihl << 2 && (bit<32>)hdr.ipv4.len + 14 <= standard_metadata.packet_length,
               error.ParserInvalidArgument);
        meta.l4_len = hdr.ipv4.len - ((bit<16>)hdr.ipv4.ihl << 2);
        longest = hdr.ipv4.more_fragments == 1 ? 16w0xffff : meta.l4_len;
        // Only the first fragment has a transport header.
        transition select(hdr.ipv4.fragment, hdr.ipv4.proto) {
            (0, PROTO_ICMP): parse_icmp;
            (0, PROTO_TCP): parse_tcp;
            (0, PROTO_UDP): parse_udp;
            (0, PROTO_PROBE): parse_probe;
            default: accept;
        }
    }

    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        verify(hdr.ipv6.version == 6 && (bit<32>)hdr.ipv6.len + 54 <= standard_metadata.packet_length, error.ParserInvalidArgument);
        meta.l4_len = hdr.ipv6.len;
        longest = meta.l4_len;
        transition select(hdr.ipv6.proto) {
            PROTO_ICMPV6: parse_icmpv6;
            PROTO_TCP: parse_tcp;
            PROTO_UDP: parse_udp;
            PROTO_PROBE: parse_probe;
            PROTO_FRAGMENT: parse_ipv6_fragment;
            default: accept;
        }
    }

    state parse_ipv6_fragment {
        packet.extract(hdr.ipv6_fragment);
        verify(hdr.ipv6.len >= 8, error.ParserInvalidArgument);
        meta.l4_len = hdr.ipv6.len - 8;
        longest = 0xffff;
        transition select(hdr.ipv6_fragment.offset, hdr.ipv6_fragment.next) {
            (0, PROTO_TCP): parse_tcp;
            (0, PROTO_UDP): parse_udp;
            default: accept;
        }
    }

    state parse_icmp {
        packet.extract(hdr.icmp);
        transition select(hdr.icmp.kind) {
            3: parse_quoted_ipv4;  // destination unreachable
            11: parse_quoted_ipv4; // time exceeded
            12: parse_quoted_ipv4; // parameter problem
            default: accept;
        }
    }

    state parse_quoted_ipv4 {
        packet.extract(hdr.quoted_ipv4);
        transition select(hdr.quoted_ipv4.ihl, hdr.quoted_ipv4.fragment, hdr.quoted_ipv4.proto) {
            (5, 0, PROTO_TCP): parse_quoted;
            (5, 0, PROTO_UDP): parse_quoted;
            default: accept;
        }
    }

    state parse_icmpv6 {
        packet.extract(hdr.icmpv6);
        transition select(hdr.icmpv6.kind, meta.l4_len) {
            (1 .. 4, _): parse_quoted_ipv6; // errors
            (135, 32): parse_nd;            // solicitation with the sender's address
            (136, 32): parse_nd;            // advertisement with the target's
            default: accept;
        }
    }

    state parse_nd {
        packet.extract(hdr.nd);
        transition accept;
    }

    state parse_quoted_ipv6 {
        packet.extract(hdr.quoted_ipv6);
        transition select(hdr.quoted_ipv6.proto) {
            PROTO_TCP: parse_quoted;
            PROTO_UDP: parse_quoted;
            default: accept;
        }
    }

    state parse_quoted {
        packet.extract(hdr.quoted);
        transition accept;
    }

    state parse_tcp {
        packet.extract(hdr.tcp);
        verify(hdr.tcp.data_offset >= 5 && (bit<16>)hdr.tcp.data_offset << 2 <= meta.l4_len, error.ParserInvalidArgument);
        transition accept;
    }

    state parse_udp {
        packet.extract(hdr.udp);
        verify(hdr.udp.len >= 8 && hdr.udp.len <= longest, error.ParserInvalidArgument);
        transition select(hdr.udp.dport, hdr.udp.len) {
            (REPORT_PORT, 20 .. 65535): parse_report;
            default: accept;
        }
    }

    // Reports are looked at, not extracted, so that they are payload to the checksum and are forwarded if they are not for us.
    state parse_report {
        hdr.report = packet.lookahead<report_t>();
        transition select(hdr.report.version, hdr.udp.len) {
            (REPORT_PLAIN, _): parse_plain_report;
            (REPORT_SIGNED, 32 .. 65535): parse_signed_report;
            default: accept;
        }
    }

    state parse_plain_report {
        hdr.plain_report = packet.lookahead<plain_report_t>();
        transition select(hdr.report.metrics, hdr.report.length, hdr.udp.len) {
            (METRICS_LOAD &&& 3, 4 .. 255, 24 .. 65535): parse_plain_load;
            (METRICS_LOADS &&& 3, 11 .. 255, 52 .. 65535): parse_plain_loads;
            default: accept;
        }
    }

    state parse_plain_load {
        bit<32> word = packet.lookahead<bit<128>>()[31:0];
        meta.words = word ++ word ++ word ++ word ++ word ++ word ++ word ++ word;
        transition accept;
    }

    state parse_plain_loads {
        meta.words = packet.lookahead<bit<352>>()[255:0];
        transition accept;
    }

    state parse_signed_report {
        hdr.signed_report = packet.lookahead<signed_report_t>();
        transition select(hdr.report.metrics, hdr.udp.len) {
            (METRICS_LOAD &&& 3, 36 .. 65535): parse_signed_load;
            (METRICS_LOADS &&& 3, 64 .. 65535): parse_signed_loads;
            default: accept;
        }
    }

    state parse_signed_load {
        bit<32> word = packet.lookahead<bit<224>>()[31:0];
        meta.words = word ++ word ++ word ++ word ++ word ++ word ++ word ++ word;
        transition accept;
    }

    state parse_signed_loads {
        meta.words = packet.lookahead<bit<448>>()[255:0];
        transition accept;
    }

    state parse_frame_report {
        hdr.frame_report = packet.lookahead<frame_report_t>();
        transition accept;
    }

    // Neither are probes extracted.
    state parse_probe {
        transition select(meta.l4_len) {
            0 .. 1: accept;
            default: parse_narrow_probe;
        }
    }

    state parse_narrow_probe {
        probe_t probe = packet.lookahead<probe_t>();
        meta.probe = PROBE_NARROW;
        meta.probe_id = (bit<8>)probe.id;
        meta.probe_cpu = (bit<8>)probe.cpu;
        meta.probe_memory = (bit<8>)probe.memory;
        meta.probe_link = (bit<8>)probe.link;
        transition select(probe.id, probe.cpu, meta.l4_len) {
            (15, 1, 12 .. 65535): parse_wide_probe;
            default: accept;
        }
    }

    state parse_wide_probe {
        wide_probe_t probe = packet.lookahead<wide_probe_t>();
        meta.probe = PROBE_WIDE;
        meta.probe_id = probe.id;
        meta.probe_cpu = probe.cpu;
        meta.probe_memory = probe.memory;
        meta.probe_link = probe.link;
        meta.probe_sequence = probe.sequence;
        transition accept;
    }
}

control BalancerVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && !hdr.ipv4_options.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp_ecn, hdr.ipv4.len, hdr.ipv4.id, hdr.ipv4.reserved,
              hdr.ipv4.dont_fragment, hdr.ipv4.more_fragments, hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.proto,
              hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4_options.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp_ecn, hdr.ipv4.len, hdr.ipv4.id, hdr.ipv4.reserved,
              hdr.ipv4.dont_fragment, hdr.ipv4.more_fragments, hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.proto,
              hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4_options.data },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
        // Reports are for us, so their checksum is for us to verify; that of a first fragment covers more than there is. All ones stand
        // for zero (RFC 768).
        verify_checksum_with_payload(
            hdr.report.isValid() && hdr.udp.len <= meta.l4_len && hdr.ipv4.isValid() && hdr.udp.checksum != 0 && hdr.udp.checksum != 0xffff,
            { hdr.ipv4.src, hdr.ipv4.dst, 8w0, hdr.ipv4.proto, hdr.udp.len, hdr.udp.sport, hdr.udp.dport, hdr.udp.len },
            hdr.udp.checksum, HashAlgorithm.csum16);
        verify_checksum_with_payload(
            hdr.report.isValid() && hdr.udp.len <= meta.l4_len && hdr.ipv6.isValid() && hdr.udp.checksum != 0xffff,
            { hdr.ipv6.src, hdr.ipv6.dst, 8w0, hdr.ipv6.proto, hdr.udp.len, hdr.udp.sport, hdr.udp.dport, hdr.udp.len },
            hdr.udp.checksum, HashAlgorithm.csum16);
#ifdef BALANCER_TEA
        TEA_VERIFY(hdr.tea, meta.tea);
#endif
    }
}

// Every checksum is updated where the field that it covers changes, by the difference (RFC 1624): what was wrong on the
// way in stays wrong on the way out, and is noticed by the one who can judge it. So nothing is left to do here.
control BalancerCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
#ifdef BALANCER_STORE
        REDPLANE_COMPUTE(hdr.store_outer, hdr.store, meta.store, hdr.packet_in, hdr.ethernet, hdr.arp, hdr.outer_ipv4, hdr.outer_ipv6, hdr.ipv4,
                         hdr.ipv4_options, hdr.ipv6, hdr.ipv6_fragment, hdr.icmp, hdr.icmpv6, hdr.nd, hdr.quoted_ipv4, hdr.quoted_ipv6,
                         hdr.quoted, hdr.tcp, hdr.udp);
#endif
#ifdef BALANCER_TEA
        TEA_COMPUTE(hdr.tea);
#endif
    }
}

control BalancerDeparser(packet_out packet, in headers_t hdr) {
    apply {
#ifdef BALANCER_STORE
        packet.emit(hdr.store_outer);
        packet.emit(hdr.store);
#endif
#ifdef BALANCER_TEA
        TEA_EMIT(packet, hdr.tea);
#endif
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.arp);
        packet.emit(hdr.outer_ipv4);
        packet.emit(hdr.outer_ipv6);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv4_options);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.ipv6_fragment);
        packet.emit(hdr.icmp);
        packet.emit(hdr.icmpv6);
        packet.emit(hdr.nd);
        packet.emit(hdr.quoted_ipv4);
        packet.emit(hdr.quoted_ipv6);
        packet.emit(hdr.quoted);
        packet.emit(hdr.tcp);
        packet.emit(hdr.udp);
    }
}

#endif
