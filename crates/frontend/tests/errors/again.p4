// Effects in front of a control that may send the packet back. Blocks that `main` does not use are looked at by themselves.
#include <v1model.p4>

header h_t {
    bit<8> a;
}

struct headers_t {
    h_t h;
}

struct metadata_t {
    bit<32> x;
    bit<32> y;
}

counter(8, CounterType.packets) seen;
meter(8, MeterType.packets) rate;
register<bit<32>>(8) kept;

// Its own effects are no exception: a loop below applies it more than once.
@restarts
control LookUp(inout metadata_t m) {
    apply {
        resubmit_preserving_field_list(0);
        seen.count(7); //~ ERROR P0611
    }
}

extern void unknown(in bit<32> x);
@pure
extern bit<32> calculated(in bit<32> x);

// Every kind of effect.
control _Kinds(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t sm) {
    LookUp() find;
    apply {
        seen.count(m.x); //~ ERROR P0611 `seen.count` happens again when `LookUp` sends the packet back
        kept.write(m.x, m.y); //~ ERROR P0611 `kept.write`
        rate.execute_meter(m.x, m.y); //~ ERROR P0611 `rate.execute_meter`
        digest<metadata_t>(1, m); //~ ERROR P0611 `digest`
        random(m.x, 0, 7); //~ ERROR P0611 `random`
        clone(CloneType.I2E, 5); //~ ERROR P0611 `clone`
        clone_preserving_field_list(CloneType.I2E, 5, 0); //~ ERROR P0611 `clone_preserving_field_list`
        unknown(m.x); //~ ERROR P0611 `unknown`
        find.apply(m);
        seen.count(m.x);
        unknown(m.x);
    }
}

// What begins again with the packet, and what only reads.
control _Harmless(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t sm) {
    LookUp() find;
    apply {
        hdr.h.a = 1;
        hdr.h.setInvalid();
        kept.read(m.x, m.y);
        m.x = calculated(m.y);
        hash(m.x, HashAlgorithm.crc32, 32w0, { m.y }, 32w8);
        mark_to_drop(sm);
        truncate(64);
        log_msg("seen");
        log_msg("seen {}", { m.x });
        assert(m.x != 0);
        assume(m.x != 0);
        resubmit_preserving_field_list(0);
        find.apply(m);
    }
}

// Branches.
control _Ways(inout metadata_t m) {
    LookUp() find;
    apply {
        if (m.x == 1) {
            seen.count(1);
            return;
        }
        if (m.x == 2) {
            seen.count(2);
            exit;
        }
        if (m.x == 3) {
            seen.count(3); //~ ERROR P0611
        }
        switch (m.x) {
            4: {
                seen.count(4);
            }
            5: {
                seen.count(5); //~ ERROR P0611
                find.apply(m);
            }
            default: {
                if (m.y == 0) {
                    seen.count(0);
                } else {
                    find.apply(m);
                }
                seen.count(6);
            }
        }
    }
}

// Loops: what follows in a later turn counts.
control _Loops(inout metadata_t m) {
    LookUp() find;
    apply {
        for (bit<8> i in 0 .. 3) {
            if (m.x == 0) {
                seen.count(0);
                break;
            }
            if (m.x == 1) {
                seen.count(1); //~ ERROR P0611
                continue;
            }
            if (m.x == 2) {
                find.apply(m);
            }
            seen.count(2); //~ ERROR P0611
        }
        for (bit<8> i = 0; i < 3; i = i + 1) {
            seen.count(3);
        }
    }
}

control Marked(inout metadata_t m) {
    apply {
        seen.count(0);
    }
}

// Calls.
control Inner(inout metadata_t m) {
    apply {
        seen.count(0); //~ ERROR P0611
    }
}

@repeatable
control Twice(inout metadata_t m) {
    Inner() inner;
    apply {
        seen.count(1);
        inner.apply(m);
    }
}

// Restarts as well, because it applies what does.
control Around(inout metadata_t m) {
    LookUp() find;
    apply {
        find.apply(m);
        seen.count(2);
    }
}

bit<32> drawn() {
    bit<32> x;
    random(x, 0, 7); //~ ERROR P0611
    return x;
}

action marked() {
    seen.count(3); //~ ERROR P0611
}

@repeatable
action marked_twice() {
    seen.count(4);
}

control _Calls(inout metadata_t m) {
    Inner() inner;
    Twice() twice;
    Around() around;
    apply {
        inner.apply(m);
        twice.apply(m);
        m.x = m.y == 0 ? 0 : drawn();
        marked();
        marked_twice();
        around.apply(m);
        inner.apply(m);
    }
}

// A control that comes in as a constructor parameter.
control Any(inout metadata_t m);

control Generic(inout metadata_t m)(Any find) {
    apply {
        seen.count(5); //~ ERROR P0611
        find.apply(m);
    }
}

control _Generics(inout metadata_t m) {
    Generic(LookUp()) generic;
    apply {
        generic.apply(m);
    }
}

// Blocks that may be executed again: effects in them are allowed, and controls in them still restart.
control _Marked(inout metadata_t m) {
    LookUp() find;
    Marked() inner;
    apply {
        @repeatable {
            seen.count(0);
            inner.apply(m);
        }
        seen.count(1); //~ ERROR P0611
        @atomic
        @repeatable {
            seen.count(2);
            find.apply(m);
        }
        seen.count(3);
    }
}

extern bit<8> next();

// Blocks of a package in their order: the parser, ingress with what follows an `exit`, egress.
parser P(packet_in packet, out headers_t hdr, inout metadata_t m, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        kept.write(0, 1); //~ ERROR P0611 when `LookUp` sends the packet back
        verify(hdr.h.a != 0, error.NoMatch);
        transition select(hdr.h.a, next()) { //~ ERROR P0611
            (1, 1): start;
            (2, next()): accept; //~ ERROR P0611
            default: accept;
        }
    }
}

control V(inout headers_t hdr, inout metadata_t m) {
    apply {
        verify_checksum(true, { hdr.h.a }, m.x, HashAlgorithm.crc32);
    }
}

action stops() {
    kept.write(4, 1); //~ ERROR P0611
    exit;
}

control I(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t sm) {
    apply {
        if (m.x == 0) {
            kept.write(1, 1); //~ ERROR P0611
            exit;
        }
        if (m.x == 1) {
            stops();
        }
        kept.write(2, 1); //~ ERROR P0611
    }
}

control E(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t sm) {
    LookUp() find;
    apply {
        if (m.x == 2) {
            stops();
        }
        find.apply(m);
        kept.write(3, 1);
    }
}

control C(inout headers_t hdr, inout metadata_t m) {
    apply {}
}

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
