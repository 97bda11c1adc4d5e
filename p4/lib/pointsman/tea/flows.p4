// For programs that look up TCP and UDP flows over IPv4: headers, parser, checksums, and what changes addresses. A program includes it behind
// <pointsman/tea.p4>, and then defines FlowKey and FlowApply, and includes <pointsman/tea/flow_switch.p4>, which says what they do.

#ifndef POINTSMAN_TEA_FLOWS_P4
#define POINTSMAN_TEA_FLOWS_P4

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ethertype;
}

header ipv4_t {
    bit<16> version_ihl_tos;
    bit<16> len;
    bit<16> id;
    bit<16> fragment;
    bit<8>  ttl;
    bit<8>  proto;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header ports_t {
    bit<16> src;
    bit<16> dst;
}

// The rest of TCP's header up to its checksum.
header tcp_t {
    bit<96> front;
    bit<16> checksum;
}

header udp_t {
    bit<16> len;
    bit<16> checksum;
}

struct headers_t {
    tea_headers_t tea;
    ethernet_t    ethernet;
    ipv4_t        ipv4;
    ports_t       ports;
    tcp_t         tcp;
    udp_t         udp;
}

struct metadata_t {
    tea_meta_t tea;
    bool       looks_up;
    bool       passes;
    bool       inside;
}

#define FLOW_KNOWN(hdr) hdr.ports.isValid()
#define FLOW_TARGET(hdr, meta) hdr.ipv4.dst

parser FlowParser(packet_in packet,
                  out headers_t hdr,
                  inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    TeaParser() tea;
    bool more;

    state start {
        tea.apply(packet, hdr.tea, meta.tea, standard_metadata, more);
        transition select(more) {
            true: parse_ethernet;
            default: accept;
        }
    }

    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            0x0800: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version_ihl_tos[15:8], hdr.ipv4.fragment[13:0], hdr.ipv4.proto) {
            (0x45, 0, 6): parse_tcp;
            (0x45, 0, 17): parse_udp;
            default: accept;
        }
    }

    state parse_tcp {
        packet.extract(hdr.ports);
        packet.extract(hdr.tcp);
        transition accept;
    }

    state parse_udp {
        packet.extract(hdr.ports);
        packet.extract(hdr.udp);
        transition accept;
    }
}

control FlowCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        TEA_COMPUTE(hdr.tea);
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.version_ihl_tos[11:8] == 5,
                        { hdr.ipv4.version_ihl_tos, hdr.ipv4.len, hdr.ipv4.id, hdr.ipv4.fragment, hdr.ipv4.ttl,
                          hdr.ipv4.proto, hdr.ipv4.src, hdr.ipv4.dst },
                        hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control FlowDeparser(packet_out packet, in headers_t hdr) {
    apply {
        TEA_EMIT(packet, hdr.tea);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ports);
        packet.emit(hdr.tcp);
        packet.emit(hdr.udp);
    }
}

// Replaces destination or source by a port and an address.
control FlowTranslate(inout headers_t hdr, in bool destination, in bit<48> end) {
    apply {
        bit<32> old_address = hdr.ipv4.src;
        bit<16> old_port = hdr.ports.src;
        if (destination) {
            old_address = hdr.ipv4.dst;
            old_port = hdr.ports.dst;
            hdr.ipv4.dst = end[31:0];
            hdr.ports.dst = end[47:32];
        } else {
            hdr.ipv4.src = end[31:0];
            hdr.ports.src = end[47:32];
        }
        // RFC 1624: the complement of the old sum, less the old fields, plus the new ones.
        if (hdr.tcp.isValid()) {
            hash(hdr.tcp.checksum, HashAlgorithm.csum16, 16w0,
                 { ~hdr.tcp.checksum, ~old_address, ~old_port, end }, 32w0x10000);
        }
        if (hdr.udp.isValid() && hdr.udp.checksum != 0) {
            hash(hdr.udp.checksum, HashAlgorithm.csum16, 16w0,
                 { ~hdr.udp.checksum, ~old_address, ~old_port, end }, 32w0x10000);
            if (hdr.udp.checksum == 0) {
                hdr.udp.checksum = 0xffff;
            }
        }
    }
}

#endif
