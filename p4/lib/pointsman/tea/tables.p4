// Several tables: the entries of two keys at once, and of keys that depend on them. Part of <pointsman/tea.p4>, with TEA_TABLES defined.

#ifndef POINTSMAN_TEA_TABLES_P4
#define POINTSMAN_TEA_TABLES_P4

// Finds the entries of `key` and, with `has_key2`, `key2`, or asks servers for those that the switch does not have. A pass looks for one key, so that the switch's
// own tables are applied in one place.
@restarts
@repeatable
control TeaFindAll(inout tea_meta_t m, inout standard_metadata_t sm) {
    TeaOther() other;
    TeaFind() find;

    apply {
        tea_key_t key = m.key;
        tea_value_t value = m.value;
        bool is_second = m.state != TEA_NONE;
        m.is_second = (bit<1>)is_second;
        m.is_alone = 0;
        // A key that was looked for before, in vain, is counted once.
        m.repeats = m.is_asked | (bit<1>)(m.state2 != TEA_NONE);
        if (is_second) {
            m.key = m.key2;
            m.value = m.value2;
            m.answer = m.answer2;
        }
        if (m.about != m.key) {
            // The program's key is another one than that of the answer.
            m.answer = TEA_NONE;
        }
        if (is_second && m.is_asked == 1) {
            other.apply(m);
        }
        bool is_coming = m.answer == TEA_ASKED;
        find.apply(m, sm);
        if (m.step == TEA_PROGRAM) {
            bit<8> state = m.found ? TEA_FOUND : TEA_ABSENT;
            if (!is_second) {
                m.state = state;
                if (m.has_key2 && m.state2 == TEA_NONE) {
                    m.step = TEA_NEXT;
                }
            } else {
                m.state2 = state;
                m.value2 = m.value;
                if (m.state == TEA_ASKED) {
                    m.state = TEA_NONE;
                    m.step = TEA_NEXT;
                }
            }
            if (m.step == TEA_NEXT) {
                resubmit_preserving_field_list(TEA_LIST);
            }
        } else if (m.step == TEA_SEND) {
            if (!is_second && m.has_key2 && m.is_asked == 0 && m.state2 == TEA_NONE) {
                // The other key first.
                m.state = TEA_ASKED;
                m.step = TEA_NEXT;
            } else if (m.state == TEA_ASKED) {
                m.is_alone = 1;
            }
        } else if (m.step == TEA_WAIT) {
            if (is_coming && m.waits < TEA_AWAITS && m.wait_port != 0) {
                tea_counts.count(TEA_COUNT_SECOND);
                m.waits = m.waits + 1;
                sm.egress_spec = m.wait_port;
            } else {
                tea_counts.count(TEA_COUNT_CELLS);
                m.step = TEA_DROP;
                mark_to_drop(sm);
            }
        }
        if (is_second) {
            m.value = value;
        }
        if (m.step == TEA_PROGRAM) {
            m.key = key;
            m.found = m.state == TEA_FOUND;
            m.found2 = m.state2 == TEA_FOUND;
        }
    }
}

// Begins another round, for keys that depend on the entries found: the program's pass begins again, with `round` one higher and the same `note`.
@restarts
@repeatable
control TeaNext(inout tea_meta_t m) {
    apply {
        m.round = m.round + 1;
        m.state = TEA_NONE;
        m.state2 = TEA_NONE;
        m.answer = TEA_NONE;
        m.answer2 = TEA_NONE;
        m.is_asked = 0;
        m.waits = 0;
        m.step = TEA_NEXT;
        resubmit_preserving_field_list(TEA_LIST);
    }
}

#endif
