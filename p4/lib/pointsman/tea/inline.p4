// TEA's layout with a scratchpad in each row: what an answer says. Part of <pointsman/tea.p4>, with TEA_INLINE defined.
//
// Packets of one bucket share a scratchpad. A READ may bring the packet of a later look-up, or parts of two packets: tag and check value tell, and the packet
// that was asked for is lost, and counted.

#ifndef POINTSMAN_TEA_INLINE_P4
#define POINTSMAN_TEA_INLINE_P4

// Takes the answer to a look-up: bucket, copy of the next bucket, packet.
control TeaTakeRow(inout tea_headers_t h, inout tea_meta_t m, in bit<32> slot, in bit<24> first, in bit<31> tag) {
    TeaSearch() search;

    apply {
        bit<32> home;
        tea_key_t key;
        bit<32> sum;
        bit<8> state;
        tea_homes.read(home, slot);
        tea_keys.read(key, slot);
#ifdef TEA_TABLES
        bit<32> lookup;
        tea_lookups.read(lookup, slot);
#endif
        tea_lookups.write(slot, TEA_NONE ++ first);
        hash(sum, HashAlgorithm.crc32, 32w0, { TEA_KEPT(h) }, 64w0x100000000);
        search.apply(h.cells, key, state, m.value);
        if (home != h.cells.index0) {
            tea_counts.count(TEA_COUNT_WINDOW);
            tea_counts.count(TEA_COUNT_CELLS);
#ifdef TEA_TABLES
        } else if (!h.scratch.isValid()) {
            // The answer to a READ alone.
            if (lookup[31:24] == TEA_ASKED) {
                tea_values.write(slot, m.value);
                lookup[31:24] = state;
            }
            tea_lookups.write(slot, lookup);
#endif
        } else if (tag != h.scratch.tag || sum != h.scratch.sum) {
            tea_counts.count(TEA_COUNT_FOREIGN);
        } else if (state == TEA_TORN) {
            tea_counts.count(TEA_COUNT_CELLS);
        } else {
            m.answer = state;
            m.step = TEA_BACK;
        }
    }
}

#endif
