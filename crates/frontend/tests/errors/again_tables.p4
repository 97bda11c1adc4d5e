// Effects of tables and in parts of statements, in front of a control that may send the packet back.
#include <v1model.p4>

header h_t {
    bit<8> a;
}

struct headers_t {
    h_t h;
}

struct metadata_t {
    bit<32> x;
    bit<32> y;
}

counter(8, CounterType.packets) seen;
register<bit<32>>(8) kept;

@restarts
control LookUp(inout metadata_t m) {
    apply {
        resubmit_preserving_field_list(0);
    }
}

// Tables: their actions, and what they change themselves.
control _Tables(inout metadata_t m, inout standard_metadata_t sm) {
    LookUp() find;
    direct_counter(CounterType.packets) hits;
    direct_meter<bit<32>>(MeterType.packets) colours;

    action counted() {
        seen.count(0); //~ ERROR P0611
    }
    action last() {
        seen.count(1);
        exit;
    }
    action other() {
        seen.count(2);
    }
    action many() {
        seen.count(5);
    }
    action direct() {
        hits.count();
    }
    action coloured() {
        colours.read(m.y);
    }

    table acts {
        key = { m.x: exact; }
        actions = { counted; last; NoAction; }
        const default_action = NoAction;
    }
    table hit {
        key = { m.x: exact; }
        actions = { other; NoAction; }
        const default_action = NoAction;
    }
    table miss {
        key = { m.x: exact; }
        actions = { @tableonly NoAction; @defaultonly other; }
        default_action = other;
    }
    table ran {
        key = { m.x: exact; }
        actions = { other; NoAction; }
        const default_action = NoAction;
    }
    table counts {
        key = { m.x: exact; }
        actions = { direct; NoAction; }
        const default_action = NoAction;
        counters = hits;
    }
    table measures {
        key = { m.x: exact; }
        actions = { coloured; NoAction; }
        const default_action = NoAction;
        meters = colours;
    }
    table selects {
        key = { m.x: selector; m.y: exact; }
        actions = { NoAction; }
        const default_action = NoAction;
        implementation = action_selector(HashAlgorithm.crc16, 8, 8);
    }
    @repeatable
    table repeated {
        key = { m.x: exact; }
        actions = { many; NoAction; }
        const default_action = NoAction;
    }

    apply {
        acts.apply();
        counts.apply(); //~ ERROR P0611 what `counts.apply` does to its `counters` happens again
        measures.apply(); //~ ERROR P0611 what `measures.apply` does to its `meters` happens again
        selects.apply();
        repeated.apply();
        if (!hit.apply().hit && miss.apply().hit) {
            switch (ran.apply().action_run) {
                NoAction: {
                    find.apply(m);
                }
                other: {
                    seen.count(3);
                }
            }
        }
        counts.apply();
        acts.apply();
    }
}

// An object of a table outside of it; actions that only entries, or only misses, execute.
control _MoreTables(inout metadata_t m) {
    LookUp() find;
    direct_counter(CounterType.packets) hits;

    action on_hit() {
        seen.count(0);
    }
    action direct() {
        hits.count(); //~ ERROR P0611
    }
    table counts {
        key = { m.x: exact; }
        actions = { direct; NoAction; }
        counters = hits;
    }
    table missed {
        key = { m.x: exact; }
        actions = { @tableonly on_hit; @defaultonly NoAction; }
        default_action = NoAction;
    }
    table without_key {
        actions = { on_hit; NoAction; }
    }

    apply {
        direct();
        if (m.y == 0) {
            counts.apply(); //~ ERROR P0611
        }
        if (missed.apply().miss || without_key.apply().hit) {
            find.apply(m);
        }
    }
}

// Parts of statements, in the order in which they are executed.
extern bit<32> next();

extern Virtual {
    Virtual();
    @pure
    abstract bit<32> ask(in bit<32> x);
}

control _Parts(inout metadata_t m) {
    LookUp() find;
    bit<32> local = next(); //~ ERROR P0611
    Virtual() implemented = {
        bit<32> ask(in bit<32> x) {
            return x + next(); //~ ERROR P0611
        }
    };

    action bound(in bit<32> x) {
        m.x = x;
    }
    table keyed {
        key = {
            m.x + next(): exact @name("x"); //~ ERROR P0611
        }
        actions = {
            bound(next()); //~ ERROR P0611
            NoAction;
        }
        const default_action = NoAction;
    }

    apply {
        keyed.apply();
        m.x = implemented.ask(local);
        m.x = m.y == 0 ? 0 : next(); //~ ERROR P0611
        m.x[7:0] = (bit<8>)next(); //~ ERROR P0611
        kept.read(m.x, next() & 7); //~ ERROR P0611
        if (next() == 1) { //~ ERROR P0611
            m.x = 1;
        }
        if (m.x == 0 && next() == 1) { //~ ERROR P0611
            m.x = 1;
        }
        switch (next()) { //~ ERROR P0611
            1: {
                m.x = 1;
            }
        }
        for (bit<32> i = next(); //~ ERROR P0611
             i < next(); //~ ERROR P0611
             i = i + next()) { //~ ERROR P0611
            m.x = i;
        }
        for (bit<32> i in next() .. 9) { //~ ERROR P0611
            m.x = i;
        }
        for (bit<32> i in 1 .. next()) { //~ ERROR P0611
            m.x = i;
        }
        for (bit<32> i in (list<bit<32>>){ next(), 2 }) { //~ ERROR P0611
            m.x = i;
        }
        next(); //~ ERROR P0611
        // It may have no turns.
        for (bit<32> i in 1 .. m.x) {
            exit;
        }
        switch (m.x) {
            0: {
                exit;
            }
            default: {
                find.apply(m);
            }
        }
    }
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {}
}

#include "../accept/include/skeleton.p4"
