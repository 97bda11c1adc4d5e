// P0409, P0410, P0413 and P06xx: what is allowed where.
#include <v1model.p4>

bit<8> half(in bit<8> x) { //~ ERROR P0409 does not always return
    if (x == 0) {
        return 1;
    }
}

control Nothing() {
    apply {}
}

parser Sub(packet_in p) {
    state start {
        transition accept;
    }
}

control C(inout bit<8> x, inout error e) {
    action a() {
        return 1; //~ ERROR P0409 nothing to return
    }

    action act(bit<8> y) {
        t.apply(); //~ ERROR P0301 unknown name `t`
    }

    Sub() sub; //~ ERROR P0507 a parser cannot be instantiated here

    table t {
        actions = {
            a;
            act;
        }
        default_action = a();
    }

    action late() {
        t.apply(); //~ ERROR P0413 a table cannot be called here
        Nothing.apply(); //~ ERROR P0507 a control cannot be instantiated here
    }

    apply {
        break; //~ ERROR P0410 outside any loop
        switch (x) {
            1: {}
            1: {} //~ ERROR P0610 two labels are equal
            default: {}
            2: {} //~ ERROR P0610 follows `default`
        }
        switch (t.apply().action_run) {
            a: {}
            a: {} //~ ERROR P0610 two labels are equal
            late: {} //~ ERROR P0610 not an action of table `t`
            1: {} //~ ERROR P0610 not an action
        }
        bool b = t.apply().action_run == 1; //~ ERROR P0410 only as the expression of a `switch`
        b = t.apply(); //~ ERROR P0401 not a value
        if (t.apply().hti) {} //~ ERROR P0304
        verify(true, error.NoError); //~ ERROR P0413 only in parsers
        act(); //~ ERROR P0404
        for (bit<8> i in x) {} //~ ERROR P0401 cannot iterate over
        for (bool i in 1 .. 2) {} //~ ERROR P0401 a range yields numbers
    }
}

parser P(packet_in packet, inout bit<8> x) { //~ ERROR P0607 no state `start`
    Nothing() nothing; //~ ERROR P0507 a control cannot be instantiated here

    state one {
        transition two; //~ ERROR P0606 no state `two`
    }

    state one { //~ ERROR P0302
        transition accept;
    }

    state accept { //~ ERROR P0606 built in
        transition accept;
    }

    state three { //~ WARNING P0606 no transition
    }

    state four {
        transition select(x, 8w1) {
            (1, 2): one;
            (1, 2, 3): one; //~ ERROR P0608 3 set(s) given
            (true, 1): one; //~ ERROR P0401 must be `bit<8>`, not `bool`
            (1 &&& 3, 1 .. 2): one;
            default: accept;
            (3, 4): one; //~ WARNING P0608 never reached
        }
    }

    state five {
        packet.extract(x); //~ ERROR P0401 only headers
        transition select(1) { //~ ERROR P0608 width
            1: accept;
        }
    }
}
