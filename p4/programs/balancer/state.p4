// SPDX-License-Identifier: Apache-2.0
// Registers that several controls look at: declared here once, inside of the ingress, and handed to each of them. Their names say
// which control they are about.

// The table of connections (connections.p4), by way:
//   low       low half of a client's IPv6 address or the whole IPv4 address, port, service
//   high      bits 127 to 64 of its address
//   middle    bits 63 to 32, device, its rest (4 bits), options, version
//   state     version, idle time, flags
@name("connections.way0.low") register<bit<64>>(WAY_SIZE) low0;
@name("connections.way0.high") register<bit<64>>(WAY_SIZE) high0;
@name("connections.way0.middle") register<bit<64>>(WAY_SIZE) middle0;
@name("connections.way0.state") register<bit<32>>(WAY_SIZE) state0;
@name("connections.way0.last_seen") register<bit<32>>(WAY_SIZE) last_seen0;
@name("connections.way1.low") register<bit<64>>(WAY_SIZE) low1;
@name("connections.way1.high") register<bit<64>>(WAY_SIZE) high1;
@name("connections.way1.middle") register<bit<64>>(WAY_SIZE) middle1;
@name("connections.way1.state") register<bit<32>>(WAY_SIZE) state1;
@name("connections.way1.last_seen") register<bit<32>>(WAY_SIZE) last_seen1;
@name("connections.way2.low") register<bit<64>>(WAY_SIZE) low2;
@name("connections.way2.high") register<bit<64>>(WAY_SIZE) high2;
@name("connections.way2.middle") register<bit<64>>(WAY_SIZE) middle2;
@name("connections.way2.state") register<bit<32>>(WAY_SIZE) state2;
@name("connections.way2.last_seen") register<bit<32>>(WAY_SIZE) last_seen2;
@name("connections.way3.low") register<bit<64>>(WAY_SIZE) low3;
@name("connections.way3.high") register<bit<64>>(WAY_SIZE) high3;
@name("connections.way3.middle") register<bit<64>>(WAY_SIZE) middle3;
@name("connections.way3.state") register<bit<32>>(WAY_SIZE) state3;
@name("connections.way3.last_seen") register<bit<32>>(WAY_SIZE) last_seen3;
#ifdef BALANCER_TEA
// When servers' memory was asked for a connection last, in ticks (settled.p4), by a part of the connection's hash. Those that share a cell are seen together.
@name("settled.seen") register<bit<16>>(32w1 << SETTLED_SEEN_BITS) settled_seen;
#endif

// The state of devices (load.p4), by the slot of the device in its server, indexed by the server:
//   last_heard  microseconds since start, HEARD_NEVER or HEARD_FAILED
//   reported    see Metric
//   in_flight   connections or requests, whatever the services count
#define NAMED(path) @name(#path)
#define STATE_OF_DEVICE(i) \
    NAMED(load.device##i.last_heard) register<bit<48>>(MAX_SERVERS) last_heard##i; \
    NAMED(load.device##i.reported) register<bit<64>>(MAX_SERVERS) reported##i; \
    NAMED(load.device##i.in_flight) register<bit<24>>(MAX_SERVERS) in_flight##i
EACH_DEVICE(STATE_OF_DEVICE);
// Which of them can take new connections.
@name("load.accel_state") register<devices_t>(MAX_SERVERS) accel_state;
// When a server's devices last reported, in two copies: of the server that is chosen, and of the one that stands in for it.
@name("load.server_heard") register<bit<48>>(MAX_SERVERS) server_heard;
@name("load.spare_heard") register<bit<48>>(MAX_SERVERS) spare_heard;
// In flight of all devices of a server, a copy for each of the two candidates (servers.p4).
@name("select_server.first.in_flight") register<bit<24>>(MAX_SERVERS) first_in_flight;
@name("select_server.second.in_flight") register<bit<24>>(MAX_SERVERS) second_in_flight;
