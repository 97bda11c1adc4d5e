// P05xx: compile-time evaluation and instantiation.
#include <v1model.p4>

const bool FINE = static_assert(1 + 1 == 2);
const bool WRONG = static_assert(1 > 2, "one is less"); //~ ERROR P0504 one is less
const bit<8> WIDE = 256; //~ WARNING P0502 does not fit
const bit<8> NEGATIVE = -1;
const bit<4> LITERAL = 4w16; //~ WARNING P0502 does not fit
const int ZERO = 5 / 0; //~ ERROR P0503 division by zero
const int REMAINDER = -5 % 3; //~ ERROR P0503 positive numbers only
const int HUGE = 1 << 10000000; //~ ERROR P0503
const bit<(5 - 8)> MINUS = 0; //~ ERROR P0506 cannot be -3
const bit<8> CHAIN = 8w1 + ZERO;

enum bit<8> Ranged {
    Small = 1,
    Large = 256 //~ ERROR P0508 does not fit
}

enum Plain {
    Member
}

parser Prototype(packet_in p);

control Width(inout bit<8> x)(bit<8> w) {
    bit<w> y; //~ ERROR P0501 must be an integer known at compile time
    const bit<8> fine = w + 1;
    const bit<8> variable = x; //~ ERROR P0501 must be known at compile time
    Prototype() p; //~ ERROR P0507

    apply {
        resubmit_preserving_field_list(x); //~ ERROR P0901 a run-time value
        register<bit<8>>(5) inside; //~ ERROR P0507 among statements
        bit<8> z = x.minSizeInBits() + Plain.minSizeInBits(); //~ ERROR P0501 no size
    }
}

Width(5) w; //~ ERROR P0507 cannot be instantiated at the top level
Prototype() q; //~ ERROR P0507
register<bit<8>>(16) fine;
register(16) unknown; //~ ERROR P0405 cannot be inferred
register<bit<8>>("16") named; //~ ERROR P0401 must be `bit<32>`, not `string`
