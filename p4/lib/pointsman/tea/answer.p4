// Answers of servers: what they say of a look-up. Part of <pointsman/tea.p4>.

#ifndef POINTSMAN_TEA_ANSWER_P4
#define POINTSMAN_TEA_ANSWER_P4

// The entry of a key in a window.
control TeaSearch(in tea_cells_t c, in tea_key_t key, out bit<8> state, out tea_value_t value) {
    apply {
        bit<32> check = 0;
        value = 0;
        if (c.key0 == key && c.check0[0:0] == 1) {
            check = c.check0;
            value = c.value0;
        } else if (c.key1 == key && c.check1[0:0] == 1) {
            check = c.check1;
            value = c.value1;
        } else if (c.key2 == key && c.check2[0:0] == 1) {
            check = c.check2;
            value = c.value2;
        } else if (c.key3 == key && c.check3[0:0] == 1) {
            check = c.check3;
            value = c.value3;
        } else if (c.key4 == key && c.check4[0:0] == 1) {
            check = c.check4;
            value = c.value4;
        } else if (c.key5 == key && c.check5[0:0] == 1) {
            check = c.check5;
            value = c.value5;
        } else if (c.key6 == key && c.check6[0:0] == 1) {
            check = c.check6;
            value = c.value6;
        } else if (c.key7 == key && c.check7[0:0] == 1) {
            check = c.check7;
            value = c.value7;
        }
        if (check == 0) {
            state = TEA_ABSENT;
        } else {
            bit<32> expected;
            hash(expected, HashAlgorithm.crc32, 32w0, { key, value }, 64w0x100000000);
            state = (expected | 1) == check ? TEA_FOUND : TEA_TORN;
        }
    }
}

#ifdef TEA_INLINE
#include <pointsman/tea/inline.p4>
#endif

// An answer of a server, with the right check value.
control TeaAnswer(inout tea_headers_t h, inout tea_meta_t m, inout standard_metadata_t sm) {
#ifdef TEA_INLINE
    TeaTakeRow() take_row;
#else
    TeaSearch() search;
#endif
    TeaAlive() alive;
#ifdef TEA_TABLES
    TeaBack() back;
#endif

    apply {
        bit<32> next;
        bit<32> done;
        tea_next.read(next, m.pair);
        tea_done.read(done, m.pair);
        bit<24> in_flight = next[23:0] - done[23:0];
        bit<24> end = h.roce.psn + 1;
        if (h.syndrome.syndrome == TEA_NAK_SEQUENCE) {
            end = h.roce.psn;
        }
        bit<24> advance = end - done[23:0];
        m.step = TEA_DROP;
        if (advance[23:23] == 1) {
            tea_counts.count(TEA_COUNT_LATE);
        } else if (h.roce.opcode == TEA_ACK && h.syndrome.syndrome == TEA_NAK_SEQUENCE) {
            // The server has all before `end`, and waits for that number.
            tea_counts.count(TEA_COUNT_GAP);
            alive.apply(m.pair, m.peer_port);
            tea_next.write(m.pair, (bit<32>)end);
            tea_done.write(m.pair, (bit<32>)end);
        } else if (h.syndrome.syndrome[7:5] != 0) {
            tea_counts.count(TEA_COUNT_DEAD);
            tea_dead.write(m.pair, h.syndrome.syndrome);
        } else if (h.roce.opcode == TEA_ACK) {
            alive.apply(m.pair, m.peer_port);
            if (advance > in_flight) {
                tea_next.write(m.pair, (bit<32>)end);
            }
            tea_done.write(m.pair, (bit<32>)end);
            tea_progress.write(m.pair, sm.ingress_global_timestamp);
        } else {
#ifdef TEA_INLINE
            bit<24> first = h.roce.psn - 1;
#else
            bit<24> first = h.roce.psn - (h.cells.isValid() ? 24w1 : 2);
#endif
            bit<32> slot = (m.pair << 6) + (bit<32>)first[5:0];
            bit<32> lookup;
            bit<48> begun;
            bit<32> tag;
            tea_lookups.read(lookup, slot);
            tea_begun.read(begun, slot);
            tea_tag.read(tag, slot);
            bit<8> state = lookup[31:24];
            if (advance > in_flight || state == TEA_NONE || lookup[23:0] != first
                || sm.ingress_global_timestamp - begun > m.timeout) {
                tea_counts.count(TEA_COUNT_LATE);
            } else {
                alive.apply(m.pair, m.peer_port);
                tea_done.write(m.pair, (bit<32>)end);
                tea_progress.write(m.pair, sm.ingress_global_timestamp);
#ifdef TEA_INLINE
                take_row.apply(h, m, slot, first, tag[30:0]);
#else
                if (h.cells.isValid()) {
                    bit<32> home;
                    tea_key_t key;
                    tea_homes.read(home, slot);
                    tea_keys.read(key, slot);
                    if (home != h.cells.index0) {
                        tea_counts.count(TEA_COUNT_WINDOW);
                    } else if (state == TEA_ASKED) {
                        search.apply(h.cells, key, state, m.value);
                        tea_values.write(slot, m.value);
                        tea_lookups.write(slot, state ++ first);
                    } else {
                        tea_counts.count(TEA_COUNT_LATE);
                    }
                } else {
                    tea_lookups.write(slot, TEA_NONE ++ first);
                    if (tag[30:0] != h.scratch.tag) {
                        tea_counts.count(TEA_COUNT_FOREIGN);
                    } else if (state == TEA_ASKED || state == TEA_TORN) {
                        tea_counts.count(TEA_COUNT_CELLS);
                    } else {
                        tea_values.read(m.value, slot);
                        m.answer = state;
                        m.step = TEA_BACK;
                    }
                }
#endif
#ifdef TEA_TABLES
                if (m.step == TEA_BACK) {
                    back.apply(m, slot);
                }
#endif
            }
        }
    }
}

#endif
