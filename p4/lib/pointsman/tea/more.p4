// Several tables: what a look-up keeps besides its own key, and how its packet gets this back. Part of <pointsman/tea.p4>, with TEA_TABLES defined.
//
// Of a packet with two keys, the second one is asked for by a READ alone, in a queue pair of its own. The packet itself waits in the scratchpad of its first key's
// look-up, whose registers say where the second answer will be. A result that is known before the packet leaves is kept there, too, and not asked for again.

#ifndef POINTSMAN_TEA_MORE_P4
#define POINTSMAN_TEA_MORE_P4

// A key of one of the tables: the table's number, and the other bytes of TEA_KEY_BYTES.
#define TEA_KEY(number, key) ((bit<8>)(number) ++ key)

// A look-up: the state of the other key and the program's round; which key it is of; whether the other one is asked for, and in which slot.
register<bit<64>>(TEA_PAIRS * TEA_RING) tea_more;
// The other key's value, and the program's note.
register<tea_value_t>(TEA_PAIRS * TEA_RING) tea_kept;
register<tea_note_t>(TEA_PAIRS * TEA_RING) tea_notes;
// A queue pair: 1 if its next WRITE asks for an acknowledgment, because its numbers began again with a READ.
register<bit<1>>(TEA_PAIRS) tea_asks;

// A look-up has got a slot and a tag.
control TeaMore(inout tea_meta_t m, inout standard_metadata_t sm, in bit<32> slot) {
    apply {
        bit<1> asks;
        tea_asks.read(asks, m.pair);
        m.ask = m.ask | asks;
        if (m.is_alone == 1) {
            tea_asks.write(m.pair, m.ask);
            m.is_asked = 1;
            m.other_slot = slot;
            m.state = TEA_NONE;
            sm.mcast_grp = m.group + TEA_ALONE;
        } else {
            tea_asks.write(m.pair, 0);
            bit<8> state = m.state2;
            tea_value_t value = m.value2;
            if (m.is_second == 1) {
                state = m.state;
                value = m.value;
            }
            tea_more.write(slot, state ++ m.round ++ 14w0 ++ m.is_second ++ m.is_asked ++ m.other_slot);
            tea_kept.write(slot, value);
            tea_notes.write(slot, m.note);
        }
    }
}

// A packet came back, with the answer and the value of its look-up.
control TeaBack(inout tea_meta_t m, in bit<32> slot) {
    apply {
        bit<64> more;
        tea_value_t kept;
        tea_more.read(more, slot);
        tea_kept.read(kept, slot);
        tea_notes.read(m.note, slot);
        tea_keys.read(m.about, slot);
        m.round = more[55:48];
        m.is_asked = more[32:32];
        m.other_slot = more[31:0];
        if (more[33:33] == 1) {
            m.state = more[63:56];
            m.answer2 = m.answer;
            m.answer = TEA_NONE;
            m.value2 = m.value;
            m.value = kept;
        } else {
            m.state2 = more[63:56];
            m.value2 = kept;
        }
    }
}

// What a READ alone has brought for the second key: an answer, none yet (TEA_ASKED), or none at all (TEA_TORN). If
// another look-up of the same key has the slot, its answer is as good.
control TeaOther(inout tea_meta_t m) {
    apply {
        bit<32> lookup;
        bit<48> begun;
        tea_key_t key;
        @atomic {
            tea_lookups.read(lookup, m.other_slot);
            tea_begun.read(begun, m.other_slot);
            tea_keys.read(key, m.other_slot);
            tea_values.read(m.value, m.other_slot);
        }
        m.answer = lookup[31:24];
        // The packet's time is that of its return from a server, or from waiting.
        if (key != m.key) {
            // Another look-up has the slot, or the program's second key is another one than then: it is asked for once more.
            m.answer = TEA_NONE;
            m.is_asked = 0;
        } else if (m.answer == TEA_NONE || m.begun - begun > m.timeout) {
            m.answer = TEA_TORN;
        }
    }
}

#endif
