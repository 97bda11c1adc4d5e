// SPDX-License-Identifier: Apache-2.0
// Registers that several controls look at: declared here once, inside of the ingress, and handed to each of them. Their names say
// which control they are about.

// The table of connections (connections.p4), by way:
//   low       low half of a client's IPv6 address or the whole IPv4 address, port, service
//   high      bits 127 to 64 of its address
//   middle    bits 63 to 32, device, 4 bits unused, options, version
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

// The state of devices (load.p4), by the slot of the device in its server, indexed by the server:
//   last_heard  microseconds since start, HEARD_NEVER or HEARD_FAILED
//   reported    see Metric
//   in_flight   connections or requests, whatever the services count
@name("load.device0.last_heard") register<bit<48>>(MAX_SERVERS) last_heard0;
@name("load.device0.reported") register<bit<64>>(MAX_SERVERS) reported0;
@name("load.device0.in_flight") register<bit<16>>(MAX_SERVERS) in_flight0;
@name("load.device1.last_heard") register<bit<48>>(MAX_SERVERS) last_heard1;
@name("load.device1.reported") register<bit<64>>(MAX_SERVERS) reported1;
@name("load.device1.in_flight") register<bit<16>>(MAX_SERVERS) in_flight1;
@name("load.device2.last_heard") register<bit<48>>(MAX_SERVERS) last_heard2;
@name("load.device2.reported") register<bit<64>>(MAX_SERVERS) reported2;
@name("load.device2.in_flight") register<bit<16>>(MAX_SERVERS) in_flight2;
@name("load.device3.last_heard") register<bit<48>>(MAX_SERVERS) last_heard3;
@name("load.device3.reported") register<bit<64>>(MAX_SERVERS) reported3;
@name("load.device3.in_flight") register<bit<16>>(MAX_SERVERS) in_flight3;
@name("load.device4.last_heard") register<bit<48>>(MAX_SERVERS) last_heard4;
@name("load.device4.reported") register<bit<64>>(MAX_SERVERS) reported4;
@name("load.device4.in_flight") register<bit<16>>(MAX_SERVERS) in_flight4;
@name("load.device5.last_heard") register<bit<48>>(MAX_SERVERS) last_heard5;
@name("load.device5.reported") register<bit<64>>(MAX_SERVERS) reported5;
@name("load.device5.in_flight") register<bit<16>>(MAX_SERVERS) in_flight5;
@name("load.device6.last_heard") register<bit<48>>(MAX_SERVERS) last_heard6;
@name("load.device6.reported") register<bit<64>>(MAX_SERVERS) reported6;
@name("load.device6.in_flight") register<bit<16>>(MAX_SERVERS) in_flight6;
@name("load.device7.last_heard") register<bit<48>>(MAX_SERVERS) last_heard7;
@name("load.device7.reported") register<bit<64>>(MAX_SERVERS) reported7;
@name("load.device7.in_flight") register<bit<16>>(MAX_SERVERS) in_flight7;
// Which of them can take new connections.
@name("load.accel_state") register<bit<8>>(MAX_SERVERS) accel_state;
// When a server's devices last reported, in two copies: of the server that is chosen, and of the one that stands in for it.
@name("load.server_heard") register<bit<48>>(MAX_SERVERS) server_heard;
@name("load.spare_heard") register<bit<48>>(MAX_SERVERS) spare_heard;
// In flight of all devices of a server, a copy for each of the two candidates (servers.p4).
@name("select_server.first.in_flight") register<bit<24>>(MAX_SERVERS) first_in_flight;
@name("select_server.second.in_flight") register<bit<24>>(MAX_SERVERS) second_in_flight;
