// Finds the entry of a key in the switch, or begins a look-up. Part of <pointsman/tea.p4>.

#ifndef POINTSMAN_TEA_FIND_P4
#define POINTSMAN_TEA_FIND_P4

// Finds the entry of `key`, or asks a server for it.
@restarts
@repeatable
control TeaFind(inout tea_meta_t m, inout standard_metadata_t sm) {
    // An entry that the switch holds.
    action stashed(tea_value_t value) {
        m.found = true;
        m.value = value;
    }

    // A key without an entry, whatever the servers say.
    action removed() {
        m.found = false;
    }

    table tea_stash {
        key = { m.key: exact @name("key"); }
        actions = { stashed; removed; NoAction; }
        const default_action = NoAction;
        size = TEA_STASH;
    }

#ifdef TEA_CACHE
    TeaPopular() popular;
    direct_counter(CounterType.packets) tea_hits;

    // An entry that is asked for often.
    action cached(tea_value_t value) {
        m.found = true;
        m.value = value;
    }

    // A key without an entry that is asked for often.
    action absent() {
        m.found = false;
    }

    table tea_cache {
        key = { m.key: exact @name("key"); }
        actions = { cached; absent; NoAction; }
        const default_action = NoAction;
        counters = tea_hits;
        size = TEA_CACHE;
    }
#endif

    apply {
        // Also for the packet that comes back from a server: an entry that was changed or moved meanwhile is here.
        if (tea_stash.apply().hit) {
            tea_counts.count(TEA_COUNT_STASH);
#ifdef TEA_CACHE
        } else if (tea_cache.apply().hit) {
            tea_counts.count(TEA_COUNT_CACHE);
#endif
        } else if (m.answer == TEA_FOUND) {
            tea_counts.count(TEA_COUNT_FOUND);
            m.found = true;
        } else if (m.answer == TEA_ABSENT) {
            tea_counts.count(TEA_COUNT_ABSENT);
            m.found = false;
#ifdef TEA_TABLES
        } else if (m.answer != TEA_NONE) {
            // Asked for, without an answer yet or at all.
            m.step = TEA_WAIT;
#endif
        } else if (sm.packet_length > TEA_PACKET) {
            tea_counts.count(TEA_COUNT_LONG);
            m.step = TEA_DROP;
            mark_to_drop(sm);
        } else {
#ifdef TEA_CACHE
            // Packets that have waited were counted before.
            if (TEA_IS_NEW(m)) {
                popular.apply(m.key, m.begun);
            }
#endif
            hash(m.home, HashAlgorithm.crc32, 32w0, { m.key }, (bit<64>)TEA_PLACE(m.all_cells));
#ifdef TEA_INLINE
            m.home = m.home << 2;
#endif
            m.home = m.home + m.first_cell;
            m.step = TEA_SEND;
            resubmit_preserving_field_list(TEA_LIST);
        }
    }
}

#endif
