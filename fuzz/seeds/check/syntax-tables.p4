// Tables.
control c(inout bit<8> x) {
    action a(bit<8> v) { x = v; }
    table t1 {
        const key = { x : exact; } //~ ERROR P0213 `key` cannot be `const`
        actions = { a; }; //~ ERROR P0213 unexpected `;` in a table
        default_action = 3; //~ ERROR P0213 this is not an action
    }
    table t2 {
        key = { x; } //~ ERROR P0201 expected `:` and a match kind
        actions { a; } //~ ERROR P0201 expected `=` after `actions`
        const entries = {
            1 : a(1);
            (2) : a(2);
            (3 &&& 7) : a(3);
            4 .. 5 : a(4) //~ ERROR P0202
            const priority = 3 : _ : a(5);
            priority = 10: default : a(6);
            (6, 7, 8) a(7); //~ ERROR P0201
            9 : ; //~ ERROR P0201 expected the name of an action
            (bit<8>) 1 : a(8) @name("eight");
        }
        size = 1024;
        @hidden const meters = a;
    }
    apply { t1.apply(); }
}
