// Values that nothing set, headers that cannot be valid, code that is never reached, names that hide others.
#include <core.p4>

header h_t {
    bit<8> x;
}

struct pair_t {
    bit<8> a;
    bit<8> b;
}

bit<8> early(in bit<8> x) {
    if (x == 0) {
        return 1;
    } else {
        return 2;
    }
    return 3; //~ WARNING P0703 never reached
}

void results(in bool way, out bit<8> set, out bit<8> sometimes, out pair_t part) {
    //~^ WARNING P0706 `sometimes` may not be set when the function ends
    //~^^ WARNING P0706 `part` may be set only in part
    set = 1;
    if (way) {
        sometimes = 2;
    }
    part.a = 3;
}

parser P(packet_in b, out h_t h, in bit<8> key, out bit<8> next) {
    state start {
        next = h.x; //~ WARNING P0707 `h`, which cannot be valid here
        transition select(key) { //~ WARNING P0704 no case for other values
            0: first;
            1: second;
        }
    }

    state first {
        b.extract(h);
        next = h.x;
        transition accept;
    }

    state second {
        transition select(key[0:0]) {
            0: accept;
            1: reject;
        }
    }
}

control Flow(inout h_t h, inout bit<8> x) {
    bit<8> hidden = 1;
    bit<8> from_action;
    h_t local;

    action sets() {
        from_action = 1;
    }
    action forgets() {}
    table t {
        actions = {
            sets;
            forgets;
        }
        default_action = sets;
    }

    apply {
        bit<8> fresh;
        x = fresh; //~ WARNING P0702 `fresh` may not be set here
        x = fresh;
        pair_t p;
        p.a = x;
        x = p.a + p.b; //~ WARNING P0702 this part of `p`
        bit<8> both;
        if (x == 1) {
            both = 1;
        } else {
            both = 2;
        }
        x = both + hidden;
        if (!h.isValid()) {
            x = h.x; //~ WARNING P0707 cannot be valid
            h.setValid();
            h.x = 1;
        }
        x = h.x;
        local.x = x; //~ WARNING P0707 `local`
        local.setValid();
        local.x = x;
        local.setInvalid();
        x = local.x; //~ WARNING P0707 `local`
        {
            bit<8> hidden = 2; //~ WARNING P0705 `hidden` hides another
            x = x + hidden;
        }
        @noWarn("shadow") {
            bit<8> hidden = 3;
            x = x + hidden;
        }
        switch (t.apply().action_run) {
            sets: {
                x = from_action;
            }
            forgets: {
                x = from_action; //~ WARNING P0702 `from_action`
            }
        }
        bit<8> counted;
        for (bit<8> i in 0 .. 3) {
            counted = i;
        }
        x = counted; //~ WARNING P0702 `counted`
        exit;
        x = 0; //~ WARNING P0703 never reached
    }
}

bit<8> last(in bit<8> x) { //~ WARNING P0505 no package instance
    return x;
}
