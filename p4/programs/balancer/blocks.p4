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
#define COUNT_MEMBERS(i, next) ; bit<8> n##next = n##i + (bit<8>)from[i:i]
#define COUNT_ALL(i) n##i + (bit<8>)from[i:i]
#define IS_DRAWN(i) (n##i == first || n##i == second || n##i == third ? 1w1 : 1w0)
control Sample(in devices_t from, in bit<8> count, in bit<16> draw1, in bit<16> draw2, in bit<16> draw3, out devices_t chosen) {
    apply {
        // How many members are below each position.
        const bit<8> n0 = 0;
        bit<8> n1 = (bit<8>)from[0:0] LATER_STEPS(COUNT_MEMBERS);
        bit<8> n = LAST_DEVICE(COUNT_ALL);
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
            chosen = from & (DEVICE_BITMAP(IS_DRAWN));
        }
    }
}

// The minimum finder: the members of a set with the smallest value.
#define VALUE_OR_NONE(i) (among[i:i] == 1 ? values.d##i : NONE)
#define LESSER(x, y) y < x ? y : x
#define IS_LEAST(i) (v.d##i == a ? 1w1 : 1w0)
control Minimum(in devices_t among, in values_t values, out devices_t least) {
    apply {
        const bit<48> NONE = 0xffffffffffff;
        values_t v = { DEVICE_LIST(VALUE_OR_NONE) };
        bit<48> a = LESSER(v.d0, v.d1);
        bit<48> b = LESSER(v.d2, v.d3);
        bit<48> c = LESSER(v.d4, v.d5);
        bit<48> d = LESSER(v.d6, v.d7);
#if SERVER_DEVICES == 16
        bit<48> e = LESSER(v.d8, v.d9);
        bit<48> f = LESSER(v.d10, v.d11);
        bit<48> g = LESSER(v.d12, v.d13);
        bit<48> h = LESSER(v.d14, v.d15);
        a = LESSER(a, e);
        b = LESSER(b, f);
        c = LESSER(c, g);
        d = LESSER(d, h);
#endif
        a = LESSER(a, b);
        c = LESSER(c, d);
        a = LESSER(a, c);
        least = among & (DEVICE_BITMAP(IS_LEAST));
    }
}

// Thresholds with hysteresis: the devices that are out, as a bitmap per pool, looked at and changed whenever a connection arrives.
#define IS_HIGH(i) (values.d##i >= (bit<48>)thresholds.high.d##i ? 1w1 : 1w0)
#define IS_NOT_LOW(i) (values.d##i > (bit<48>)thresholds.low.d##i ? 1w1 : 1w0)
control Thresholds(in bit<32> pool, in devices_t devices, in values_t values, in thresholds_t thresholds, out devices_t below) {
    register<devices_t>(65536) above;

    apply {
        devices_t over;
        above.read(over, pool);
        // Out at `high`; what was out stays so above `low`.
        over = (DEVICE_BITMAP(IS_HIGH)) | over;
        over = over & (DEVICE_BITMAP(IS_NOT_LOW));
        above.write(pool, over);
        below = devices & ~over;
    }
}

// The ring of a pool: 2,048 slots that are dealt out to the devices by the values that hold at this moment, so that a report
// changes the ring without anybody writing it. Each connection moves the pointer by one step; a step is 1,267 slots (odd, so that
// 2,048 steps visit every slot once; near 2,048 divided by the golden ratio, so that few steps already spread evenly).
// Where all values are 0, the factors alone decide.
#define VALUE_OR_ZERO(i) (among[i:i] == 1 ? values.d##i : 0)
#define FACTOR_OR_ZERO(i) (among[i:i] == 1 ? (bit<48>)factors.d##i : 0)
#define PLUS_NEXT(i, next) + v.d##next
#define SLOTS_END(i, next) ; bit<48> e##next = e##i + v.d##next
#define TAKES_SLOT(i, next) (slot < e##i ? (devices_t)1 << i :
#define END_OF(i) e##i
#define BIT(i) (devices_t)1 << i
control Weighted(in bit<32> pool, in devices_t among, in values_t values, in factors_t factors, out devices_t chosen) {
    register<bit<16>>(65536) pointer;

    apply {
        bit<16> at;
        pointer.read(at, pool);
        pointer.write(pool, at + 1267);
        values_t v = { DEVICE_LIST(VALUE_OR_ZERO) };
        if (v.d0 EACH_STEP(PLUS_NEXT) == 0) {
            v = { DEVICE_LIST(FACTOR_OR_ZERO) };
        }
        // Where each device's slots end.
        bit<48> e0 = v.d0 EACH_STEP(SLOTS_END);
        bit<64> scaled = (bit<64>)LAST_DEVICE(END_OF) * (bit<64>)at[10:0];
        bit<48> slot = scaled[58:11];
        chosen = LAST_DEVICE(END_OF) == 0 ? among : EACH_STEP(TAKES_SLOT) LAST_DEVICE(BIT) END_STEPS;
    }
}

// The position of the lowest bit of a set that is not empty.
#define IS_LOWEST(i, next) (of[i:i] == 1 ? (slot_t)i :
#define SLOT(i) (slot_t)i
control Position(in devices_t of, out slot_t position) {
    apply {
        position = EACH_STEP(IS_LOWEST) LAST_DEVICE(SLOT) END_STEPS;
    }
}

#endif
