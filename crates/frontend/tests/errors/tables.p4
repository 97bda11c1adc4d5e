// P06xx: tables.
#include <v1model.p4>

struct S {
    bit<8> a;
    bit<8> b;
    int<8> s;
    varbit<8> v;
}

control C(inout S s, inout standard_metadata_t standard_metadata) {
    action set(bit<8> x) {
        s.a = x;
    }

    action copy(in bit<8> from, bit<8> plus) {
        s.b = from + plus;
    }

    action whole(S x) { //~ ERROR P0901 `x` of type
        s = x;
    }

    action other() {}

    table no_actions { //~ ERROR P0601 has no `actions`
        key = {
            s.a: exact;
        }
    }

    table keys {
        key = {
            s: exact; //~ ERROR P0602 not supported
            5: exact; //~ ERROR P0602 width
            s.a + 1: exact; //~ ERROR P0602 needs a name
            s.s: lpm; //~ ERROR P0602 cannot be matched with `lpm`
            s.a: exakt; //~ ERROR P0602 no match kind `exakt`
            s.a: lpm;
            s.b: lpm; //~ ERROR P0602 only one key of kind `lpm`
        }
        actions = {
            NoAction;
        }
    }

    table one_wrong_key {
        key = {
            s.missing: exact; //~ ERROR P0304
        }
        actions = {
            NoAction;
        }
        const entries = {
            5: NoAction();
        }
    }

    table two_keys {
        key = {
            s.a: exact;
            s.missing: exact; //~ ERROR P0304
        }
        actions = {
            NoAction;
        }
        const entries = {
            (5, 6): NoAction();
        }
    }

    table actions_list {
        key = {
            s.a: exact;
        }
        actions = {
            set;
            set; //~ ERROR P0603 listed twice
            copy; //~ ERROR P0404 no argument for `from`
            copy(1, 2); //~ ERROR P0404
            whole;
            s; //~ ERROR P0603 not an action
            missing; //~ ERROR P0301 unknown name
        }
        default_action = other(); //~ ERROR P0603 not in the `actions` list
        default_action = set(1); //~ ERROR P0601 `default_action` is given twice
        size = s.a; //~ ERROR P0601 `size` must be an integer
        counters = s.a; //~ ERROR P0601 must be known at compile time
    }

    table order {
        default_action = set(1); //~ ERROR P0601 `default_action` comes before `actions`
        actions = {
            set;
        }
    }

    table annotated {
        key = {
            s.a: exact;
        }
        actions = {
            @tableonly set;
            @defaultonly other;
            copy(s.a);
        }
        default_action = set(1); //~ ERROR P0603 `@tableonly`
        entries = {
            1: other(); //~ ERROR P0604 `@defaultonly`
            2: set(s.a); //~ ERROR P0501 known at compile time
            3: set(); //~ ERROR P0404 no argument for `x`
            4: copy(s.b, 2); //~ ERROR P0603 differs from the action list
            5: copy(s.a, 2);
            6: copy(2);
            _: set(1); //~ ERROR P0604 single values only
            1 &&& 2: set(1); //~ ERROR P0604 single values only
            (1, 2): set(1); //~ ERROR P0604 2 set(s) given
            true: set(1); //~ ERROR P0401 must be `bit<8>`
        }
    }

    table kinds {
        key = {
            s.a: lpm;
            s.b: range;
            s.s: optional;
        }
        actions = {
            set;
        }
        default_action = set(1);
        const entries = {
            (5 &&& 0xf0, 1 .. 2, _): set(1);
            (5 &&& 0x0f, 1 .. 2, _): set(1); //~ ERROR P0604 ones followed by zeros
            (1 .. 2, 1, _): set(1); //~ ERROR P0604 against a range
            (1, 1 &&& 2, _): set(1); //~ ERROR P0604 against a mask
            (1, 1, 1 .. 2): set(1); //~ ERROR P0604 single value or anything
            priority = 5: (1, 1, 1): set(1); //~ ERROR P0605 cannot have a priority
        }
    }

    table priorities {
        key = {
            s.a: ternary;
        }
        actions = {
            set;
        }
        default_action = set(1);
        priority_delta = 0; //~ ERROR P0605 must be positive
        largest_priority_wins = 1; //~ ERROR P0605 boolean
        entries = {
            1: set(1); //~ ERROR P0605 not the first
            priority = 7: 2: set(1); //~ WARNING P0605 comes before
            priority = 7: 3: set(1); //~ WARNING P0605 another entry also has priority 7
        }
    }

    table negative {
        key = {
            s.a: ternary;
        }
        actions = {
            set;
        }
        default_action = set(1);
        entries = {
            priority = -1: 4: set(1); //~ ERROR P0605 cannot be negative
            priority = 5: 5: set(1);
        }
    }

    table prioritised {
        key = {
            s.a: ternary;
        }
        actions = {
            set;
        }
        default_action = set(1);
        const entries = {
            1 &&& 1: set(1) @priority(3); //~ WARNING P0605 the smallest wins here
            2 &&& 2: set(1);
            3 &&& 3: set(1) @priority("high"); //~ ERROR P0605 no valid number
        }
    }

    table keyless { //~ ERROR P0604 without keys
        actions = {
            NoAction;
        }
        entries = {
            1: NoAction();
        }
    }

    apply {}
}
