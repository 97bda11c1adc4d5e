// Parser errors reach ingress; value sets; unparsed bytes are the payload.
#include <core.p4>
#include <v1model.p4>

error { BadVersion }

header h_t {
    bit<8> version;
    bit<8> kind;
}
header more_t { bit<16> more; }
header report_t { bit<8> error_seen; }

struct headers_t {
    report_t report;
    h_t h;
    more_t more;
}
struct meta_t { }

parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    value_set<bit<8>>(4) kinds;
    state start {
        b.extract(h.h);
        verify(h.h.version == 1, error.BadVersion);
        transition select(h.h.kind) {
            kinds: more;
            default: accept;
        }
    }
    state more {
        b.extract(h.more);
        transition accept;
    }
}

control V(inout headers_t h, inout meta_t m) { apply { } }

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        h.report.setValid();
        h.report.error_seen = 0xff;
        if (s.parser_error == error.NoError) { h.report.error_seen = 0; }
        if (s.parser_error == error.PacketTooShort) { h.report.error_seen = 1; }
        if (s.parser_error == error.BadVersion) { h.report.error_seen = 2; }
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        // The length follows what ingress did to the headers.
        if (h.h.isValid()) { h.h.kind = (bit<8>) s.packet_length; }
    }
}

control C(inout headers_t h, inout meta_t m) { apply { } }

control D(packet_out b, in headers_t h) {
    apply {
        b.emit(h.report);
        b.emit(h.h);
        b.emit(h.more);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
