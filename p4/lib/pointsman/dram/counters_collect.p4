// The slots in which sums of counters are collected. Part of <pointsman/dram/counters.p4>.

#ifndef POINTSMAN_DRAM_COUNTERS_COLLECT_P4
#define POINTSMAN_DRAM_COUNTERS_COLLECT_P4

// Adds to the slot of the packet's counter, or says which sum is to leave: `m.sum` of counter `m.leaving`, and what the slot has then. If the slot belongs to another
// counter, the smaller of both sums leaves. A generator's packet empties a slot.
control CountersCollect(in counters_headers_t h, inout counters_meta_t m) {
    apply {
        bool sweeps = h.generated.isValid();
        if (sweeps) {
            counters_swept.read(m.slot, 0);
            counters_swept.write(0, (m.slot + 1) & (COUNTERS_SLOTS - 1));
        } else {
            hash(m.slot, HashAlgorithm.crc32, 32w0, { m.index }, 64w0 + COUNTERS_SLOTS);
        }
        counters_index.read(m.rest_index, m.slot);
        counters_sum.read(m.rest, m.slot);
        m.meets = !sweeps && m.rest != 0 && m.rest_index != m.index;
        m.leaves = true;
        m.leaving = m.index;
        m.sum = m.amount;
        if (sweeps || (m.meets && m.rest <= m.amount)) {
            m.leaving = m.rest_index;
            m.sum = m.rest;
            m.leaves = m.rest != 0;
            m.rest_index = m.index;
            m.rest = m.amount;
        } else if (!m.meets) {
            m.sum = m.rest + m.amount;
            m.rest = 0;
            if (m.sum < m.limit) {
                counters_index.write(m.slot, m.index);
                counters_sum.write(m.slot, m.sum);
                m.leaves = false;
            }
        }
    }
}

// A sum leaves for the queue of a queue pair that ends at `next`, or for nowhere if no server has the counter: it is lost. Without room it stays in the slot.
control CountersLeave(inout counters_meta_t m, in bool has_server, in bit<24> done, inout bit<24> next) {
    apply {
        bit<64> lost;
        bool has_room = next - done < COUNTERS_RING;
        if (has_room || !has_server) {
            if (has_server) {
                bit<32> place = COUNTERS_PLACE(m.pair, next);
                counters_place.write(place, m.leaving - m.start);
                counters_queued.write(place, m.sum);
                next = next + 1;
                counters_counts.count(COUNTERS_COUNT_SUMS);
            } else {
                counters_lost.read(lost, COUNTERS_LOST_SERVER);
                counters_lost.write(COUNTERS_LOST_SERVER, lost + m.sum);
            }
            counters_index.write(m.slot, m.rest_index);
            counters_sum.write(m.slot, m.rest);
        } else if (m.meets) {
            // The slot belongs to another counter.
            counters_lost.read(lost, COUNTERS_LOST_ROOM);
            counters_lost.write(COUNTERS_LOST_ROOM, lost + m.amount);
        } else {
            counters_index.write(m.slot, m.leaving);
            counters_sum.write(m.slot, m.sum);
        }
    }
}

#endif
