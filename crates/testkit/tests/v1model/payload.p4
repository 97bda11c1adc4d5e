// Fields of variable length: extracted, copied, compared, hashed alone and behind numbers, emitted between others.
#include <core.p4>
#include <v1model.p4>

header kind_t {
    bit<8> kind;
    bit<8> bytes;
}

header sums_t {
    bit<32> alone;
    bit<32> behind;
    bit<8>  same;
}

header middle_t {
    bit<16>     before;
    varbit<480> body;
    bit<24>     after;
}

header whole_t {
    varbit<480> body;
}

struct headers_t {
    sums_t   sums;
    kind_t   kind;
    middle_t middle;
    whole_t  whole;
}

struct meta_t {
    bit<8> unused;
}

parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.kind);
        packet.extract(hdr.middle, (bit<32>)hdr.kind.bytes << 3);
        transition select(hdr.kind.kind) {
            1: second;
            default: accept;
        }
    }

    state second {
        packet.extract(hdr.whole, (bit<32>)hdr.kind.bytes << 3);
        transition accept;
    }
}

control V(inout headers_t hdr, inout meta_t meta) {
    apply {}
}

control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        if (hdr.middle.isValid()) {
            hdr.sums.setValid();
            hash(hdr.sums.alone, HashAlgorithm.crc32, 32w0, { hdr.middle.body }, 64w0x100000000);
            hash(hdr.sums.behind, HashAlgorithm.crc32, 32w0, { hdr.kind.kind, hdr.middle.before, hdr.middle.body }, 64w0x100000000);
            hdr.sums.same = hdr.whole.isValid() && hdr.whole.body == hdr.middle.body ? 8w1 : 0;
            if (hdr.kind.kind == 2) {
                hdr.whole.setValid();
                hdr.whole.body = hdr.middle.body;
            }
            if (hdr.kind.kind == 3) {
                hdr.middle.setInvalid();
            }
        }
    }
}

control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {}
}

control C(inout headers_t hdr, inout meta_t meta) {
    apply {}
}

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
