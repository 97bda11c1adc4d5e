// Expressions and statements that are none.
void f(inout bit<8> x, inout bit<8> y) {
    x = y +; //~ ERROR P0201 expected an expression, found `;`
    x = (y; //~ ERROR P0201 expected `)`
    x = y ? 1 : x ? 2 : 3; //~ WARNING P0209 is read as
    x = y ? x ? 1 : 2 : (x ? 3 : 4);
    x == y; //~ ERROR P0206 `==` compares
    x++; //~ ERROR P0206 there is no increment operator
    x; //~ ERROR P0206 this expression is not a statement
    x + y = 3; //~ ERROR P0201 expected `=`, `(` or another assignment, found `+`
    f(x, y) = 3; //~ ERROR P0206 this cannot be assigned to
    3 = x; //~ ERROR P0206
    f(x, y,); //~ ERROR P0201 expected an expression, found `)`
    f(x y); //~ ERROR P0201 expected `,` or `)`
    f(x, y)(x); //~ ERROR P0206 this cannot be called
    x = default; //~ ERROR P0201 expected an expression, found `default`
    x = _ + 1; //~ ERROR P0201 found `_`
    x = bit<8>; //~ ERROR P0201 found `bit`
    x = error; //~ ERROR P0201 `.` and the name of an error
    x = {y, k = 3}; //~ ERROR P0201 expected `,` or `}`
    if x == y { } //~ ERROR P0201 expected `(` after `if`
    if (x = y) { } //~ ERROR P0201 expected `)`, found `=`
    for (i in 1..3) { } //~ ERROR P0201 the variable of this loop has no type
    switch (x) {
        case 1: { } //~ ERROR P0201 without `case`
        2: 
        3: { }
        { } //~ ERROR P0201 expected a label
    }
    while (x == y) { } //~ ERROR P0201 there is no `while` in P4
    if (x == y) { } elseif (x == 2) { x = 3; } //~ ERROR P0201 there is no `elseif` in P4
    x := 3; //~ ERROR P0201
    x->y = 3; //~ ERROR P0201 found `-`
    x = x[3; //~ ERROR P0201 expected `]`
    x = x[7:4] ++ x[0+:4];
    x >>= 2;
    x > >= 2; //~ ERROR P0201
    y = x >> 2 > 3 ? 1 : 2;
    y = x > > 2; //~ ERROR P0201 expected an expression
}
