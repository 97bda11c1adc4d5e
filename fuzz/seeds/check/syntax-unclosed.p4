// A brace too few.
control c(inout bit<8> x) { //~ ERROR P0208 this `{` is never closed
    apply {
        if (x == 1) {
            x = 2;
        }
    }
header h_t {
    bit<8> x;
}
control d(inout bit<8> x) {
    action a() { //~ ERROR P0208 this `{` is never closed
        x = 1;
    table t {
        actions = { a; }
    }
    apply { t.apply(); }
}
parser p(out h_t h) {
    state start { //~ ERROR P0208
        h.x = 1;
