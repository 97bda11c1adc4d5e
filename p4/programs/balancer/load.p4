// SPDX-License-Identifier: Apache-2.0
// What the switch knows about the load of devices: what they report, when they did, and what it counts itself.
//
// Every kind of state is one register array per device of a server, indexed by the server: a pipeline stage reads one cell of an
// array per packet, and a decision looks at all devices of one server. Nothing here loops; eight devices are eight instances.
//
// A packet that opens a connection reads these arrays when the device is chosen and writes those of the chosen device when
// it is. Where a stage can touch its array only once per pass, that is two passes (the second by resubmission), for such packets
// alone. All others touch each array at most once.

#ifndef BALANCER_LOAD_P4
#define BALANCER_LOAD_P4

#include "headers.p4"

const bit<32> MAX_SERVERS = 8192; // all values of server_t

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
    bit<1>  metrics;   // there are metrics
    bit<1>  probe;     // they are a probe's: with a weight, without a queue
    bit<1>  corrects;  // the queue is what is in flight
    bit<32> values;    // compute, memory, network, queue
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

// What is asked of the state of devices.
const bit<2> LOAD_ASK = 0;   // which are fresh, which available?
const bit<2> LOAD_VALUE = 1; // and what is the load of each?
const bit<2> LOAD_NOTE = 2;  // a report arrived
const bit<2> LOAD_COUNT = 3; // there is one more or less in flight

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

// The state of the devices in one slot, of all servers. `mine` says that a report speaks of it, or that it gets one more
// (LOAD_COUNT); `less` that it has one less.
control DeviceState(in bit<2> request, in bool mine, in bool less, in server_t server, in server_t less_server,
                    in bit<1> enabled, in time_us_t now, in time_us_t timeout, in reported_t report, in measure_t measure,
                    in bit<16> factor, out bit<1> fresh, out bit<48> value, out time_us_t heard) {
    register<bit<48>>(MAX_SERVERS) last_heard; // microseconds since start, 0 for never
    register<bit<64>>(MAX_SERVERS) reported;   // see Metric
    register<bit<16>>(MAX_SERVERS) in_flight;  // connections or requests, whatever the services count

    Metric() metric_a;
    Metric() metric_b;

    apply {
        bit<32> at = (bit<32>)server;
        fresh = enabled;
        value = 0;
        heard = 0;
        bit<64> metrics;
        bit<16> n;
        if (request == LOAD_NOTE) {
            if (mine) {
                last_heard.write(at, now);
                if (report.metrics == 1) {
                    // A report knows no weight and a probe no queue: what was heard of it stays.
                    reported.read(metrics, at);
                    reported.write(at, report.values[31:8]
                        ++ (report.probe == 1 ? metrics[39:32] ++ report.weight : report.values[7:0] ++ metrics[31:24]) ++ 24w0);
                    if (report.corrects == 1) {
                        in_flight.write(at, (bit<16>)report.values[7:0]);
                    }
                }
            }
        } else if (request == LOAD_COUNT) {
            if (mine) {
                in_flight.read(n, at);
                in_flight.write(at, n |+| 1);
                reported.read(metrics, at);
                reported.write(at, metrics[63:16] ++ (metrics[15:0] |+| 1));
            }
            if (less) {
                in_flight.read(n, (bit<32>)less_server);
                in_flight.write((bit<32>)less_server, n |-| 1);
            }
        } else if (enabled == 1) {
            if (timeout != 0 || request == LOAD_VALUE) {
                last_heard.read(heard, at);
                // A report may have come since this packet did.
                fresh = timeout != 0 && (heard == 0 || now > heard && now - heard > timeout) ? 1w0 : 1w1;
            }
            if (request == LOAD_VALUE) {
                bit<16> a;
                bit<16> b;
                reported.read(metrics, at);
                in_flight.read(n, at);
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
}

// What a report or probe says.
struct note_t {
    bool       believed;
    bit<8>     devices;   // of meta.server
    bit<8>     available; // those of them that can take new connections
    reported_t load;      // meta.words are the values
}

// The load of every server's devices. LOAD_ASK and LOAD_VALUE say which of the enabled devices were heard of within the
// timeout (and when they were) and which are available; LOAD_NOTE takes note of a report about the devices in `note`; LOAD_COUNT
// counts one more for the device in `note`, and one less for the device `less` if `has_less`.
//
// Every call has the same arguments, so that a compiler that puts the text of a control in the place of each call copies none of them.
control LoadState(in bit<2> request, in note_t note, in server_t server, in bool has_less, in device_t less, in bit<8> enabled,
                  in time_us_t timeout, in time_us_t now, in bit<256> words, in measure_t measure, in factors_t factors,
                  out bit<8> fresh, out bit<8> available, out values_t values, out values_t heard) {
    register<bit<8>>(MAX_SERVERS) accel_state;

    DeviceState() device0;
    DeviceState() device1;
    DeviceState() device2;
    DeviceState() device3;
    DeviceState() device4;
    DeviceState() device5;
    DeviceState() device6;
    DeviceState() device7;

    apply {
        fresh = 0;
        available = 0;
        if (request == LOAD_ASK && timeout == 0) {
            fresh = enabled; // nobody has to report
            values = { 0, 0, 0, 0, 0, 0, 0, 0 };
            heard = { 0, 0, 0, 0, 0, 0, 0, 0 };
        } else {
            server_t from_server = less[15:3];
            bit<8> gone = has_less ? (bit<8>)1 << (bit<8>)less[2:0] : 8w0;
            reported_t r = note.load;
            r.values = words[255:224];
            device0.apply(request, note.devices[0:0] == 1, gone[0:0] == 1, server, from_server, enabled[0:0], now, timeout, r, measure,
                factors.d0, fresh[0:0], values.d0, heard.d0);
            r.values = words[223:192];
            device1.apply(request, note.devices[1:1] == 1, gone[1:1] == 1, server, from_server, enabled[1:1], now, timeout, r, measure,
                factors.d1, fresh[1:1], values.d1, heard.d1);
            r.values = words[191:160];
            device2.apply(request, note.devices[2:2] == 1, gone[2:2] == 1, server, from_server, enabled[2:2], now, timeout, r, measure,
                factors.d2, fresh[2:2], values.d2, heard.d2);
            r.values = words[159:128];
            device3.apply(request, note.devices[3:3] == 1, gone[3:3] == 1, server, from_server, enabled[3:3], now, timeout, r, measure,
                factors.d3, fresh[3:3], values.d3, heard.d3);
            r.values = words[127:96];
            device4.apply(request, note.devices[4:4] == 1, gone[4:4] == 1, server, from_server, enabled[4:4], now, timeout, r, measure,
                factors.d4, fresh[4:4], values.d4, heard.d4);
            r.values = words[95:64];
            device5.apply(request, note.devices[5:5] == 1, gone[5:5] == 1, server, from_server, enabled[5:5], now, timeout, r, measure,
                factors.d5, fresh[5:5], values.d5, heard.d5);
            r.values = words[63:32];
            device6.apply(request, note.devices[6:6] == 1, gone[6:6] == 1, server, from_server, enabled[6:6], now, timeout, r, measure,
                factors.d6, fresh[6:6], values.d6, heard.d6);
            r.values = words[31:0];
            device7.apply(request, note.devices[7:7] == 1, gone[7:7] == 1, server, from_server, enabled[7:7], now, timeout, r, measure,
                factors.d7, fresh[7:7], values.d7, heard.d7);
        }
        if (request != LOAD_COUNT) {
            accel_state.read(available, (bit<32>)server);
        }
        if (request == LOAD_NOTE) {
            accel_state.write((bit<32>)server, (available & ~note.devices) | (note.available & note.devices));
        }
    }
}

#endif
