// P0401 and on: types of expressions.
#include <core.p4>

type bit<9> Port;
enum bit<8> Kind { A = 1, B = 2 }
enum Plain { X, Y }

header H {
    bit<8> a;
}

header_union U {
    H h;
}

struct S {
    bit<8> a;
    H h;
}

struct Bad {
    int x; //~ ERROR P0406 `int` cannot be inside a struct
    string s; //~ ERROR P0406 `string` cannot be inside a struct
    packet_in p; //~ ERROR P0406 `packet_in` cannot be inside a struct
}

header BadHeader {
    S s; //~ ERROR P0406 cannot be a field of a header
    Plain e; //~ ERROR P0406 cannot be a field of a header
}

header_union BadUnion {
    bit<8> x; //~ ERROR P0406 cannot be a field of a header union
}

struct G<T> {
    T x;
}

typedef G Partial; //~ ERROR P0405 takes 1 type argument
typedef G<bit<8>, bit<8>> Two; //~ ERROR P0405 takes 1 type argument
typedef S<bit<8>> None; //~ ERROR P0405 takes no type arguments
type H NewHeader; //~ ERROR P0406 a new type cannot be based on `H`
const bit<0x100000> WIDE = 0; //~ ERROR P0506 width
const int<0> EMPTY = 0; //~ ERROR P0506 width

extern T pass<T>(in T x);
extern void place(out bit<8> x);
extern void both<T>(in T x, in T y);
extern T nothing<T>();

control C(inout S s, in bit<8> fixed, inout Port p, inout Kind k, inout H[2] stack, inout U u) {
    apply {
        bit<8> x = 16w5; //~ ERROR P0401 must be `bit<8>`, not `bit<16>`
        bit<16> y;
        int<8> z;
        bool b;
        x = true; //~ ERROR P0401 must be `bit<8>`, not `bool`
        b = 1; //~ ERROR P0401 must be `bool`, not `int`
        x = x + y; //~ ERROR P0402 `+` is not defined for `bit<8>` and `bit<16>`
        x = x + z; //~ ERROR P0402 `+` is not defined
        b = x < z; //~ ERROR P0402 `<` is not defined
        x = x << z; //~ ERROR P0402 cannot be signed
        x = (bit<8>)(1 << x); //~ ERROR P0402 an `int` can be shifted only
        x = !x; //~ ERROR P0402 `!` is not defined for `bit<8>`
        x = (bit<8>)~1; //~ ERROR P0402 `~` is not defined for `int`
        x = x / x; //~ ERROR P0402 division by a value known only at run time
        z = z / 2; //~ ERROR P0402 not defined for signed
        x = x / 0; //~ ERROR P0503 division by zero
        x = x << -1; //~ ERROR P0503 negative
        b = b && x; //~ ERROR P0401 must be `bool`
        b = s == s.h; //~ ERROR P0402 `==` is not defined
        p = p + 1; //~ ERROR P0402 `+` is not defined
        p = 5;
        k = 1; //~ ERROR P0401 must be `Kind`, not `int`
        k = k + 1; //~ ERROR P0401 must be `Kind`, not `bit<8>`
        x = (bit<8>)z + (bit<8>)y;
        z = (int<8>)y; //~ ERROR P0407 cannot be cast
        x = (bit<8>)Plain.X; //~ ERROR P0407 cannot be cast
        b = (bool)x; //~ ERROR P0407 cannot be cast
        x = (bit<8>)s; //~ ERROR P0407 cannot be cast
        y = x ++ 1; //~ ERROR P0414 width
        x = b ? 1 : 2; //~ ERROR P0414 width
        x = b ? x : y; //~ ERROR P0401 must be `bit<8>`, not `bit<16>`
        x = y[16:9]; //~ ERROR P0411 out of range
        x = y[0:7]; //~ ERROR P0411 wrong order
        x = y[x:0]; //~ ERROR P0501 must be an integer known at compile time
        s.h = stack[2]; //~ ERROR P0411 out of range: the array has 2 elements
        s.h = s[0]; //~ ERROR P0402 cannot be indexed
        s.h = stack.next; //~ ERROR P0410 only in parsers
        fixed = 3; //~ ERROR P0403 `in` parameter
        s = { 1, { 2 }, 3 }; //~ ERROR P0412 2 field(s), but 3 are given
        s = { a = 1 }; //~ ERROR P0412 no value for field(s) `h`
        s = { a = 1, a = 2, h = { 3 } }; //~ ERROR P0412 `a` is given twice
        s = { a = 1, b = 2, h = { 3 } }; //~ ERROR P0304 no field `b`
        s = { true, { 2 } }; //~ ERROR P0401 field `a` must be `bit<8>`
        x = {#}; //~ ERROR P0401
        tuple<bit<8>> t = { 1 };
        s.h = t; //~ ERROR P0401 must be `H`, not `tuple<bit<8>>`
        t[0] = 2; //~ WARNING P0403 element of a tuple
        place(5); //~ ERROR P0403
        place(y); //~ ERROR P0401 must be `bit<8>`, not `bit<16>`
        place(); //~ ERROR P0404 no argument for `x`
        place(x, x); //~ ERROR P0404 2 argument(s) given
        place(z = x); //~ ERROR P0404 no parameter `z`
        both(x, y); //~ ERROR P0401 must be `bit<8>`, not `bit<16>`
        both(1, 2); //~ ERROR P0405 width
        both(x = 1, 2); //~ ERROR P0404 name all
        nothing(); //~ ERROR P0405 cannot be inferred
        pass<bit<8>, bit<8>>(x); //~ ERROR P0405 1 type argument(s), not 2
        x = place(x); //~ ERROR P0401 returns nothing
        int i = 5; //~ ERROR P0406 cannot have type `int`
        packet_in packet; //~ ERROR P0406 instantiation
        u.setValid(); //~ ERROR P0304 no method `setValid`
        x.setValid(); //~ ERROR P0304 no method `setValid`
        stack.push_front(x); //~ ERROR P0501
        x = this; //~ ERROR P0410
    }
}
