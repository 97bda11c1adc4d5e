// Parsers (P4_16 chapter 13).
#include <v1model.p4>

error {
    BadVersion
}

enum bit<16> EtherType {
    Ipv4 = 0x800,
    Vlan = 0x8100
}

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    EtherType type;
}

header vlan_t {
    bit<16> tag;
    EtherType type;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<152> rest;
}

header options_t {
    varbit<320> data;
}

header tcp_t {
    bit<16> sport;
    bit<16> dport;
}

header udp_t {
    bit<16> sport;
    bit<16> dport;
    bit<32> rest;
}

header_union l4_t {
    tcp_t tcp;
    udp_t udp;
}

struct headers_t {
    ethernet_t ethernet;
    vlan_t[3] vlan;
    ipv4_t ipv4;
    options_t options;
    l4_t l4;
    l4_t[2] more;
}

struct peek_t {
    bit<16> a;
    bit<16> b;
}

struct ports_t {
    bit<16> low;
    @match(ternary)
    bit<16> high;
}

struct metadata_t {
    bit<16> seen;
    bool flag;
}

parser Vlans(packet_in packet, out vlan_t[3] stack, inout bit<16> seen)(bit<16> limit) {
    value_set<bit<16>>(4) tags;
    value_set<ports_t>(8) ports;

    state start {
        packet.extract(stack.next);
        seen = seen + 1 + limit;
        transition select(stack.last.tag) {
            tags: more;
            0x10 .. 0x20: more;
            default: accept;
        }
    }

    state more {
        bit<16> fresh;
        fresh = fresh + stack[stack.lastIndex].tag;
        transition select(stack.last.type, stack.last.tag, fresh) {
            (EtherType.Vlan, 16w1 &&& 16w3, _): start;
            (_, default, 5): reject;
            _: both;
        }
    }

    state both {
        transition select(stack[0].tag, stack[1].tag) {
            ports: accept;
            (tags, 3): reject;
            (1, 2): accept;
        }
    }
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Vlans(3) vlans;
    bit<32> length = packet.length();
    const bit<4> VERSION = 4;

    state start {
        packet.extract(hdr.ethernet);
        verify(hdr.ethernet.dst != 0, error.BadVersion);
        transition select(hdr.ethernet.type) {
            EtherType.Ipv4: ipv4;
            EtherType.Vlan: vlan;
            default: accept;
        }
    }

    state vlan {
        vlans.apply(packet, hdr.vlan, meta.seen);
        if (hdr.vlan[0].isValid()) {
            meta.flag = true;
        }
        transition ipv4;
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        verify(hdr.ipv4.version == VERSION, error.BadVersion);
        transition select(hdr.ipv4.ihl, meta.flag) {
            (5, _): l4;
            (0 .. 4, true): reject;
            (default, default): options;
        }
    }

    state options {
        packet.extract(hdr.options, (bit<32>)(hdr.ipv4.ihl - 5) << 5);
        transition l4;
    }

    state l4 {
        peek_t peek = packet.lookahead<peek_t>();
        transition select(packet.lookahead<bit<16>>() + peek.b) {
            80: tcp;
            53: udp;
            _: skip;
        }
    }

    state tcp {
        packet.extract(hdr.l4.tcp);
        packet.extract(hdr.more.next.tcp);
        transition accept;
    }

    state udp {
        packet.extract<udp_t>(hdr.l4.udp);
        packet.extract<tcp_t>(_);
        transition accept;
    }

    state skip {
        packet.advance(length & 32w0x18);
        transition accept;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(), { hdr.ipv4.version, hdr.ipv4.ihl }, hdr.ethernet.src[15:0], HashAlgorithm.csum16);
    }
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        hdr.vlan.push_front(1);
        hdr.vlan[0] = { 5, EtherType.Ipv4 };
        hdr.vlan.pop_front(2);
        hdr.l4.udp = { 1, 2, 3 };
        hdr.l4.tcp.setValid();
        if (hdr.l4.isValid() && hdr.l4.tcp == (tcp_t){ sport = 5, dport = 6 }) {
            hdr.l4.tcp.setInvalid();
        }
        hdr.ethernet = {#};
        hdr.more = hdr.more;
        meta.seen = (bit<16>)hdr.vlan.size;
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {}
}

control C(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(), { hdr.ipv4.version }, meta.seen, HashAlgorithm.csum16);
    }
}

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
        packet.emit(hdr.l4);
        packet.emit(hdr);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
