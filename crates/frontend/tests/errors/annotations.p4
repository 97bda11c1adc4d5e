// P0416: annotations.
#include <core.p4>

@pairs[k1 = 4, k2 = 5]
@list["text", 1, true]
struct fine_t {
    bit<8> x;
}

@pairs[k1 = 4, k1 = 5] //~ ERROR P0416 key `k1` is already given
struct twice_t {
    bit<8> x;
}

const bit<8> SIZED = 5;

@list[SIZED] //~ ERROR P0416 has type `int`
@pairs[k = (bit<8>)5] //~ ERROR P0416 has type `int`
struct sized_t {
    bit<8> x;
}

control C(inout fine_t s) {
    @name("a")
    @name("b") //~ WARNING P0416 at most one
    table named {
        actions = {
            NoAction;
        }
    }

    @hidden
    @name("c") //~ WARNING P0416 at most one
    table hidden {
        actions = {
            NoAction;
        }
    }

    apply {
        named.apply();
        hidden.apply();
    }
}
