// SPDX-License-Identifier: Apache-2.0
// What the switch knows about the load of devices: what they report, when they did, and what it counts itself.
//
// Every kind of state is one register array per device of a server, indexed by the server: a pipeline stage reads one cell of an
// array per packet, and a decision looks at all devices of one server. Nothing here loops; every device is an instance (devices.p4).
// The arrays are in state.p4.
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
#define VALUE_OF_DEVICE(i) bit<48> d##i
struct values_t {
    EACH_DEVICE(VALUE_OF_DEVICE);
}

#define FACTOR_OF_DEVICE(i) bit<16> d##i
struct factors_t {
    EACH_DEVICE(FACTOR_OF_DEVICE);
}

// The same number for all.
#define ZERO(i) 0
#define ONE(i) 1

// Names and parameters that stand for an array of each device.
#define LAST_HEARD(i) last_heard##i
#define LAST_HEARD_ARRAY(i) register<bit<48>> last_heard##i
#define LOAD(i) reported##i, in_flight##i
#define LOAD_ARRAYS(i) register<bit<64>> reported##i, register<bit<24>> in_flight##i
#define REPORTS(i) last_heard##i, reported##i
#define REPORT_ARRAYS(i) register<bit<48>> last_heard##i, register<bit<64>> reported##i

// A metric of a device. `reported` is compute, memory, network, queue, weight, latency (8 bits each), and how many connections it got
// since. No decision looks at the latency: it is for those who read the register.
control Metric(in bit<8> which, in bit<64> reported, in bit<24> in_flight, out bit<24> value) {
    apply {
        value = which == METRIC_IN_FLIGHT ? in_flight
            : (which == METRIC_COMPUTE ? (bit<24>)reported[63:56]
               : (which == METRIC_MEMORY ? (bit<24>)reported[55:48]
                  : (which == METRIC_NETWORK ? (bit<24>)reported[47:40]
                     : (which == METRIC_QUEUE ? (bit<24>)reported[39:32]
                        : (which == METRIC_WEIGHT ? (bit<24>)reported[31:24] : 24w0)))));
    }
}

// The load of the device in one slot of a server.
control LookAtDevice(in server_t server, in bit<1> enabled, in measure_t measure, in bit<16> factor, out bit<48> value)
                    (register<bit<64>> reported, register<bit<24>> in_flight) {
    Metric() metric_a;
    Metric() metric_b;

    apply {
        value = 0;
        if (enabled == 1) {
            bit<64> metrics;
            bit<24> n;
            bit<24> a;
            bit<24> b;
            reported.read(metrics, (bit<32>)server);
            in_flight.read(n, (bit<32>)server);
            metric_a.apply(measure.metric_a, metrics, n, a);
            metric_b.apply(measure.metric_b, metrics, n, b);
            // The highest of all factors give 2^32 - 65791.
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
control NoteOfDevice(in bool mine, in server_t server, in time_us_t now, in reported_t report, in bit<32> load, in bit<8> latency)
                    (register<bit<48>> last_heard, register<bit<64>> reported) {
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
                // A report knows no weight and a probe no queue and no latency: the last reported one stays.
                bit<64> was;
                reported.read(was, at);
                reported.write(at, load[31:8]
                    ++ (report.probe == 1 ? was[39:32] ++ report.weight ++ was[23:16] : load[7:0] ++ was[31:24] ++ latency)
                    ++ 16w0);
            }
        }
    }
}

// It gets one more (`more`), or the one in the same slot of another server has one less (`less`).
control CountDevice(in bool more, in server_t server, in bool less, in server_t less_server)
                   (register<bit<64>> reported, register<bit<24>> in_flight) {
    apply {
        bit<24> n;
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
    devices_t  devices;   // of meta.server
    devices_t  available; // those of them that can take new connections
    bool       failed;    // they failed their health check
    reported_t load;      // meta.words are the values
    bit<8>     latency;   // of the requests to the device of the agent, as the report has it
    devices_t  agent;     // which that is
}

// The devices whose last report was that of a failed health check.
#define HAS_FAILED(i) (heard.d##i == HEARD_FAILED ? 1w1 : 1w0)
devices_t failed_health_check(in values_t heard) {
    return DEVICE_BITMAP(HAS_FAILED);
}

// Which of the enabled devices of a server have reported within the timeout, and when, if there is one or the policy `looks` at it.
#define READ_LAST_HEARD(i) \
    if (enabled[i:i] == 1) { \
        last_heard##i.read(heard.d##i, (bit<32>)server); \
    }
#define IS_FRESH(i) (heard.d##i > HEARD_FAILED && (now <= heard.d##i || now - heard.d##i <= timeout) ? 1w1 : 1w0)
control HeardOf(in bool looks, in server_t server, in devices_t enabled, in time_us_t timeout, in time_us_t now,
                out devices_t fresh, out values_t heard)
               (DEVICE_LIST(LAST_HEARD_ARRAY)) {
    apply {
        fresh = enabled; // no device has to report
        heard = { DEVICE_LIST(ZERO) };
        if (looks || timeout != 0) {
            EACH_DEVICE(READ_LAST_HEARD);
        }
        // A report may have come since this packet did.
        if (timeout != 0) {
            fresh = enabled & (DEVICE_BITMAP(IS_FRESH));
        }
    }
}

// The load of each of the enabled devices of a server.
#define LOOK_AT(i) LookAtDevice(reported##i, in_flight##i) device##i
#define LOOK(i) device##i.apply(server, enabled[i:i], measure, factors.d##i, values.d##i)
control LookAtLoad(in server_t server, in devices_t enabled, in measure_t measure, in factors_t factors, out values_t values)
                  (DEVICE_LIST(LOAD_ARRAYS)) {
    EACH_DEVICE(LOOK_AT);

    apply {
        EACH_DEVICE(LOOK);
    }
}

// Takes note of a report about devices of a server; `words` is the load of each of eight, in the half of the server that it is about.
#define NOTE_OF(i) NoteOfDevice(last_heard##i, reported##i) device##i
#define NOTE(i) \
    device##i.apply(note.devices[i:i] == 1, server, heard, note.load, words[255 - 32 * (i % 8):224 - 32 * (i % 8)], \
                    note.agent[i:i] == 1 ? note.latency : 8w0)
control NoteLoad(in note_t note, in server_t server, in time_us_t now, in bit<256> words)
                (DEVICE_LIST(REPORT_ARRAYS), register<devices_t> accel_state, register<bit<48>> server_heard,
                 register<bit<48>> spare_heard) {
    EACH_DEVICE(NOTE_OF);

    apply {
        time_us_t heard = note.failed ? HEARD_FAILED : now;
        EACH_DEVICE(NOTE);
        devices_t available;
        accel_state.read(available, (bit<32>)server);
        accel_state.write((bit<32>)server, (available & ~note.devices) | (note.available & note.devices));
        if (!note.failed) {
            server_heard.write((bit<32>)server, now);
            spare_heard.write((bit<32>)server, now);
        }
    }
}

// Counts what is in flight: one more at the device `to` if `more`, one less at `from` if `less`.
#define COUNT_OF(i) CountDevice(reported##i, in_flight##i) device##i
#define COUNT(i) device##i.apply(gets[i:i] == 1, SERVER_OF(to), loses[i:i] == 1, SERVER_OF(from))
control CountLoad(in bool more, in device_t to, in bool less, in device_t from)
                 (DEVICE_LIST(LOAD_ARRAYS)) {
    EACH_DEVICE(COUNT_OF);

    apply {
        devices_t gets = more ? SET_OF(SLOT_OF(to)) : 0;
        devices_t loses = less ? SET_OF(SLOT_OF(from)) : 0;
        EACH_DEVICE(COUNT);
    }
}

#endif
