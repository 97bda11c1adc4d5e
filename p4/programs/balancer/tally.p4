// SPDX-License-Identifier: Apache-2.0
// What is counted of a decision, for metrics alone: nothing here is looked at by a packet. Only packets that open a connection
// come here, after their device is chosen.

#ifndef BALANCER_TALLY_P4
#define BALANCER_TALLY_P4

#include "headers.p4"
#include "load.p4"
#include "select.p4"

// By age of a report: up to 1 ms, 2, 5, 10 and so on up to 20 s, more than that, and none at all.
const bit<4> AGE_OVER = 14;
const bit<4> AGE_NEVER = 15;

// Counts a new connection of meta.device by why it was chosen, and, where decisions look at reports, by how old the last report of that
// device was. `heard` is when reports of each device came (HEARD_NEVER or HEARD_FAILED: no report counts), `looks` whether they were asked for.
#define LAST_OF(i, next) (SLOT_OF(meta.device) == i ? heard.d##i :
#define HEARD(i) heard.d##i
control Tally(in metadata_t meta, in bit<4> reason, in bool looks, in values_t heard, in time_us_t now) {
    counter(16 * DEVICE_NUMBERS, CounterType.packets) dispatches; // by device ++ reason
    counter(1048576, CounterType.packets) ages;                  // by service ++ age
    register<bit<64>>(65536) age_us;                             // sum of ages, by service

    apply {
        dispatches.count((bit<32>)(meta.device ++ reason));
        if (looks) {
            time_us_t last = EACH_STEP(LAST_OF) LAST_DEVICE(HEARD) END_STEPS;
            // A report may have come since this packet did.
            time_us_t age = now |-| last;
            bit<4> bucket = last <= HEARD_FAILED ? AGE_NEVER
                : (age <= 1000 ? 4w0
                   : (age <= 2000 ? 4w1
                      : (age <= 5000 ? 4w2
                         : (age <= 10000 ? 4w3
                            : (age <= 20000 ? 4w4
                               : (age <= 50000 ? 4w5
                                  : (age <= 100000 ? 4w6
                                     : (age <= 200000 ? 4w7
                                        : (age <= 500000 ? 4w8
                                           : (age <= 1000000 ? 4w9
                                              : (age <= 2000000 ? 4w10
                                                 : (age <= 5000000 ? 4w11
                                                    : (age <= 10000000 ? 4w12
                                                       : (age <= 20000000 ? 4w13 : AGE_OVER))))))))))))));
            ages.count((bit<32>)(meta.flow.service ++ bucket));
            if (last > HEARD_FAILED) {
                bit<64> sum;
                age_us.read(sum, (bit<32>)meta.flow.service);
                age_us.write((bit<32>)meta.flow.service, sum + (bit<64>)age);
            }
        }
    }
}

#endif
