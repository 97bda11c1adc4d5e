// Checksums: verified before ingress, updated after egress, with and without the payload.
#include <core.p4>
#include <v1model.p4>

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  tos;
    bit<16> len;
    bit<16> id;
    bit<16> frag;
    bit<8>  ttl;
    bit<8>  proto;
    bit<16> sum;
    bit<32> src;
    bit<32> dst;
}

header udp_t {
    bit<16> sport;
    bit<16> dport;
    bit<16> len;
    bit<16> sum;
}

struct headers_t { ipv4_t ip; udp_t udp; }
struct meta_t { }

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        b.extract(h.ip);
        transition select(h.ip.proto) {
            17: udp;
            default: accept;
        }
    }
    state udp {
        b.extract(h.udp);
        transition accept;
    }
}

control V(inout headers_t h, inout meta_t m) {
    apply {
        verify_checksum(true,
            { h.ip.version, h.ip.ihl, h.ip.tos, h.ip.len, h.ip.id, h.ip.frag, h.ip.ttl, h.ip.proto, h.ip.src, h.ip.dst },
            h.ip.sum, HashAlgorithm.csum16);
        verify_checksum_with_payload(h.udp.isValid() && h.udp.sum != 0,
            { h.ip.src, h.ip.dst, 8w0, h.ip.proto, h.udp.len, h.udp.sport, h.udp.dport, h.udp.len },
            h.udp.sum, HashAlgorithm.csum16);
    }
}

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        if (s.checksum_error == 1) {
            s.egress_spec = 2;
        } else {
            h.ip.ttl = h.ip.ttl - 1;
            h.udp.dport = 0x1234;
        }
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }

control C(inout headers_t h, inout meta_t m) {
    apply {
        update_checksum(true,
            { h.ip.version, h.ip.ihl, h.ip.tos, h.ip.len, h.ip.id, h.ip.frag, h.ip.ttl, h.ip.proto, h.ip.src, h.ip.dst },
            h.ip.sum, HashAlgorithm.csum16);
        update_checksum_with_payload(h.udp.isValid() && h.udp.sum != 0,
            { h.ip.src, h.ip.dst, 8w0, h.ip.proto, h.udp.len, h.udp.sport, h.udp.dport, h.udp.len },
            h.udp.sum, HashAlgorithm.csum16);
    }
}

control D(packet_out b, in headers_t h) {
    apply {
        b.emit(h.ip);
        b.emit(h.udp);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
