// SPDX-License-Identifier: Apache-2.0
// Address and port translation (NAPT) for TCP and UDP over IPv4: connections begin inside (TCP: with a SYN), and get a port of a public address. Each has two keys,
// one for the packets of each side; their values say by which address and port that side's are replaced.
// With `-D PLAIN` connections are lost with the switch, which chooses the ports itself; otherwise RedPlane keeps them, and the store chooses
// (docs/redplane.md).

#include <core.p4>
#include <v1model.p4>

#define REDPLANE_KEY_WORDS 4
#define REDPLANE_VALUE_WORDS 2
// The remote end and the protocol: both keys of a binding have them.
#define REDPLANE_SHARD_OF(key) key[95:64] ++ key[47:32] ++ key[7:0]
// A packet follows its answer so soon that the two keys of a connection could not take turns in a slot.
#define REDPLANE_SIDE_OF(key) key[8:8]
#include <pointsman/redplane.p4>
#include <pointsman/ipv4.p4>

// Bits of a connection's state: the sender has ended it.
const bit<16> ENDED = 1;

// Flags of TCP.
const bit<8> SYN = 2;
const bit<8> SYN_ACK = 0x12;
const bit<8> FIN_RST = 5;

const bit<8> TCP = 6;
const bit<8> UDP = 17;

// The rest of TCP's header, without options.
header tcp_t {
    bit<32> sequence;
    bit<32> acknowledgment;
    bit<4>  offset;
    bit<4>  reserved;
    bit<8>  flags;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

// The rest of UDP's header.
header udp_t {
    bit<16> len;
    bit<16> checksum;
}

struct headers_t {
    redplane_outer_t outer;
    redplane_t       redplane;
    ethernet_t       ethernet;
    ipv4_t           ipv4;
    ports_t          ports;
    tcp_t            tcp;
    udp_t            udp;
}

struct metadata_t {
    redplane_meta_t redplane;
    bool            inside;
    // From inside, or to a public address.
    bool            known;
}

parser NatParser(packet_in packet,
                 out headers_t hdr,
                 inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    RedPlaneParser() redplane;
    bool more;

    state start {
        redplane.apply(packet, hdr.outer, hdr.redplane, more);
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
            (0x45, 0, TCP): parse_ports;
            (0x45, 0, UDP): parse_ports;
            default: accept;
        }
    }

    state parse_ports {
        packet.extract(hdr.ports);
        transition select(hdr.ipv4.proto) {
            TCP: parse_tcp;
            UDP: parse_udp;
            default: accept;
        }
    }

    state parse_tcp {
        packet.extract(hdr.tcp);
        transition accept;
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition accept;
    }
}

// A checksum after an address with a port became another one: the sum of what goes and what comes (RFC 1624, equation 3).
bit<16> adjusted(in bit<16> checksum, in bit<48> before, in bit<48> after) {
    bit<48> goes = ~before;
    bit<32> sum = (bit<32>)(~checksum) + (bit<32>)goes[47:32] + (bit<32>)goes[31:16] + (bit<32>)goes[15:0]
                + (bit<32>)after[47:32] + (bit<32>)after[31:16] + (bit<32>)after[15:0];
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return ~sum[15:0];
}

control NatVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

// The application: what the packet changes, and its new address.
control NatTranslate(inout headers_t hdr, inout metadata_t meta) {
    apply {
        bit<48> end = meta.redplane.value[63:16];
        bit<16> state = meta.redplane.value[15:0];
        bit<48> before;
        if (meta.inside) {
            before = hdr.ipv4.src ++ hdr.ports.src;
            hdr.ipv4.src = end[47:16];
            hdr.ports.src = end[15:0];
        } else {
            before = hdr.ipv4.dst ++ hdr.ports.dst;
            hdr.ipv4.dst = end[47:16];
            hdr.ports.dst = end[15:0];
        }
        hdr.ipv4.checksum = adjusted(hdr.ipv4.checksum, before[47:16] ++ 16w0, end[47:16] ++ 16w0);
        if (hdr.tcp.isValid()) {
            hdr.tcp.checksum = adjusted(hdr.tcp.checksum, before, end);
            if (hdr.tcp.flags & FIN_RST != 0) {
                state = state | ENDED;
            } else if (hdr.tcp.flags & SYN_ACK == SYN) {
                state = 0;
            }
        } else if (hdr.udp.checksum != 0) {
            // 0 says that there is no checksum (RFC 768).
            bit<16> checksum = adjusted(hdr.udp.checksum, before, end);
            hdr.udp.checksum = checksum == 0 ? 16w0xffff : checksum;
        }
        meta.redplane.value[15:0] = state;
        meta.redplane.ending = state & ENDED != 0;
    }
}

control NatIngress(inout headers_t hdr,
                   inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    RedPlaneArrive() arrive;
    RedPlaneFind() find;
    RedPlaneSave() save;
#ifdef PLAIN
    // The port that was chosen last, from the first one on.
    register<bit<16>>(1) chosen;
#endif
    NatTranslate() translate;
    // Packets without a connection.
    counter(1, CounterType.packets) refused;

    action forward(bit<9> port, bit<48> mac) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
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

    action inside() {
        meta.inside = true;
    }

    action outside() {
        meta.inside = false;
    }

    // Where connections may begin, by the prefix of the source.
    table sides {
        key = { hdr.ipv4.src: lpm @name("prefix"); }
        actions = { inside; outside; }
        default_action = outside;
        size = 1024;
    }

    action public() {
        meta.known = true;
    }

    // The public addresses: other packets from outside are dropped.
    table addresses {
        key = { hdr.ipv4.dst: lpm @name("prefix"); }
        actions = { public; drop; }
        default_action = drop;
        size = 64;
    }

    // The side's own end, the remote end, the side, the protocol: the store builds keys of this form, too.
    action key_of_packet() {
        bit<8> side = 0;
        bit<96> ends = hdr.ipv4.src ++ hdr.ipv4.dst ++ hdr.ports.src ++ hdr.ports.dst;
        if (!meta.inside) {
            side = 1;
            ends = hdr.ipv4.dst ++ hdr.ipv4.src ++ hdr.ports.dst ++ hdr.ports.src;
        }
        meta.redplane.key = ends ++ 16w0 ++ side ++ hdr.ipv4.proto;
        bool first = !hdr.tcp.isValid() || hdr.tcp.flags & SYN_ACK == SYN;
        meta.redplane.allocate = meta.inside && first;
        meta.redplane.existing = !meta.redplane.allocate;
    }

#ifdef PLAIN
    // A new connection takes the next port, and the place of an older one.
    action choose(bit<32> address, bit<16> first, bit<16> last) {
        bit<16> offset;
        chosen.read(offset, 0);
        offset = first + offset >= last ? 16w0 : offset + 1;
        chosen.write(0, offset);
        bit<16> port = first + offset;
        redplane_key_t inside = meta.redplane.key;
        meta.redplane.value = address ++ port ++ 16w0;
        meta.redplane.held = true;
        bit<32> outside;
        redplane_key_t key = address ++ inside[95:64] ++ port ++ inside[47:32] ++ 24w1 ++ inside[7:0];
        hash(outside, HashAlgorithm.crc32, 32w0, { key }, (bit<64>)REDPLANE_SLOTS);
        outside = outside[31:1] ++ REDPLANE_SIDE_OF(key);
        redplane_keys.write(outside, key);
        redplane_values.write(outside, inside[127:96] ++ inside[63:48] ++ 16w0);
    }

    table pool {
        actions = { choose; drop; }
        default_action = drop;
    }
#endif

    apply {
        arrive.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
        if (meta.redplane.step == REDPLANE_PROGRAM) {
            sides.apply();
            meta.known = meta.inside;
            if (hdr.ports.isValid() && !meta.inside) {
                addresses.apply();
            }
            if (hdr.ports.isValid() && meta.known) {
                key_of_packet();
                @atomic {
                    find.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
#ifdef PLAIN
                    meta.redplane.held = meta.redplane.value != 0;
                    if (!meta.redplane.held && meta.redplane.allocate) {
                        pool.apply();
                    }
#endif
                    if (meta.redplane.held) {
                        translate.apply(hdr, meta);
                        routes.apply();
                        save.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
#ifdef PLAIN
                    } else {
                        refused.count(0);
                        drop();
#endif
                    }
                }
            } else {
                refused.count(0);
                drop();
            }
        } else if (meta.redplane.step == REDPLANE_OTHER) {
            drop();
        }
    }
}

control NatEgress(inout headers_t hdr,
                  inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
#ifndef PLAIN
    RedPlaneDepart() depart;
#endif

    apply {
#ifndef PLAIN
        depart.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
#endif
    }
}

control NatCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        REDPLANE_COMPUTE(hdr.outer, hdr.redplane, meta.redplane, hdr.ethernet, hdr.ipv4, hdr.ports, hdr.tcp, hdr.udp);
    }
}

control NatDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.outer);
        packet.emit(hdr.redplane);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ports);
        packet.emit(hdr.tcp);
        packet.emit(hdr.udp);
    }
}

V1Switch(NatParser(), NatVerify(), NatIngress(), NatEgress(), NatCompute(), NatDeparser()) main;
