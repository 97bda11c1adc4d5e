// SPDX-License-Identifier: Apache-2.0
// A serving gateway of a mobile network, simplified: the packets of a user come in a tunnel (GTP-U) and leave in the next one. A signalling message says which
// one that is, so a tunnel is read by all packets of the user and written by signalling.
// With `-D PLAIN` tunnels are lost with the switch; otherwise RedPlane keeps them (docs/redplane.md).

#include <core.p4>
#include <v1model.p4>

#define REDPLANE_KEY_WORDS 2
#define REDPLANE_VALUE_WORDS 2
#include <pointsman/redplane.p4>
#include <pointsman/ipv4.p4>

// UDP ports of user packets (3GPP TS 29.281) and of signalling (TS 29.274).
const bit<16> GTP_U = 2152;
const bit<16> GTP_C = 2123;
// Message types.
const bit<8> USER_PACKET = 255;
const bit<8> MODIFY_BEARER = 34;
const bit<8> MODIFIED_BEARER = 35;
// An element with a tunnel and an IPv4 address.
const bit<8> F_TEID = 87;
const bit<16> F_TEID_BYTES = 9;

header udp_t {
    bit<16> src;
    bit<16> dst;
    bit<16> len;
    bit<16> checksum;
}

header gtp_t {
    bit<8>  flags;
    bit<8>  type;
    bit<16> len;
    bit<32> tunnel;
}

// The rest of a signalling message, and its first element: where the tunnel continues.
header bearer_t {
    bit<24> sequence;
    bit<8>  spare;
    bit<8>  element;
    bit<16> bytes;
    bit<8>  instance;
    bit<8>  family;
    bit<32> tunnel;
    bit<32> address;
}

struct headers_t {
    redplane_outer_t outer;
    redplane_t       redplane;
    ethernet_t       ethernet;
    ipv4_t           ipv4;
    udp_t            udp;
    gtp_t            gtp;
    bearer_t         bearer;
}

struct metadata_t {
    redplane_meta_t redplane;
    // The packet is to an address of the gateway.
    bool            ours;
}

parser GatewayParser(packet_in packet,
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
        transition select(hdr.ipv4.version_ihl_tos[15:8], hdr.ipv4.fragment[12:0], hdr.ipv4.proto) {
            (0x45, 0, 17): parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst) {
            GTP_U: parse_user;
            GTP_C: parse_signalling;
            default: accept;
        }
    }

    state parse_user {
        packet.extract(hdr.gtp);
        transition accept;
    }

    // GTPv2 with a tunnel.
    state parse_signalling {
        packet.extract(hdr.gtp);
        transition select(hdr.gtp.flags, hdr.gtp.type) {
            (0x48, MODIFY_BEARER): parse_bearer;
            default: accept;
        }
    }

    state parse_bearer {
        packet.extract(hdr.bearer);
        transition accept;
    }
}

control GatewayVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        IPV4_VERIFY(true, hdr.ipv4);
    }
}

control GatewayIngress(inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    RedPlaneArrive() arrive;
    RedPlaneFind() find;
    RedPlaneSave() save;
    // Packets of tunnels that continue nowhere.
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

    action ours() {
        meta.ours = true;
    }

    // The gateway's addresses: packets to others are forwarded as they are.
    table addresses {
        key = { hdr.ipv4.dst: exact @name("address"); }
        actions = { ours; }
        size = 64;
    }

    action key_of_packet() {
        meta.redplane.key = hdr.ipv4.dst ++ hdr.gtp.tunnel;
        // Packets of users must not fill the store.
        meta.redplane.existing = !hdr.bearer.isValid();
    }

    // Signalling: the tunnel continues elsewhere, and the sender is answered.
    action modify() {
        bit<32> address = hdr.ipv4.dst;
        meta.redplane.value = hdr.bearer.address ++ hdr.bearer.tunnel;
        hdr.gtp.type = MODIFIED_BEARER;
        hdr.ipv4.dst = hdr.ipv4.src;
        hdr.ipv4.src = address;
        hdr.udp.dst = hdr.udp.src;
        hdr.udp.src = GTP_C;
        hdr.udp.checksum = 0;
    }

    // A packet of a user moves to the next tunnel.
    action relay() {
        hdr.ipv4.src = hdr.ipv4.dst;
        hdr.ipv4.dst = meta.redplane.value[63:32];
        hdr.gtp.tunnel = meta.redplane.value[31:0];
        hdr.udp.checksum = 0;
    }

    apply {
        arrive.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
        if (meta.redplane.step == REDPLANE_PROGRAM && standard_metadata.checksum_error == 0) {
            bool user = hdr.udp.dst == GTP_U && hdr.gtp.isValid() && hdr.gtp.flags[7:4] == 3 && hdr.gtp.type == USER_PACKET;
            bool signalling = hdr.bearer.isValid() && hdr.bearer.element == F_TEID && hdr.bearer.bytes == F_TEID_BYTES
                && hdr.bearer.family[7:6] == 2;
            addresses.apply();
            bool tunnelled = meta.ours && (user || signalling);
            bool routed = !tunnelled;
            @atomic {
                if (tunnelled) {
                    key_of_packet();
                    find.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
                    if (meta.redplane.held) {
                        if (signalling) {
                            modify();
                            routed = true;
                        } else if (meta.redplane.value != 0) {
                            relay();
                            routed = true;
                        } else {
                            refused.count(0);
                            drop();
                        }
                    }
                }
                if (routed) {
                    routes.apply();
                }
                if (tunnelled && meta.redplane.held) {
                    save.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
                }
            }
        } else if (meta.redplane.step == REDPLANE_PROGRAM || meta.redplane.step == REDPLANE_OTHER) {
            drop();
        }
    }
}

control GatewayEgress(inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata) {
    RedPlaneDepart() depart;

    apply {
        depart.apply(hdr.outer, hdr.redplane, meta.redplane, standard_metadata);
    }
}

control GatewayCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        IPV4_COMPUTE(hdr.ipv4);
        REDPLANE_COMPUTE(hdr.outer, hdr.redplane, meta.redplane, hdr.ethernet, hdr.ipv4, hdr.udp, hdr.gtp, hdr.bearer);
    }
}

control GatewayDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.outer);
        packet.emit(hdr.redplane);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.gtp);
        packet.emit(hdr.bearer);
    }
}

V1Switch(GatewayParser(), GatewayVerify(), GatewayIngress(), GatewayEgress(), GatewayCompute(), GatewayDeparser()) main;
