// SPDX-License-Identifier: Apache-2.0
// What the switch knows about the load of devices: what they report, when they did, and what it counts itself.
//
// Every kind of state is one register array per device of a server, indexed by the server: a pipeline stage reads one cell of an
// array per packet, and a decision looks at all devices of one server. Nothing here loops; eight devices are eight instances. The arrays
// are in state.p4.
//
// A packet that opens a connection reads these arrays when the device is chosen and writes those of the chosen device when
// it is. Where a stage can touch its array only once per pass, that is two passes (the second by resubmission), for such packets
// alone. All others touch each array at most once.

#ifndef BALANCER_LOAD_P4
#define BALANCER_LOAD_P4

#include "headers.p4"

const bit<32> MAX_SERVERS = 8192; // all values of server_t

// Values of `last_heard` that are not a time: no report yet; the last report says that the device failed its health check. Such
// a device is as unavailable as a silent one.
const time_us_t HEARD_NEVER = 0;
const time_us_t HEARD_FAILED = 1;

// What decisions can look at. The first four come with reports, the weight with probes; the switch counts the rest.
const bit<8> METRIC_NONE = 0;
const bit<8> METRIC_COMPUTE = 1;
const bit<8> METRIC_MEMORY = 2;
const bit<8> METRIC_NETWORK = 3;
const bit<8> METRIC_QUEUE = 4;
const bit<8> METRIC_WEIGHT = 5;
const bit<8> METRIC_IN_FLIGHT = 6;

// What a report or probe says of one device.
struct reported_t {
    bit<1>  metrics;   // there are metrics: compute, memory, network, queue
    bit<1>  probe;     // they are a probe's: with a weight, without a queue
    bit<1>  corrects;  // the queue is what is in flight
    bit<8>  weight;
}

// How the load of a device becomes one number (`value`):
// sum = metric_a * weight_a + metric_b * weight_b + step * (connections since its last report) + offset
// value = sum * factor, or (100 - sum) * factor if `complement`, or, if `second_only`, the sum with metric_b * weight_b * factor in it.
struct measure_t {
    bit<8> metric_a;
    bit<8> weight_a;
    bit<8> metric_b;
    bit<8> weight_b;
    bit<8> step;
    bit<8> offset;
    bit<1> complement;
    bit<1> second_only;
}

// One number for each device of a server.
struct values_t {
    bit<48> d0;
    bit<48> d1;
    bit<48> d2;
    bit<48> d3;
    bit<48> d4;
    bit<48> d5;
    bit<48> d6;
    bit<48> d7;
}

struct factors_t {
    bit<16> d0;
    bit<16> d1;
    bit<16> d2;
    bit<16> d3;
    bit<16> d4;
    bit<16> d5;
    bit<16> d6;
    bit<16> d7;
}

// A metric of a device. `reported` is compute, memory, network, queue, weight (8 bits each), 8 bits unused, and how many
// connections it got since.
control Metric(in bit<8> which, in bit<64> reported, in bit<16> in_flight, out bit<16> value) {
    apply {
        value = which == METRIC_IN_FLIGHT ? in_flight
            : (which == METRIC_COMPUTE ? (bit<16>)reported[63:56]
               : (which == METRIC_MEMORY ? (bit<16>)reported[55:48]
                  : (which == METRIC_NETWORK ? (bit<16>)reported[47:40]
                     : (which == METRIC_QUEUE ? (bit<16>)reported[39:32]
                        : (which == METRIC_WEIGHT ? (bit<16>)reported[31:24] : 16w0)))));
    }
}

// The load of the device in one slot of a server.
control LookAtDevice(in server_t server, in bit<1> enabled, in measure_t measure, in bit<16> factor, out bit<48> value)
                    (register<bit<64>> reported, register<bit<16>> in_flight) {
    Metric() metric_a;
    Metric() metric_b;

    apply {
        value = 0;
        if (enabled == 1) {
            bit<64> metrics;
            bit<16> n;
            bit<16> a;
            bit<16> b;
            reported.read(metrics, (bit<32>)server);
            in_flight.read(n, (bit<32>)server);
            metric_a.apply(measure.metric_a, metrics, n, a);
            metric_b.apply(measure.metric_b, metrics, n, b);
            bit<32> sum = (bit<32>)a * (bit<32>)measure.weight_a + (bit<32>)metrics[15:0] * (bit<32>)measure.step
                + (bit<32>)measure.offset;
            bit<32> second = (bit<32>)b * (bit<32>)measure.weight_b;
            if (measure.second_only == 1) {
                value = (bit<48>)sum + (bit<48>)second * (bit<48>)factor;
            } else {
                sum = measure.complement == 1 ? 32w100 |-| (sum + second) : sum + second;
                value = (bit<48>)sum * (bit<48>)factor;
            }
        }
    }
}

// Takes note of a report or probe about a device (`mine`). `now` is HEARD_FAILED if the device failed its health check.
control NoteOfDevice(in bool mine, in server_t server, in time_us_t now, in reported_t report, in bit<32> load)
                    (register<bit<48>> last_heard, register<bit<64>> reported, register<bit<16>> in_flight) {
    apply {
        bit<32> at = (bit<32>)server;
        if (mine) {
            // A probe measures the machine, so it does not overrule the health check of the service.
            time_us_t heard;
            last_heard.read(heard, at);
            if (report.probe == 0 || heard != HEARD_FAILED) {
                last_heard.write(at, now);
            }
            if (report.metrics == 1) {
                // A report knows no weight and a probe no queue: the last reported one stays.
                bit<64> was;
                reported.read(was, at);
                reported.write(at, load[31:8]
                    ++ (report.probe == 1 ? was[39:32] ++ report.weight : load[7:0] ++ was[31:24]) ++ 24w0);
                if (report.corrects == 1) {
                    in_flight.write(at, (bit<16>)load[7:0]);
                }
            }
        }
    }
}

// It gets one more (`more`), or the one in the same slot of another server has one less (`less`).
control CountDevice(in bool more, in server_t server, in bool less, in server_t less_server)
                   (register<bit<64>> reported, register<bit<16>> in_flight) {
    apply {
        bit<16> n;
        if (more) {
            bit<64> was;
            in_flight.read(n, (bit<32>)server);
            in_flight.write((bit<32>)server, n |+| 1);
            reported.read(was, (bit<32>)server);
            reported.write((bit<32>)server, was[63:16] ++ (was[15:0] |+| 1));
        }
        if (less) {
            in_flight.read(n, (bit<32>)less_server);
            in_flight.write((bit<32>)less_server, n |-| 1);
        }
    }
}

// What a report or probe says.
struct note_t {
    bool       believed;
    bit<8>     devices;   // of meta.server
    bit<8>     available; // those of them that can take new connections
    bool       failed;    // they failed their health check
    reported_t load;      // meta.words are the values
}

// The devices whose last report was that of a failed health check.
bit<8> failed_health_check(in values_t heard) {
    return (heard.d7 == HEARD_FAILED ? 1w1 : 1w0) ++ (heard.d6 == HEARD_FAILED ? 1w1 : 1w0)
        ++ (heard.d5 == HEARD_FAILED ? 1w1 : 1w0) ++ (heard.d4 == HEARD_FAILED ? 1w1 : 1w0)
        ++ (heard.d3 == HEARD_FAILED ? 1w1 : 1w0) ++ (heard.d2 == HEARD_FAILED ? 1w1 : 1w0)
        ++ (heard.d1 == HEARD_FAILED ? 1w1 : 1w0) ++ (heard.d0 == HEARD_FAILED ? 1w1 : 1w0);
}

// Which of the enabled devices of a server have reported within the timeout, and when, if there is one or the policy `looks` at it.
control HeardOf(in bool looks, in server_t server, in bit<8> enabled, in time_us_t timeout, in time_us_t now, out bit<8> fresh,
                out values_t heard)
               (register<bit<48>> last_heard0, register<bit<48>> last_heard1, register<bit<48>> last_heard2,
                register<bit<48>> last_heard3, register<bit<48>> last_heard4, register<bit<48>> last_heard5,
                register<bit<48>> last_heard6, register<bit<48>> last_heard7) {
    apply {
        fresh = enabled; // no device has to report
        heard = { 0, 0, 0, 0, 0, 0, 0, 0 };
        if (looks || timeout != 0) {
            if (enabled[0:0] == 1) {
                last_heard0.read(heard.d0, (bit<32>)server);
            }
            if (enabled[1:1] == 1) {
                last_heard1.read(heard.d1, (bit<32>)server);
            }
            if (enabled[2:2] == 1) {
                last_heard2.read(heard.d2, (bit<32>)server);
            }
            if (enabled[3:3] == 1) {
                last_heard3.read(heard.d3, (bit<32>)server);
            }
            if (enabled[4:4] == 1) {
                last_heard4.read(heard.d4, (bit<32>)server);
            }
            if (enabled[5:5] == 1) {
                last_heard5.read(heard.d5, (bit<32>)server);
            }
            if (enabled[6:6] == 1) {
                last_heard6.read(heard.d6, (bit<32>)server);
            }
            if (enabled[7:7] == 1) {
                last_heard7.read(heard.d7, (bit<32>)server);
            }
        }
        // A report may have come since this packet did.
        if (timeout != 0) {
            fresh = enabled & ((heard.d7 > HEARD_FAILED && (now <= heard.d7 || now - heard.d7 <= timeout) ? 1w1 : 1w0)
                ++ (heard.d6 > HEARD_FAILED && (now <= heard.d6 || now - heard.d6 <= timeout) ? 1w1 : 1w0)
                ++ (heard.d5 > HEARD_FAILED && (now <= heard.d5 || now - heard.d5 <= timeout) ? 1w1 : 1w0)
                ++ (heard.d4 > HEARD_FAILED && (now <= heard.d4 || now - heard.d4 <= timeout) ? 1w1 : 1w0)
                ++ (heard.d3 > HEARD_FAILED && (now <= heard.d3 || now - heard.d3 <= timeout) ? 1w1 : 1w0)
                ++ (heard.d2 > HEARD_FAILED && (now <= heard.d2 || now - heard.d2 <= timeout) ? 1w1 : 1w0)
                ++ (heard.d1 > HEARD_FAILED && (now <= heard.d1 || now - heard.d1 <= timeout) ? 1w1 : 1w0)
                ++ (heard.d0 > HEARD_FAILED && (now <= heard.d0 || now - heard.d0 <= timeout) ? 1w1 : 1w0));
        }
    }
}

// The load of each of the enabled devices of a server.
control LookAtLoad(in server_t server, in bit<8> enabled, in measure_t measure, in factors_t factors, out values_t values)
                  (register<bit<64>> reported0, register<bit<16>> in_flight0, register<bit<64>> reported1,
                   register<bit<16>> in_flight1, register<bit<64>> reported2, register<bit<16>> in_flight2,
                   register<bit<64>> reported3, register<bit<16>> in_flight3, register<bit<64>> reported4,
                   register<bit<16>> in_flight4, register<bit<64>> reported5, register<bit<16>> in_flight5,
                   register<bit<64>> reported6, register<bit<16>> in_flight6, register<bit<64>> reported7,
                   register<bit<16>> in_flight7) {
    LookAtDevice(reported0, in_flight0) device0;
    LookAtDevice(reported1, in_flight1) device1;
    LookAtDevice(reported2, in_flight2) device2;
    LookAtDevice(reported3, in_flight3) device3;
    LookAtDevice(reported4, in_flight4) device4;
    LookAtDevice(reported5, in_flight5) device5;
    LookAtDevice(reported6, in_flight6) device6;
    LookAtDevice(reported7, in_flight7) device7;

    apply {
        device0.apply(server, enabled[0:0], measure, factors.d0, values.d0);
        device1.apply(server, enabled[1:1], measure, factors.d1, values.d1);
        device2.apply(server, enabled[2:2], measure, factors.d2, values.d2);
        device3.apply(server, enabled[3:3], measure, factors.d3, values.d3);
        device4.apply(server, enabled[4:4], measure, factors.d4, values.d4);
        device5.apply(server, enabled[5:5], measure, factors.d5, values.d5);
        device6.apply(server, enabled[6:6], measure, factors.d6, values.d6);
        device7.apply(server, enabled[7:7], measure, factors.d7, values.d7);
    }
}

// Takes note of a report about devices of a server; `words` is the load of each.
control NoteLoad(in note_t note, in server_t server, in time_us_t now, in bit<256> words)
                (register<bit<48>> last_heard0, register<bit<64>> reported0, register<bit<16>> in_flight0,
                 register<bit<48>> last_heard1, register<bit<64>> reported1, register<bit<16>> in_flight1,
                 register<bit<48>> last_heard2, register<bit<64>> reported2, register<bit<16>> in_flight2,
                 register<bit<48>> last_heard3, register<bit<64>> reported3, register<bit<16>> in_flight3,
                 register<bit<48>> last_heard4, register<bit<64>> reported4, register<bit<16>> in_flight4,
                 register<bit<48>> last_heard5, register<bit<64>> reported5, register<bit<16>> in_flight5,
                 register<bit<48>> last_heard6, register<bit<64>> reported6, register<bit<16>> in_flight6,
                 register<bit<48>> last_heard7, register<bit<64>> reported7, register<bit<16>> in_flight7,
                 register<bit<8>> accel_state, register<bit<48>> server_heard, register<bit<48>> spare_heard) {
    NoteOfDevice(last_heard0, reported0, in_flight0) device0;
    NoteOfDevice(last_heard1, reported1, in_flight1) device1;
    NoteOfDevice(last_heard2, reported2, in_flight2) device2;
    NoteOfDevice(last_heard3, reported3, in_flight3) device3;
    NoteOfDevice(last_heard4, reported4, in_flight4) device4;
    NoteOfDevice(last_heard5, reported5, in_flight5) device5;
    NoteOfDevice(last_heard6, reported6, in_flight6) device6;
    NoteOfDevice(last_heard7, reported7, in_flight7) device7;

    apply {
        time_us_t heard = note.failed ? HEARD_FAILED : now;
        device0.apply(note.devices[0:0] == 1, server, heard, note.load, words[255:224]);
        device1.apply(note.devices[1:1] == 1, server, heard, note.load, words[223:192]);
        device2.apply(note.devices[2:2] == 1, server, heard, note.load, words[191:160]);
        device3.apply(note.devices[3:3] == 1, server, heard, note.load, words[159:128]);
        device4.apply(note.devices[4:4] == 1, server, heard, note.load, words[127:96]);
        device5.apply(note.devices[5:5] == 1, server, heard, note.load, words[95:64]);
        device6.apply(note.devices[6:6] == 1, server, heard, note.load, words[63:32]);
        device7.apply(note.devices[7:7] == 1, server, heard, note.load, words[31:0]);
        bit<8> available;
        accel_state.read(available, (bit<32>)server);
        accel_state.write((bit<32>)server, (available & ~note.devices) | (note.available & note.devices));
        if (!note.failed) {
            server_heard.write((bit<32>)server, now);
            spare_heard.write((bit<32>)server, now);
        }
    }
}

// Counts what is in flight: one more at the device `to` if `more`, one less at `from` if `less`.
control CountLoad(in bool more, in device_t to, in bool less, in device_t from)
                 (register<bit<64>> reported0, register<bit<16>> in_flight0, register<bit<64>> reported1,
                  register<bit<16>> in_flight1, register<bit<64>> reported2, register<bit<16>> in_flight2,
                  register<bit<64>> reported3, register<bit<16>> in_flight3, register<bit<64>> reported4,
                  register<bit<16>> in_flight4, register<bit<64>> reported5, register<bit<16>> in_flight5,
                  register<bit<64>> reported6, register<bit<16>> in_flight6, register<bit<64>> reported7,
                  register<bit<16>> in_flight7) {
    CountDevice(reported0, in_flight0) device0;
    CountDevice(reported1, in_flight1) device1;
    CountDevice(reported2, in_flight2) device2;
    CountDevice(reported3, in_flight3) device3;
    CountDevice(reported4, in_flight4) device4;
    CountDevice(reported5, in_flight5) device5;
    CountDevice(reported6, in_flight6) device6;
    CountDevice(reported7, in_flight7) device7;

    apply {
        bit<8> gets = more ? (bit<8>)1 << (bit<8>)to[2:0] : 8w0;
        bit<8> loses = less ? (bit<8>)1 << (bit<8>)from[2:0] : 8w0;
        device0.apply(gets[0:0] == 1, to[15:3], loses[0:0] == 1, from[15:3]);
        device1.apply(gets[1:1] == 1, to[15:3], loses[1:1] == 1, from[15:3]);
        device2.apply(gets[2:2] == 1, to[15:3], loses[2:2] == 1, from[15:3]);
        device3.apply(gets[3:3] == 1, to[15:3], loses[3:3] == 1, from[15:3]);
        device4.apply(gets[4:4] == 1, to[15:3], loses[4:4] == 1, from[15:3]);
        device5.apply(gets[5:5] == 1, to[15:3], loses[5:5] == 1, from[15:3]);
        device6.apply(gets[6:6] == 1, to[15:3], loses[6:6] == 1, from[15:3]);
        device7.apply(gets[7:7] == 1, to[15:3], loses[7:7] == 1, from[15:3]);
    }
}

#endif
