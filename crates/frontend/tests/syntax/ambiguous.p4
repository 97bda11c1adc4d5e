// Syntax that depends on which names are types; no errors here.
typedef bit<8> T;
extern T generic<A>(in A a);
extern void generic2<A, B>();
extern Reg<A> { Reg(bit<32> n); A read(in bit<32> i); }
struct pair_t<A, B> { A a; B b; }
header h_t { T x; }
control sub<A>(inout A a);
control c(inout T x, inout h_t[4] hs) {
    Reg<tuple<bit<8>, pair_t<T, pair_t<T, T>>>>(16) reg;
    pair_t<T, bit<16>> pair = { 1, ... };
    apply {
        T a = 1;
        T b = 2;
        bool less = a < b;
        x = (T) a + (b) - (T) -1;
        x = generic<bit<8>>(a) >> 1;
        less = a < b && b > (a);
        h_t[2] two;
        two[0] = hs[1];
        hs[1].x = generic<pair_t<T, T>>({ 1, 2 });
        generic2<T, Unknown>();
        x = (Unknown) a;
        x = (Unknown) { 1 };
        bit<(2 > 1 ? 8 : 16)> y = (bit<8>) x;
        int<8> z = (int<8>) (y);
        .generic2<_, tuple<>>();
        error e = error.NoError;
        list<T> l = (list<T>) { 1, 2, };
        pair_t<T, T> q = { a = 1, b = 2, };
        hs[0] = {#};
    }
}
