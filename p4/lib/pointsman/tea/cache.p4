// TEA's cache: which keys are asked for often. Part of <pointsman/tea.p4>, with TEA_CACHE defined.

#ifndef POINTSMAN_TEA_CACHE_P4
#define POINTSMAN_TEA_CACHE_P4

// From how many packets in an age on a key is reported; 0: none is. Up to 8,191.
register<bit<16>>(1) tea_hot;

// A key that is asked for often.
struct tea_hot_t {
    tea_key_t key;
}

// A row of a count-min sketch: how many packets in this age had keys of the slot, this one included. A slot is its age and its count.
control TeaRow(in bit<TEA_SKETCH_BITS> slot, in bit<3> age, inout bit<13> least) {
    register<bit<16>>(TEA_SKETCH) slots;

    apply {
        bit<16> old;
        slots.read(old, (bit<32>)slot);
        bit<13> count = old[12:0];
        if (old[15:13] != age) {
            count = 0;
        }
        count = count |+| 1;
        slots.write((bit<32>)slot, age ++ count);
        if (count < least) {
            least = count;
        }
    }
}

// A row of a Bloom filter: whether a key of the slot was reported in this age, before now.
control TeaReported(in bit<TEA_SKETCH_BITS> slot, in bit<3> age, inout bool reported) {
    register<bit<4>>(TEA_SKETCH) slots;

    apply {
        bit<4> old;
        slots.read(old, (bit<32>)slot);
        slots.write((bit<32>)slot, age ++ 1w1);
        reported = reported && old == age ++ 1w1;
    }
}

// Counts a key, and reports it once in an age if it is asked for often.
control TeaPopular(in tea_key_t key, in bit<48> now) {
    TeaRow() row0;
    TeaRow() row1;
    TeaRow() row2;
    TeaRow() row3;
    TeaReported() reported0;
    TeaReported() reported1;

    apply {
        bit<16> hot;
        tea_hot.read(hot, 0);
        if (hot != 0) {
            // A CRC of other bits, added to the key, would differ by the same for all keys. So the rows use parts of the CRCs of the key and of its
            // halves in the other order.
            bit<32> first;
            bit<32> second;
            hash(first, HashAlgorithm.crc32, 32w0, { key }, 64w0x100000000);
            hash(second, HashAlgorithm.crc32, 32w0,
                 { key[4 * TEA_KEY_BYTES - 1:0] ++ key[8 * TEA_KEY_BYTES - 1:4 * TEA_KEY_BYTES] }, 64w0x100000000);
            bit<3> age = now[TEA_AGE + 2:TEA_AGE];
            bit<13> least = 8191;
            @atomic {
                row0.apply(first[TEA_SKETCH_BITS - 1:0], age, least);
                row1.apply(first[31:32 - TEA_SKETCH_BITS], age, least);
                row2.apply(second[TEA_SKETCH_BITS - 1:0], age, least);
                row3.apply(second[31:32 - TEA_SKETCH_BITS], age, least);
            }
            if ((bit<16>)least >= hot) {
                bool reported = true;
                @atomic {
                    reported0.apply(first[TEA_SKETCH_BITS - 1:0], age, reported);
                    reported1.apply(second[31:32 - TEA_SKETCH_BITS], age, reported);
                }
                if (!reported) {
                    digest<tea_hot_t>(1, { key });
                }
            }
        }
    }
}

#endif
