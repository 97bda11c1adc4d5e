// Keywords as names, and keywords that are names.
const bit<8> table = 1; //~ ERROR P0207 found the keyword `table`
const bit<8> _ = 1; //~ ERROR P0207
const void v = 1; //~ ERROR P0201 `void` can only be
struct fine_t {
    bit<8> key;
    bit<8> type;
    bit<8> apply;
    bit<8> state;
    bit<8> actions;
    bit<8> entries;
    bit<8> priority;
    bit<8> list;
    bit<8> default; //~ ERROR P0207 found the keyword `default`
    bit<8> good;
}
enum empty_t { } //~ ERROR P0212 cannot be empty
enum valued_t { A = 1 } //~ ERROR P0212 a member without a type cannot have a value
enum bit<8> typed_t { A } //~ ERROR P0201 expected `=` and the value of this member
type struct { bit<8> x; } y_t; //~ ERROR P0207 expected a type
extern E {
    F(); //~ ERROR P0201 `F` has no return type
    E(bit<8> size);
    abstract bit<8> m(in bit<8> x);
}
