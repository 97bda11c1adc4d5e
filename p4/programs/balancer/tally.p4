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
// device was. `heard` is when reports of each device came (0: never), `looks` whether they were asked for.
control Tally(in metadata_t meta, in bit<4> reason, in bool looks, in values_t heard, in time_us_t now) {
    counter(1048576, CounterType.packets) dispatches; // by device ++ reason
    counter(1048576, CounterType.packets) ages;       // by service ++ age
    register<bit<64>>(65536) age_us;                  // sum of ages, by service

    apply {
        dispatches.count((bit<32>)(meta.device ++ reason));
        if (looks) {
            time_us_t last = heard.d0;
            if (meta.device[2:0] == 1) {
                last = heard.d1;
            } else if (meta.device[2:0] == 2) {
                last = heard.d2;
            } else if (meta.device[2:0] == 3) {
                last = heard.d3;
            } else if (meta.device[2:0] == 4) {
                last = heard.d4;
            } else if (meta.device[2:0] == 5) {
                last = heard.d5;
            } else if (meta.device[2:0] == 6) {
                last = heard.d6;
            } else if (meta.device[2:0] == 7) {
                last = heard.d7;
            }
            // A report may have come since this packet did.
            time_us_t age = now |-| last;
            bit<4> bucket = AGE_OVER;
            if (last == 0) {
                bucket = AGE_NEVER;
            } else if (age <= 1000) {
                bucket = 0;
            } else if (age <= 2000) {
                bucket = 1;
            } else if (age <= 5000) {
                bucket = 2;
            } else if (age <= 10000) {
                bucket = 3;
            } else if (age <= 20000) {
                bucket = 4;
            } else if (age <= 50000) {
                bucket = 5;
            } else if (age <= 100000) {
                bucket = 6;
            } else if (age <= 200000) {
                bucket = 7;
            } else if (age <= 500000) {
                bucket = 8;
            } else if (age <= 1000000) {
                bucket = 9;
            } else if (age <= 2000000) {
                bucket = 10;
            } else if (age <= 5000000) {
                bucket = 11;
            } else if (age <= 10000000) {
                bucket = 12;
            } else if (age <= 20000000) {
                bucket = 13;
            }
            ages.count((bit<32>)(meta.flow.service ++ bucket));
            if (last != 0) {
                bit<64> sum;
                age_us.read(sum, (bit<32>)meta.flow.service);
                age_us.write((bit<32>)meta.flow.service, sum + (bit<64>)age);
            }
        }
    }
}

#endif
