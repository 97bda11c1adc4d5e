// Constructs in places where they are not allowed.
bit<8> global = 3; //~ ERROR P0210 `global` is a variable outside any block
if (true) { } //~ ERROR P0205 a statement is not allowed at the top level
table t { } //~ ERROR P0205 `table` is only allowed in a control
global = 4; //~ ERROR P0201 expected a name after this type
control no_apply(inout bit<8> x) { //~ ERROR P0204 control `no_apply` has no `apply` block
    action a() { }
}
control late(inout bit<8> x) {
    apply { x = 1; }
    action a() { } //~ ERROR P0205 nothing can follow the `apply` block
}
control outside(inout bit<8> x) {
    x = 3; //~ ERROR P0205 expected a declaration
    if (x == 1) { x = 2; } //~ ERROR P0205
    apply { }
    apply { } //~ ERROR P0205 two `apply` blocks
}
control forgotten(inout bit<8> x) {
    { x = 1; } //~ ERROR P0204 expected a declaration or `apply`
}
parser states(inout bit<8> x) {
    state start {
        transition accept;
        x = 1; //~ ERROR P0205 nothing can follow the transition
    }
    bit<8> v; //~ ERROR P0205 declarations of a parser come before its states
    state two {
        switch (x) { default: { } } //~ ERROR P0205 `switch` is not allowed in a parser state
        return; //~ ERROR P0205 `return` is not allowed in a parser state
        transition accept;
    }
    action a() { } //~ ERROR P0205
    x = 2; //~ ERROR P0205
}
parser empty(inout bit<8> x) { }
bit<8> f(bit<8> x) {
    bit<8> g(bit<8> y) { return y; } //~ ERROR P0205 a function cannot be declared here
    transition accept; //~ ERROR P0205 `transition` is only allowed at the end
    if (x == 1) bit<8> z = 1; //~ ERROR P0205 a declaration cannot be a branch
    if (x == 1) x = 2; x = 3; else x = 4; //~ ERROR P0201 `else` without `if`
    return x;
}
extern bit<8> e(bit<8> x) { return x; } //~ ERROR P0201 an extern function has no body
}
//~^ ERROR P0208 this `}` closes nothing
