// The most frequent omissions. The place is the end of the line before.
const bit<8> a = 1 //~ ERROR P0202 missing `;` after this constant
header h_t {
    bit<8> x //~ ERROR P0202 missing `;` after this field
    bit<8> y;
}
struct s_t { bit<8> x, bit<8> y; } //~ ERROR P0201 expected `;`, found `,`
enum e_t { A; B } //~ ERROR P0201 expected `,` or `}`, found `;`
typedef bit<8> t_t //~ ERROR P0202
control c(inout h_t h) {
    bit<8> v //~ ERROR P0202
    action a1() { h.x = 1 } //~ ERROR P0202 missing `;` after this assignment
    action a2(bit<8> p) {
        h.x = p //~ ERROR P0202
        h.y = p;
        return //~ ERROR P0202
    }
    table t {
        key = { h.x : exact } //~ ERROR P0202 missing `;` after this key field
        actions = { a1, a2; } //~ ERROR P0201 expected `;`, found `,`
        default_action = a1() //~ ERROR P0202 missing `;` after this property
        size = 3;
    }
    apply {
        t.apply() //~ ERROR P0202 missing `;` after this call
        if (h.x == 1) {
            exit //~ ERROR P0202
        }
    }
}
parser p(out h_t h) {
    state start {
        h.x = 1;
        transition select(h.x) {
            1: accept; 
            2: next //~ ERROR P0202
        }
    }
    state next { transition accept } //~ ERROR P0202 missing `;` after this transition
}
