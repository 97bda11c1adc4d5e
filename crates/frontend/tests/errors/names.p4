// P03xx: names.
#include <core.p4>

const bit<8> A = B; //~ ERROR P0301 unknown name `B`: it is declared later, at line 5
const bit<8> B = 1;
const bit<8> B = 2; //~ ERROR P0302 `B` is declared twice
error { NoError } //~ ERROR P0302 error `NoError`
match_kind { exact } //~ ERROR P0302 match kind `exact`

struct S {
    bit<8> length;
    bit<8> length; //~ ERROR P0302 `length` is declared twice
    Unknown u; //~ ERROR P0301 unknown name `Unknown`
}

enum E { One, Two, One } //~ ERROR P0302 `One` is declared twice

extern void call(in bit<8> x);
extern void call(in bit<8> x); //~ ERROR P0302 `call` is declared twice
extern void pick(in bit<8> a);
extern void pick(in bit<8> a, in bit<8> b);
extern void both(in bit<8> a, in bit<8> b = 1);
extern void both(in bit<8> a, in bit<8> c = 2);

extern Box {
    Box();
    void open();
}

bit<8> again(in bit<8> x) {
    return again(x); //~ ERROR P0306 `again` calls itself
}

control Inner() {
    apply {}
}

control C(inout S s, in E e) {
    Box() box;
    Inner() inner;
    C() self; //~ ERROR P0306 contains an instance of itself

    action twice() {}
    action twice(bit<8> x) {} //~ ERROR P0302 `twice` is declared twice

    action loop() {
        loop(); //~ ERROR P0306 `loop` calls itself
    }

    apply {
        bit<8> x = s.lenght; //~ ERROR P0304 no field `lenght`
        x = y; //~ ERROR P0301 unknown name `y`
        x = S; //~ ERROR P0303 `S` is a type, not a value
        x = call; //~ ERROR P0303 `call` is a function, not a value
        bool b = e == E.Three; //~ ERROR P0304 no member `Three`
        b = error.Nothing == error.NoError; //~ ERROR P0304 no error `Nothing`
        box.close(); //~ ERROR P0304 no method `close`
        inner.run(); //~ ERROR P0304 no method `run`
        pick(1, 2, 3); //~ ERROR P0307 no `pick` takes these arguments
        both(1); //~ ERROR P0308 more than one `both`
        x(); //~ ERROR P0303 `x` is a variable: it cannot be called
        E(); //~ ERROR P0303 has no constructor
        x = .x; //~ ERROR P0301 unknown name `x`
        {
            bit<8> hidden = 1;
        }
        x = hidden; //~ ERROR P0301 unknown name `hidden`
    }
}

x() y; //~ ERROR P0301 unknown name `x`
call() z; //~ ERROR P0303 `call` is a function, not a type

control Later() {
    action first() { second(); } //~ ERROR P0301 unknown name `second`: it is declared later, at line 76
    action second() {}
    apply {}
}

parser Named(packet_in packet, out S s) {
    bit<8> count;

    state start {
        transition select(count) {
            0: s;
            default: count;
        }
    }

    state s { //~ ERROR P0302 `s` is declared twice
        transition accept;
    }

    state count { //~ ERROR P0302 `count` is declared twice
        transition accept;
    }
}
