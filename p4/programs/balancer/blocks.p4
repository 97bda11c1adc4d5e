// SPDX-License-Identifier: Apache-2.0
// The blocks that policies are made of. Each takes a set of devices (a bitmap) and the load of each, and leaves fewer:
//
//   narrow   the fresh devices -> those that report to be available | are below a threshold | have room for one more
//   sample   -> k of them by chance
//   minimum  -> those with the smallest value
//   pick     -> one: by chance, by priority, by weight, or as the controller says
//
// Chance is a hash of the connection, so that the same packet twice gives the same device.

#ifndef BALANCER_BLOCKS_P4
#define BALANCER_BLOCKS_P4

#include "headers.p4"
#include "load.p4"

const bit<8> NARROW_NONE = 0;
const bit<8> NARROW_AVAILABLE = 1; // P4Mite's bitmap
const bit<8> NARROW_BELOW = 2;     // value below the device's threshold, with hysteresis
const bit<8> NARROW_IDLE = 3;      // value at the device's low threshold or below; without thresholds: value 0

const bit<8> PICK_LEAST = 0;       // the smallest value, of `choices` devices by chance (0: of all)
const bit<8> PICK_PRIORITY = 1;    // the first of dip_table
const bit<8> PICK_WEIGHTED = 2;    // by turns, each as often as its value says
const bit<8> PICK_CHANCE = 3;      // by turns, each as often as its factor says
const bit<8> PICK_CHOSEN = 4;      // the controller's

// Thresholds of each device: at `high` or above it is out, at `low` or below it is in again.
struct thresholds_t {
    factors_t high;
    factors_t low;
}

// `count` devices of a set by chance: 1, 2 or 3 different ones, each combination as likely as any other; all if there are no
// more, or if `count` is 0.
control Sample(in bit<8> from, in bit<8> count, in bit<16> draw1, in bit<16> draw2, in bit<16> draw3, out bit<8> chosen) {
    apply {
        // How many members are below each position.
        bit<8> n1 = (bit<8>)from[0:0];
        bit<8> n2 = n1 + (bit<8>)from[1:1];
        bit<8> n3 = n2 + (bit<8>)from[2:2];
        bit<8> n4 = n3 + (bit<8>)from[3:3];
        bit<8> n5 = n4 + (bit<8>)from[4:4];
        bit<8> n6 = n5 + (bit<8>)from[5:5];
        bit<8> n7 = n6 + (bit<8>)from[6:6];
        bit<8> n = n7 + (bit<8>)from[7:7];
        chosen = from;
        if (count != 0 && count < n) {
            // A draw times a number, shifted, is a number below that number. The second draw leaves out the first result by
            // stepping over it, the third both.
            bit<32> product = (bit<32>)draw1 * (bit<32>)n;
            bit<8> first = product[23:16];
            bit<8> second = first;
            bit<8> third = first;
            if (count >= 2) {
                product = (bit<32>)draw2 * (bit<32>)(n - 1);
                second = product[23:16];
                if (second >= first) {
                    second = second + 1;
                }
            }
            if (count >= 3) {
                bit<8> low = first;
                bit<8> high = second;
                if (second < first) {
                    low = second;
                    high = first;
                }
                product = (bit<32>)draw3 * (bit<32>)(n - 2);
                third = product[23:16];
                if (third >= low) {
                    third = third + 1;
                }
                if (third >= high) {
                    third = third + 1;
                }
            }
            chosen = from & ((n7 == first || n7 == second || n7 == third ? 1w1 : 1w0)
                ++ (n6 == first || n6 == second || n6 == third ? 1w1 : 1w0)
                ++ (n5 == first || n5 == second || n5 == third ? 1w1 : 1w0)
                ++ (n4 == first || n4 == second || n4 == third ? 1w1 : 1w0)
                ++ (n3 == first || n3 == second || n3 == third ? 1w1 : 1w0)
                ++ (n2 == first || n2 == second || n2 == third ? 1w1 : 1w0)
                ++ (n1 == first || n1 == second || n1 == third ? 1w1 : 1w0)
                ++ (8w0 == first || 8w0 == second || 8w0 == third ? 1w1 : 1w0));
        }
    }
}

// The minimum finder: the members of a set with the smallest value.
control Minimum(in bit<8> among, in values_t values, out bit<8> least) {
    apply {
        const bit<48> NONE = 0xffffffffffff;
        values_t v = {
            (among[0:0] == 1 ? values.d0 : NONE),
            (among[1:1] == 1 ? values.d1 : NONE),
            (among[2:2] == 1 ? values.d2 : NONE),
            (among[3:3] == 1 ? values.d3 : NONE),
            (among[4:4] == 1 ? values.d4 : NONE),
            (among[5:5] == 1 ? values.d5 : NONE),
            (among[6:6] == 1 ? values.d6 : NONE),
            (among[7:7] == 1 ? values.d7 : NONE)
        };
        bit<48> a = v.d1 < v.d0 ? v.d1 : v.d0;
        bit<48> b = v.d3 < v.d2 ? v.d3 : v.d2;
        bit<48> c = v.d5 < v.d4 ? v.d5 : v.d4;
        bit<48> d = v.d7 < v.d6 ? v.d7 : v.d6;
        a = b < a ? b : a;
        c = d < c ? d : c;
        a = c < a ? c : a;
        least = among & ((v.d7 == a ? 1w1 : 1w0)
            ++ (v.d6 == a ? 1w1 : 1w0)
            ++ (v.d5 == a ? 1w1 : 1w0)
            ++ (v.d4 == a ? 1w1 : 1w0)
            ++ (v.d3 == a ? 1w1 : 1w0)
            ++ (v.d2 == a ? 1w1 : 1w0)
            ++ (v.d1 == a ? 1w1 : 1w0)
            ++ (v.d0 == a ? 1w1 : 1w0));
    }
}

// Thresholds with hysteresis: the devices that are out, as a bitmap per pool, looked at and changed whenever a connection arrives.
control Thresholds(in bit<32> pool, in bit<8> devices, in values_t values, in thresholds_t thresholds, out bit<8> below) {
    register<bit<8>>(65536) above;

    apply {
        bit<8> over;
        above.read(over, pool);
        // Out at `high`; what was out stays so above `low`.
        over = ((values.d7 >= (bit<48>)thresholds.high.d7 ? 1w1 : 1w0)
            ++ (values.d6 >= (bit<48>)thresholds.high.d6 ? 1w1 : 1w0)
            ++ (values.d5 >= (bit<48>)thresholds.high.d5 ? 1w1 : 1w0)
            ++ (values.d4 >= (bit<48>)thresholds.high.d4 ? 1w1 : 1w0)
            ++ (values.d3 >= (bit<48>)thresholds.high.d3 ? 1w1 : 1w0)
            ++ (values.d2 >= (bit<48>)thresholds.high.d2 ? 1w1 : 1w0)
            ++ (values.d1 >= (bit<48>)thresholds.high.d1 ? 1w1 : 1w0)
            ++ (values.d0 >= (bit<48>)thresholds.high.d0 ? 1w1 : 1w0)) | over;
        over = over & ((values.d7 > (bit<48>) thresholds.low.d7 ? 1w1 : 1w0)
            ++ (values.d6 > (bit<48>) thresholds.low.d6 ? 1w1 : 1w0)
            ++ (values.d5 > (bit<48>) thresholds.low.d5 ? 1w1 : 1w0)
            ++ (values.d4 > (bit<48>) thresholds.low.d4 ? 1w1 : 1w0)
            ++ (values.d3 > (bit<48>) thresholds.low.d3 ? 1w1 : 1w0)
            ++ (values.d2 > (bit<48>) thresholds.low.d2 ? 1w1 : 1w0)
            ++ (values.d1 > (bit<48>) thresholds.low.d1 ? 1w1 : 1w0)
            ++ (values.d0 > (bit<48>) thresholds.low.d0 ? 1w1 : 1w0));
        above.write(pool, over);
        below = devices & ~over;
    }
}

// The ring of a pool: 2,048 slots that are dealt out to the devices by the values that hold at this moment, so that a report
// changes the ring without anybody writing it. Each connection moves the pointer by one step; a step is 1,267 slots (odd, so that
// 2,048 steps visit every slot once; near 2,048 divided by the golden ratio, so that few steps already spread evenly).
// Where all values are 0, the factors alone decide.
control Weighted(in bit<32> pool, in bit<8> among, in values_t values, in factors_t factors, out bit<8> chosen) {
    register<bit<16>>(65536) pointer;

    apply {
        bit<16> at;
        pointer.read(at, pool);
        pointer.write(pool, at + 1267);
        values_t v = {
            (among[0:0] == 1 ? values.d0 : 0),
            (among[1:1] == 1 ? values.d1 : 0),
            (among[2:2] == 1 ? values.d2 : 0),
            (among[3:3] == 1 ? values.d3 : 0),
            (among[4:4] == 1 ? values.d4 : 0),
            (among[5:5] == 1 ? values.d5 : 0),
            (among[6:6] == 1 ? values.d6 : 0),
            (among[7:7] == 1 ? values.d7 : 0)
        };
        if (v.d0 + v.d1 + v.d2 + v.d3 + v.d4 + v.d5 + v.d6 + v.d7 == 0) {
            v = {
                (among[0:0] == 1 ? (bit<48>)factors.d0 : 0),
                (among[1:1] == 1 ? (bit<48>)factors.d1 : 0),
                (among[2:2] == 1 ? (bit<48>)factors.d2 : 0),
                (among[3:3] == 1 ? (bit<48>)factors.d3 : 0),
                (among[4:4] == 1 ? (bit<48>)factors.d4 : 0),
                (among[5:5] == 1 ? (bit<48>)factors.d5 : 0),
                (among[6:6] == 1 ? (bit<48>)factors.d6 : 0),
                (among[7:7] == 1 ? (bit<48>)factors.d7 : 0)
            };
        }
        // Where each device's slots end.
        bit<48> e0 = v.d0;
        bit<48> e1 = e0 + v.d1;
        bit<48> e2 = e1 + v.d2;
        bit<48> e3 = e2 + v.d3;
        bit<48> e4 = e3 + v.d4;
        bit<48> e5 = e4 + v.d5;
        bit<48> e6 = e5 + v.d6;
        bit<48> e7 = e6 + v.d7;
        bit<64> scaled = (bit<64>)e7 * (bit<64>)at[10:0];
        bit<48> slot = scaled[58:11];
        chosen = e7 == 0 ? among
            : (slot < e0 ? 8w1
               : (slot < e1 ? 8w2
                  : (slot < e2 ? 8w4
                     : (slot < e3 ? 8w8
                        : (slot < e4 ? 8w16
                           : (slot < e5 ? 8w32
                              : (slot < e6 ? 8w64 : 8w128)))))));
    }
}

// The position of the lowest bit of a set that is not empty.
control Position(in bit<8> of, out slot_t position) {
    apply {
        position = of[0:0] == 1 ? 3w0
            : (of[1:1] == 1 ? 3w1
               : (of[2:2] == 1 ? 3w2
                  : (of[3:3] == 1 ? 3w3
                     : (of[4:4] == 1 ? 3w4
                        : (of[5:5] == 1 ? 3w5
                           : (of[6:6] == 1 ? 3w6 : 3w7))))));
    }
}

#endif
