// Fields of headers that may be invalid: from the parser through the blocks after it.
#include <core.p4>
#include <v1model.p4>

header eth_t {
    bit<16> kind;
}

header ip_t {
    bit<8> ttl;
    bit<8> proto;
    bit<16> sum;
}

header tcp_t {
    bit<16> port;
}

struct headers_t {
    eth_t eth;
    ip_t ip;
    ip_t inner;
    tcp_t tcp;
    tcp_t never;
    tcp_t[2] stack;
}

struct metadata_t {
    bit<8> seen;
    bool has_ip;
}

parser P(packet_in b, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        b.extract(hdr.eth);
        transition select(hdr.eth.kind) {
            0x800: ip;
            0x900: both;
            default: accept;
        }
    }
    state ip {
        b.extract(hdr.ip);
        meta.has_ip = true;
        transition select(hdr.ip.proto) {
            6: tcp;
            default: accept;
        }
    }
    state tcp {
        b.extract(hdr.tcp);
        transition accept;
    }
    state both {
        hdr.inner = b.lookahead<ip_t>();
        b.extract(hdr.ip);
        transition last;
    }
    state last {
        meta.seen = hdr.inner.ttl;
        transition accept;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ip.isValid(), { hdr.ip.ttl, hdr.ip.proto }, hdr.ip.sum, HashAlgorithm.csum16);
        verify_checksum(true, { hdr.ip.ttl, hdr.ip.proto }, hdr.ip.sum, HashAlgorithm.csum16); //~ WARNING P0709 header `hdr.ip` may be invalid
    }
}

control Inner(inout ip_t ip, in headers_t all) {
    apply {
        ip.ttl = ip.ttl - 1; //~ WARNING P0709 `ip` may be invalid
        ip.proto = (bit<8>)all.never.port; //~ WARNING P0707 header `all.never`, which cannot be valid
    }
}

bit<8> ttl(in headers_t h) {
    return h.ip.ttl; //~ WARNING P0709 header `h.ip` may be invalid
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    Inner() inner;
    action dec() {
        hdr.ip.ttl = hdr.ip.ttl - 1; //~ WARNING P0709
    }
    action dec_if_known() {
        hdr.ip.ttl = hdr.ip.ttl - 1;
    }
    action strip() {
        hdr.eth.setInvalid();
    }
    table by_port {
        key = {
            sm.ingress_port: exact;
        }
        actions = {
            dec;
            NoAction;
        }
    }
    table by_ip {
        key = {
            hdr.ip.isValid(): exact;
            hdr.ip.ttl: ternary;
        }
        actions = {
            dec_if_known;
            NoAction;
        }
    }
    table by_ttl {
        key = {
            hdr.ip.ttl: exact; //~ WARNING P0709
        }
        actions = {
            dec_if_known;
            NoAction;
        }
    }
    table strips {
        key = {
            sm.ingress_port: exact;
        }
        actions = {
            strip;
            NoAction;
        }
    }
    apply {
        by_port.apply();
        by_ip.apply();
        if (sm.ingress_port == 1) {
            by_ttl.apply();
        }
        // The parser reads TCP only after IP, and an inner header only with one.
        if (hdr.tcp.isValid() || hdr.inner.isValid()) {
            meta.seen = hdr.ip.ttl;
        }
        meta.seen = hdr.ip.isValid() && hdr.ip.ttl == 1 ? 8w1 : 8w2;
        if (!hdr.ip.isValid()) {
            meta.seen = hdr.ip.proto; //~ WARNING P0707 which cannot be valid
        } else if (hdr.ip.ttl == 0) {
            meta.seen = hdr.ip.proto;
        }
        // These may say that there is an IP header.
        if (meta.has_ip) {
            meta.seen = hdr.ip.ttl;
        }
        if (hdr.eth.kind == 0x800) {
            meta.seen = hdr.ip.ttl;
        }
        // This cannot.
        if (sm.ingress_port == 2) {
            meta.seen = ttl(hdr);
        }
        if (sm.ingress_port == 3) {
            inner.apply(hdr.ip, hdr);
        }
        if (!(hdr.ip.isValid() && hdr.tcp.isValid())) {
            meta.seen = hdr.ip.ttl; //~ WARNING P0709
        } else {
            hdr.tcp.port = hdr.tcp.port + (bit<16>)hdr.ip.ttl;
        }
        // Nothing extracts it.
        meta.seen = (bit<8>)hdr.stack[0].port; //~ WARNING P0707 `hdr.stack[0]`, which no path makes valid
        strips.apply();
        hdr.eth.kind = 1;
        @noWarn("invalid_header") {
            meta.seen = (bit<8>)hdr.tcp.port;
        }
        if (!hdr.ip.isValid()) {
            mark_to_drop(sm);
        }
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        // Others are dropped.
        meta.seen = hdr.ip.ttl;
        // Copies of packets may still have it.
        if (sm.instance_type == 1) {
            hdr.ip.sum = hdr.eth.kind;
        }
        meta.seen = (bit<8>)hdr.inner.sum; //~ WARNING P0709
    }
}

control C(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control D(packet_out b, in headers_t hdr) {
    apply {
        b.emit(hdr);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
