// SPDX-License-Identifier: Apache-2.0
// Accelerator-aware balancing of connections in the network.
//
// A packet takes one of these ways through the ingress:
//   from the controller          -> out of the port that it names
//   not for our MAC address      -> bridged by `bridge`
//   ARP, echo, ND for an address
//   of ours                      -> answered (respond.p4)
//   load report, probe           -> checked (reports.p4), noted (load.p4), consumed
//   for a service's VIP          -> its connection is found or a device chosen (connections.p4, servers.p4, select.p4),
//                                   destination rewritten (translate.p4), routed
//   answer of a device           -> its connection is found, source rewritten to the VIP, routed
//   ICMP error about one of them -> delivered to the right end, rewritten inside and out
//   anything else                -> routed
// or is dropped, and the counter `drops` says why.

#include <core.p4>
#include <v1model.p4>

#include "headers.p4"
#include "parser.p4"
#include "checksum.p4"
#include "connections.p4"
#include "fragments.p4"
#include "load.p4"
#include "reports.p4"
#include "reset.p4"
#include "respond.p4"
#include "select.p4"
#ifdef BALANCER_STORE
#include "store.p4"
#define CAME_IN meta.came_in
// The idle time of a handshake changes when the store knows that the connection is established (store.p4).
#define FOLLOWS_SERVICE && conn.idle != HALF_OPEN
#define OR_FROM_STORE || from_store
#else
#ifdef BALANCER_TEA
#define CAME_IN meta.came_in
#else
#define CAME_IN standard_metadata.ingress_port
#endif
#define FOLLOWS_SERVICE
#define OR_FROM_STORE
#endif
#ifdef BALANCER_TEA
#include "settled.p4"
// A connection that only servers' memory has needs a place of the table when it ends.
#define UNLESS_SETTLED && !settled
#else
#define UNLESS_SETTLED
#endif
#include "tally.p4"
#include "translate.p4"
#include "tunnel.p4"

// One end of a connection. IPv4 addresses are the low 32 bits.
struct endpoint_t {
    ipv6_t  address;
    bit<16> port;
}

control BalancerIngress(inout headers_t hdr,
                        inout metadata_t meta,
                        inout standard_metadata_t standard_metadata) {
    counter(64, CounterType.packets_and_bytes) drops;              // by reason
    counter(65536, CounterType.packets_and_bytes) service_packets; // towards devices, by service
    counter(65536, CounterType.packets) service_connections;       // opened, by service
    counter(DEVICE_NUMBERS, CounterType.packets_and_bytes) device_packets;  // towards devices, by device
    counter(DEVICE_NUMBERS, CounterType.packets) device_connections;        // opened, by device

#include "state.p4"

    FindConnection(low0, high0, middle0, state0, last_seen0, low1, high1, middle1, state1, last_seen1, low2, high2, middle2,
        state2, last_seen2, low3, high3, middle3, state3, last_seen3) find_connection;
    FindLeast(middle0, middle1, middle2, middle3, state0, state1, state2, state3,
        last_seen0, last_seen1, last_seen2, last_seen3) find_least;
    KeepConnection(low0, high0, middle0, state0, last_seen0, low1, high1, middle1, state1, last_seen1, low2, high2, middle2,
        state2, last_seen2, low3, high3, middle3, state3, last_seen3) keep_connection;
    SawConnection(last_seen0, last_seen1, last_seen2, last_seen3) saw_connection;
#ifndef BALANCER_TEA
    SecondHash() second_hash;
#endif
    CountConnection() count_connection;
    HeardOf(DEVICE_LIST(LAST_HEARD)) heard_of;
    LookAtLoad(DEVICE_LIST(LOAD)) look_at_load;
    NoteLoad(DEVICE_LIST(REPORTS), accel_state, server_heard, spare_heard) note_load;
    CountLoad(DEVICE_LIST(LOAD)) count_load;
    Reports() reports;
    ServicePolicy() service_policy;
    DeviceSettings() device_settings;
    SelectServer(first_in_flight, second_in_flight, server_heard, spare_heard) select_server;
    CountServers(first_in_flight, second_in_flight) count_servers;
    Blocks() made_of_blocks;
    SelectDevice() select_device;
    Tally() tally;
    Fragments() fragments;
    Respond() respond;
    Translate() translate_source;
    Translate() translate_destination;
    Expiry() expiry;
    MakeReset() make_reset;
    Encapsulate() encapsulate;
#ifdef BALANCER_STORE
    RedPlaneFixedArrive() arrive;
    RedPlaneFixedAsk() ask;
    StoreExtends() store_extends;
#endif
#ifdef BALANCER_TEA
    TeaArrive() arrive;
    TeaFind() find_settled;
    TeaLoad() load_of_links;
    Settle() settle;
    counter(16, CounterType.packets) settled_counts; // by SETTLED_*
    bool settled = false;    // its connection is in servers' memory, and has no place here
    bool was_ready = true;   // its connection could settle before this packet
#endif

    time_us_t now = 0;
    mac_t switch_mac = 0;
    connection_t conn = { false, false, 0, 0, 0, 0, 0, 0, 0, 0 };

    // The two ends of the packet, or of the one that an ICMP error quotes turned around: `to` is where a service would
    // be if the packet goes to it, `from` where a device would be if it comes from one.
    endpoint_t to = { 0, 0 };
    endpoint_t from = { 0, 0 };
    bit<8> proto = 0;
    bool has_ends = false;

    ipv4_t local4 = 0;       // is this address ours?
    ipv6_t local6 = 0;
    bool local = false;
    bool answered = false;
    bool to_service = false;
    device_t backend = 0;    // where the packet comes from
    bool from_backend = false;
    ipv4_t new4 = 0;         // what translation puts in
    ipv6_t new6 = 0;
    bool sent = false;       // a next hop is known
    bool is_report = false;  // or a probe, and for us
    bool direct = false;     // the device answers clients itself
    bit<6> options = 0;      // OPTION_* of a new connection
    bool spoofed = false;    // its source address is not its sender's
    bool unknown = false;    // a segment of a connection that is not known, to be answered with a RST
    bool adopts = false;     // one with which the connection begins here, since another switch may have had it
    bool failed = false;     // its device has, and it is to be reset for that
    bool expired = false;    // it is to be reset
    bit<2> color = 0;        // of a new connection: red if its service gets more than it may
    bool to_device = false;  // the packet goes to meta.device
    bool to_client = false;  // it comes from one, and its source is to be the VIP
    bool fragmented = false; // it is a part of its datagram
    bool later = false;      // and not the first
    bool outside = true;     // the packet's own address changes, not only the one in what it quotes
    bit<32> datagram = 0;    // number of the datagram
    fate_t fate = { false, 0, 0, false, false, 0 };
    bool keeps = false;      // its connection is to be written
    bool is_new = false;     // and its key, too
    bool one_more = false;   // in flight at meta.device
    bool one_less = false;   // in flight at `left`
    device_t left = 0;

#include "tables.p4"

#include "packets.p4"

    apply {
#ifdef BALANCER_STORE
        arrive.apply(hdr.store_outer, hdr.store, meta.store, standard_metadata);
        if (meta.store.step == REDPLANE_DROP) {
            exit;
        } else if (meta.store.step == REDPLANE_OTHER) {
            meta.foreign = true;
            standard_metadata.egress_spec = standard_metadata.ingress_port;
        }
        if (!meta.again && !(meta.foreign && meta.store.step == REDPLANE_PROGRAM)) {
            meta.came_in = meta.store.in_port;
            meta.came_at = standard_metadata.ingress_global_timestamp;
        }
        if (meta.store.step == REDPLANE_OTHER) {
            exit;
        }
        if (meta.extends) {
            ask.apply(hdr.store_outer, hdr.store, meta.store, standard_metadata, meta.extend_key, meta.extend_value, meta.extend_flags, 0,
                KEPT_FOR(meta.extend_idle), NUMBER_OF_TIME(meta.extend_service, meta.extend_idle));
            exit;
        }
#elif defined(BALANCER_TEA)
        arrive.apply(hdr.tea, meta.tea, standard_metadata);
        if (meta.tea.step != TEA_PROGRAM) {
            exit;
        }
        if (!meta.again) {
            meta.came_in = meta.tea.in_port;
            meta.came_at = standard_metadata.ingress_global_timestamp;
        }
#else
        if (!meta.again) {
            meta.came_in = standard_metadata.ingress_port;
            meta.came_at = standard_metadata.ingress_global_timestamp;
        }
#endif
        now = meta.came_at;
#ifdef BALANCER_STORE
        if (meta.store.answered && !hdr.ethernet.isValid()) {
            meta.flow.client = meta.store.key[191:64];
            meta.flow.client_port = meta.store.key[63:48];
            meta.flow.service = NUMBER_SERVICE(meta.store.number);
            hash_flow();
            @atomic {
                find_connection.apply(meta.flow, meta.hash_a, meta.hash_b, false, now, conn);
                if (conn.found) {
                    // It is established, and the store knows it.
                    if (meta.store.known && conn.idle == HALF_OPEN && NUMBER_IDLE(meta.store.number) != 0 && conn.device == KEPT_DEVICE(meta.store.value)) {
                        conn.idle = NUMBER_IDLE(meta.store.number);
                        keeps = true;
                    }
                } else if (meta.store.known && meta.store.lost && conn.room) {
                    // The packet was too long to go with the request: what comes next finds the connection.
                    continue_connection();
                }
                if (keeps) {
                    keep_connection.apply(is_new, meta.flow, meta.hash_a, meta.hash_b, now, conn);
                }
                if (one_more || one_less) {
                    count_load.apply(one_more, meta.device, one_less, left);
                    count_servers.apply(one_more, SERVER_OF(meta.device), one_less, SERVER_OF(left));
                }
            }
            standard_metadata.egress_spec = CONSUME_PORT;
            exit;
        }
#endif
#ifdef BALANCER_TEA
        if (hdr.settled.isValid()) {
            bit<8> result;
            bit<16> seen;
            meta.flow = { hdr.settled.service, hdr.settled.client, hdr.settled.client_port };
            hash_flow();
            settled_seen.read(seen, (bit<32>)meta.hash_a[SETTLED_SEEN_BITS - 1:0]);
            @atomic {
                find_connection.apply(meta.flow, meta.hash_a, meta.hash_b, false, now, conn);
                settle.apply(hdr.settled, SETTLED_TICK(now) - seen, conn, keeps, is_new, one_less, left, result);
                if (keeps) {
                    keep_connection.apply(is_new, meta.flow, meta.hash_a, meta.hash_b, now, conn);
                }
                if (one_more || one_less) {
                    count_load.apply(one_more, meta.device, one_less, left);
                    count_servers.apply(one_more, SERVER_OF(meta.device), one_less, SERVER_OF(left));
                }
            }
            if (result == SETTLED_FREED) {
                settled_seen.write((bit<32>)meta.hash_a[SETTLED_SEEN_BITS - 1:0], SETTLED_TICK(now));
            }
            settled_counts.count((bit<32>)result);
            digest<settled_digest_t>(1, { result, hdr.settled.number, SETTLED_KEY(meta.flow), SETTLED_WORD(conn), SETTLED_TICK(now) - seen });
            standard_metadata.egress_spec = CONSUME_PORT;
            exit;
        }
#endif
        switch_config.apply();
        bool for_switch = hdr.ethernet.dst == switch_mac;

        if (hdr.packet_out.isValid()) {
            if (hdr.packet_out.egress_port < (bit<16>)CPU_PORT) {
                standard_metadata.egress_spec = hdr.packet_out.egress_port[8:0];
            } else {
                drops.count((bit<32>)DROP_PACKET_OUT);
                mark_to_drop(standard_metadata);
            }
            hdr.packet_out.setInvalid();
            exit;
        }

        // Which address would have to be ours?
        if (hdr.arp.isValid()) {
            local4 = hdr.arp.tpa;
        } else if (hdr.ipv4.isValid()) {
            local4 = hdr.ipv4.dst;
        } else if (hdr.nd.isValid()) {
            local6 = hdr.nd.target;
        } else if (hdr.ipv6.isValid()) {
            local6 = hdr.ipv6.dst;
        }
        if (hdr.ipv6.isValid()) {
            local_v6.apply();
        } else {
            local_v4.apply();
        }

        // A short frame of the reports' type that is not for us is bridged like any other.
        if (standard_metadata.parser_error != error.NoError
            && (for_switch || hdr.ethernet.ethertype != ETHERTYPE_REPORT)) {
            meta.drop_reason = DROP_MALFORMED;
        } else if (standard_metadata.checksum_error == 1) {
            meta.drop_reason = DROP_CHECKSUM;
        } else if (local && (hdr.arp.isValid() && hdr.arp.oper == ARP_REQUEST || hdr.nd.isValid()
                             || for_switch && !hdr.quoted.isValid()
                             && (hdr.icmp.isValid() || hdr.icmpv6.isValid()))) {
            respond.apply(hdr, meta, standard_metadata, switch_mac, answered);
            if (!answered) {
                meta.drop_reason = DROP_VIP_NO_SERVICE;
            }
        } else if (!for_switch) {
            bridge.apply();
            if (!sent) {
                meta.drop_reason = DROP_UNKNOWN_MAC;
            }
        } else if (hdr.arp.isValid() || hdr.nd.isValid()) {
            // Answers to the controller's questions who has an address.
            if (hdr.arp.oper == ARP_REPLY && hdr.arp.isValid()
                || hdr.icmpv6.kind == ND_ADVERTISEMENT && hdr.nd.isValid()) {
                send_to_controller();
            } else {
                meta.drop_reason = DROP_ARP;
            }
        } else if (!hdr.ipv4.isValid() && !hdr.ipv6.isValid()) {
            if (hdr.frame_report.isValid()) {
                is_report = true;
            } else {
                meta.drop_reason = DROP_ETHERTYPE;
            }
        } else if (hdr.ipv4.isValid() && (hdr.ipv4.src[31:24] == 0 || hdr.ipv4.src[31:24] == 127 || hdr.ipv4.src[31:29] == 7)
                   || hdr.ipv6.isValid() && (hdr.ipv6.src[127:1] == 0 || hdr.ipv6.src[127:120] == 0xff
                                             || hdr.ipv6.src[127:118] == 0x3fa)) {
            meta.drop_reason = DROP_ADDRESS;
        } else if (local && (hdr.udp.isValid() && hdr.udp.dport == REPORT_PORT || meta.probe != PROBE_NONE)) {
            is_report = true;
        } else {
            find_ends();
            if (has_ends) {
                if (local) {
                    if (hdr.ipv4.isValid()) {
                        services_v4.apply();
                    } else {
                        services_v6.apply();
                    }
                    meta.flow.client = from.address;
                    meta.flow.client_port = from.port;
                } else {
                    if (hdr.ipv4.isValid()) {
                        backends_v4.apply();
                    } else {
                        backends_v6.apply();
                    }
                    meta.flow.client = to.address;
                    meta.flow.client_port = to.port;
                    // A device does not open connections with its service's port.
                    meta.opens = false;
                }
            }
            // Nearly all packets belong to a connection that is as it was: there is nothing to write but that it was seen. Other
            // packets may be at work with the same connection meanwhile. Whoever changes it looks again.
            bool changes = false;
            if (to_service || from_backend) {
                hash_flow();
#ifdef BALANCER_TEA
                // The table comes first, again when the packet is back from a server: a place that is free by now has its entry in servers' memory or in
                // `tea_stash`.
                find_connection.apply(meta.flow, meta.hash_a, meta.hash_b, meta.opens, now, conn);
                if (!conn.found && meta.again) {
                    // A server would return the copy as an ordinary packet.
                    meta.tea.value = meta.again_word;
                    settled = true;
                    take_settled();
                } else if (!conn.found) {
                    meta.tea.key = SETTLED_KEY(meta.flow);
                    @repeatable { // the same value once more
                        settled_seen.write((bit<32>)meta.hash_a[SETTLED_SEEN_BITS - 1:0], SETTLED_TICK(now));
                    }
                    find_settled.apply(meta.tea, standard_metadata);
                    if (meta.tea.step != TEA_PROGRAM) {
                        exit;
                    }
                    settled = meta.tea.found;
                    if (settled) {
                        take_settled();
                    }
                }
                changes = conn.found && to_service && meta.opens && SETTLED_OVER(conn);
#else
                // A SYN nearly always opens a connection: one search is enough, and it goes all the way.
                if (meta.opens && hdr.tcp.isValid()) {
                    changes = true;
                    second_hash.apply(meta.flow, meta.hash_b);
                } else {
                    find_connection.apply(meta.flow, meta.hash_a, meta.hash_b, meta.opens, now, conn);
                }
#endif
                if (changes) {
                    // See below.
                } else if (!conn.found) {
                    unknown = to_service && !meta.opens && hdr.tcp.isValid() && !meta.rst && !fragmented && !meta.again;
                    if (unknown || from_backend && hdr.tcp.isValid() && !meta.rst && !fragmented && !meta.again) {
                        quiet_services.apply();
                    }
                    changes = to_service && meta.opens || adopts;
#ifdef BALANCER_STORE
                    if (meta.store.known) {
                        changes = true;
                        unknown = false;
                    } else if (!changes && !meta.store.answered && !hdr.quoted.isValid() && !meta.again) {
                        meta.asks_known = true;
                        unknown = false;
                    }
#endif
                } else if (!hdr.quoted.isValid() && (to_service || conn.device == backend)) {
                    bit<8> flags = conn.flags;
                    if (conn.options != 0) {
                        if (to_service && (conn.options & OPTION_RESET_FAILED) != 0) {
                            meta.device = conn.device;
                            failed_devices.apply();
                        }
                        expiry.apply(hdr, meta, fragmented, failed, now, conn, expired);
                    }
                    note_flags();
                    changes = expired || conn.flags != flags || (flags & CONN_COUNTS) != 0 UNLESS_SETTLED
                              || to_service && !meta.opens && conn.idle != meta.idle FOLLOWS_SERVICE;
#ifdef BALANCER_STORE
                    if (!expired) {
                        store_extends.apply(hdr, meta, to_service, flags, now, conn);
                        if (meta.extends) {
                            name_connection();
                            clone_preserving_field_list(CloneType.I2E, RESET_SESSION, RESET_FIELDS);
                        }
                    }
#endif
                    if (!changes UNLESS_SETTLED) {
                        saw_connection.apply(conn.way, meta.hash_a, meta.hash_b, now);
                    }
                }
            }
            // The source address of a packet that opens a connection, or is not from one of its ends, is checked.
            if (to_service && meta.opens && !conn.found || !local && !(from_backend && conn.found)) {
                if (hdr.ipv4.isValid()) {
                    sources_v4.apply();
                } else {
                    sources_v6.apply();
                }
                if (spoofed) {
                    meta.drop_reason = DROP_SPOOFED;
                    changes = false;
                }
            }
#ifdef BALANCER_STORE
            bool from_store = meta.store.known;
            bool asks = meta.asks_known && !spoofed;
            redplane_value_t proposal = meta.store.proposed;
            bit<4> why = REASON_ADOPTED;
            if (from_store) {
                meta.device = KEPT_DEVICE(meta.store.value);
                why = meta.store.created ? NUMBER_REASON(meta.store.number) : REASON_ADOPTED;
                // A connection that begins needs a device that takes new ones.
                meta.checks = to_service && meta.opens && hdr.tcp.isValid() && hdr.tcp.syn == 1
                              && meta.device != KEPT_DEVICE(proposal);
            }
#endif
            if (changes) @atomic {
                find_connection.apply(meta.flow, meta.hash_a, meta.hash_b, meta.opens, now, conn);
                bool begins = to_service && meta.opens || adopts OR_FROM_STORE;
                if (!conn.found && !conn.room && begins) {
                    find_least.apply(meta.hash_a, meta.hash_b, now, conn);
                }
                if (conn.found) {
                    if (to_service || conn.device == backend) {
#ifdef BALANCER_TEA
                        settled = false;
                        was_ready = SETTLED_READY(conn);
                        if (to_service && meta.opens && SETTLED_OVER(conn)) {
                            // The same 5-tuple begins again while servers' memory still has its end before it: with the same device, so that both agree.
                            conn.flags = conn.flags & ~(CONN_FINS | CONN_RESET);
                            conn.idle = hdr.tcp.isValid() ? HALF_OPEN : meta.idle;
                            service_connections.count((bit<32>)meta.flow.service);
                            device_connections.count((bit<32>)conn.device);
                        }
#endif
                        if (expired) {
                            // Unless another worker was quicker.
                            expiry.apply(hdr, meta, fragmented, failed, now, conn, expired);
                        }
                        if (!expired) {
                            note_flags();
                        } else {
                            conn.idle = CONN_EXPIRED;
                            conn.flags = conn.flags | CONN_FIN_CLIENT | CONN_FIN_DEVICE;
                        }
                        if (to_service && !meta.opens && conn.idle != CONN_EXPIRED FOLLOWS_SERVICE) {
                            conn.idle = meta.idle;
                        }
                        if ((conn.flags & CONN_COUNTS) != 0) {
                            meta.device = conn.device;
                            count_connection.apply(hdr, meta, !to_service, conn, one_more, one_less);
                            left = conn.device;
                        }
                        keeps = true;
                    }
#ifdef BALANCER_TEA
                } else if (settled) {
                    // It ends, which a place is to remember. Who had the place before did not end in a way that was seen.
                    one_less = conn.room && (conn.flags & CONN_IN_FLIGHT) != 0;
                    left = conn.device;
                    keeps = conn.room;
                    is_new = conn.room;
                    take_settled();
                    if (!expired) {
                        note_flags();
                    } else {
                        conn.idle = CONN_EXPIRED;
                        conn.flags = conn.flags | CONN_FINS;
                    }
                    if (keeps) {
                        settled = false;
                    } else {
                        settled_counts.count((bit<32>)SETTLED_NO_PLACE);
                    }
#endif
#ifdef BALANCER_STORE
                } else if (from_store && conn.room && !meta.checks) {
                    continue_connection();
#endif
                } else if (begins && conn.room UNLESS_CHECKED && service_options.apply().hit && color == V1MODEL_METER_COLOR_RED) {
                    meta.drop_reason = DROP_RATE;
                } else if (adopts && from_backend) {
                    if (conn.room) {
                        meta.device = backend;
#ifdef BALANCER_STORE
                        proposal = KEPT(8w0, 6w0, backend);
                        asks = true;
#else
                        begin_connection(backend, HALF_OPEN, 0);
                        note_flags();
                        tally.apply(meta, REASON_ADOPTED, false, { DEVICE_LIST(ZERO) }, now);
#endif
                    } else {
                        // Unchanged, it would end the connection: its client does not know the device's address.
                        meta.drop_reason = DROP_TABLE_FULL;
                    }
                } else if (begins && conn.room) {
                    pool_t pool;
                    blocks_t blocks;
                    slot_t choice;
                    bool is_chosen;
                    values_t heard = { DEVICE_LIST(ZERO) }; // when devices reported
                    bit<4> reason = REASON_FALLBACK;
                    bool all_silent = false;
                    bool looks = false; // at reports
                    service_policy.apply(meta, blocks);
                    select_server.apply(blocks.servers, now, meta, pool, choice, is_chosen);
                    if (meta.drop_reason == DROP_NONE) {
                        devices_t fresh;     // devices that have reported lately
                        devices_t available; // devices that can take new connections
                        devices_t candidates;
                        slot_t slot = 0;
                        bool proposed = false;
                        accel_state.read(available, (bit<32>)meta.server);
                        heard_of.apply(meta.policy == POLICY_BLOCKS, meta.server, pool.devices, pool.report_timeout, now, fresh, heard);
                        // All agents silent at once is more likely their fault than the devices': better any device than none. One
                        // whose last health check failed is chosen only if all others failed theirs, too.
                        if (fresh == 0) {
                            fresh = pool.devices & ~failed_health_check(heard);
                            fresh = fresh == 0 ? pool.devices : fresh;
                            all_silent = true;
                        }
#ifdef BALANCER_STORE
                        meta.usable = (fresh & SET_OF(SLOT_OF(KEPT_DEVICE(meta.store.value)))) != 0;
                        if (!meta.checks) {
#endif
                            // Only a policy made of blocks looks at what the load is.
                            if (meta.policy == POLICY_BLOCKS) {
                                values_t values;
                                factors_t factors;
                                thresholds_t thresholds;
                                device_settings.apply(meta, factors, thresholds);
                                look_at_load.apply(meta.server, pool.devices, blocks.measure, factors, values);
                                looks = blocks.narrow == NARROW_AVAILABLE || blocks.measure.step != 0
                                        || blocks.measure.metric_a != METRIC_NONE && blocks.measure.metric_a != METRIC_IN_FLIGHT
                                        || blocks.measure.metric_b != METRIC_NONE && blocks.measure.metric_b != METRIC_IN_FLIGHT;
                                made_of_blocks.apply(meta, blocks, pool.ring, fresh, available, values, factors, thresholds,
                                    is_chosen, choice, candidates, slot, proposed, reason);
                            } else {
                                looks = meta.policy == POLICY_AVAILABILITY && pool.report_timeout != 0;
                                candidates = fresh;
                            }
                            select_device.apply(meta, pool, fresh, available, candidates, slot, proposed, reason);
                            if (all_silent) {
                                reason = REASON_ALL_SILENT;
                            }
                            if (adopts) {
                                reason = REASON_ADOPTED;
                            }
#ifdef BALANCER_STORE
                        }
#endif
                    }
#ifdef BALANCER_STORE
                    if (meta.usable && meta.checks) {
                        continue_connection();
                    } else if (meta.checks) {
                        // The chosen device replaces it, unless another switch was quicker.
                        meta.drop_reason = DROP_NONE;
                        asks = true;
                    } else if (meta.drop_reason == DROP_NONE) {
                        proposal = KEPT(blocks.counting | (direct ? CONN_DIRECT : 8w0),
                            hdr.tcp.isValid() || direct ? options : options | OPTION_DATAGRAMS, meta.device);
                        why = reason;
                        asks = true;
                    }
#else
                    if (meta.drop_reason == DROP_NONE) {
                        one_more = blocks.counting != 0;
                        begin_connection(meta.device, hdr.tcp.isValid() ? HALF_OPEN : meta.idle,
                            blocks.counting | (direct ? CONN_DIRECT : 0) | (one_more ? CONN_IN_FLIGHT : 0));
                        if (adopts) {
                            note_flags();
                        }
                        tally.apply(meta, reason, looks, heard, now);
                    }
#endif
                }
#ifdef BALANCER_STORE
                if (is_new) {
                    note_flags();
                    tally.apply(meta, why, false, { DEVICE_LIST(ZERO) }, now);
                }
#endif
                if (keeps) {
                    keep_connection.apply(is_new, meta.flow, meta.hash_a, meta.hash_b, now, conn);
                }
                if (one_more || one_less) {
                    count_load.apply(one_more, meta.device, one_less, left);
                    count_servers.apply(one_more, SERVER_OF(meta.device), one_less, SERVER_OF(left));
                }
            }
#ifdef BALANCER_STORE
            if (asks) {
                name_connection();
                ask.apply(hdr.store_outer, hdr.store, meta.store, standard_metadata, meta.extend_key, proposal,
                    meta.asks_known ? STORE_ASK | REDPLANE_EXISTING : STORE_ASK, meta.checks ? meta.store.grant : 0,
                    meta.asks_known ? 0 : KEPT_FOR(HALF_OPEN), NUMBER_OF_CHOICE(meta.flow.service, why));
                exit;
            }
#endif

#ifdef BALANCER_TEA
            // What the controller is to know. It asks for more, so that a report may be lost, or come twice.
            if (conn.found && !settled && !hdr.quoted.isValid() && !meta.again && (to_service || conn.device == backend) && (conn.options & OPTION_HELD) == 0) {
                bit<8> kind = 0;
                if (SETTLED_OVER(conn)) {
                    if ((conn.options & OPTION_SETTLED) != 0) {
                        kind = SETTLED_ENDED;
                    }
                } else if (SETTLED_READY(conn) && (!was_ready || SETTLED_TICK(now) != conn.seen[25:10])) {
                    kind = SETTLED_IS_READY;
                }
                if (kind != 0) {
                    settled_counts.count((bit<32>)kind);
                    digest<settled_digest_t>(1, { kind, 0, SETTLED_KEY(meta.flow), SETTLED_WORD(conn), 0 });
                }
            }
#endif

            if (expired || unknown || meta.again) {
                make_reset.apply(hdr, meta, expired || unknown, meta.again && to_service && (conn.options & OPTION_TUNNEL) != 0);
            }
            if (expired) {
                meta.again = true;
#ifdef BALANCER_TEA
                meta.again_word = SETTLED_WORD(conn);
#endif
                clone_preserving_field_list(CloneType.I2E, RESET_SESSION, RESET_FIELDS);
                meta.drop_reason = failed ? DROP_DEVICE_FAILED : DROP_IDLE;
            } else if (unknown) {
                meta.drop_reason = DROP_NO_CONNECTION;
            }
            if (expired || unknown) {
                hdr.ethernet.dst = hdr.ethernet.src;
                hdr.ethernet.src = switch_mac;
                standard_metadata.egress_spec = CAME_IN;
                drops.count((bit<32>)meta.drop_reason);
                exit;
            }

            if (later) @atomic {
                fragments.apply(false, from.address, to.address, datagram, proto, now, fate);
                to_device = local && fate.known;
                to_client = !local && fate.known;
                direct = !fate.translated;
                conn.options = fate.tunnelled ? OPTION_TUNNEL : 6w0;
                meta.device = fate.device;
                meta.flow.service = fate.service;
            }

            if (to_service) {
                if (conn.found) {
                    meta.device = conn.device;
                    direct = (conn.flags & CONN_DIRECT) != 0;
                } else if (spoofed) {
                    // Said above.
                } else if (hdr.quoted.isValid()) {
                    meta.drop_reason = DROP_ICMP_UNMATCHED;
                } else if (!meta.opens) {
                    meta.drop_reason = DROP_NO_CONNECTION;
                } else if (!conn.room) {
                    meta.drop_reason = DROP_TABLE_FULL;
                }
                to_device = meta.drop_reason == DROP_NONE;
            } else if (to_device) {
                // A later fragment.
            } else if (local) {
                if (has_ends && hdr.quoted.isValid()) {
                    meta.drop_reason = DROP_ICMP_UNMATCHED;
                } else if (fragmented) {
                    meta.drop_reason = DROP_FRAGMENT;
                } else {
                    meta.drop_reason = DROP_VIP_NO_SERVICE;
                }
            } else {
                if (later) {
                    new4 = fate.address[31:0];
                    new6 = fate.address;
                }
                // A device that answers a client directly, without the VIP, has no connection here and is left alone.
                if (from_backend && conn.found && conn.device == backend) {
                    to_client = true;
                    if (hdr.quoted.isValid()) {
                        // An error that a router behind us sends keeps the router's address.
                        if (hdr.ipv4.isValid()) {
                            outside = hdr.ipv4.src == hdr.quoted_ipv4.dst;
                        } else {
                            outside = hdr.ipv6.src == hdr.quoted_ipv6.dst;
                        }
                    }
                }
                if (hdr.ipv4.isValid()) {
                    routes_v4.apply();
                } else {
                    routes_v6.apply();
                }
                if (!sent && !spoofed) {
                    meta.drop_reason = DROP_NO_ROUTE;
                }
            }

            if (to_device) {
                if (hdr.ipv4.isValid()) {
                    devices_v4.apply();
                } else {
                    devices_v6.apply();
                }
                if (!sent) {
                    meta.drop_reason = DROP_NO_DEVICE;
                } else {
                    service_packets.count((bit<32>)meta.flow.service);
                    device_packets.count((bit<32>)meta.device);
                }
            }
            if (to_client) {
                translate_source.apply(hdr, true, outside, new4, new6);
            } else if (to_device && sent && !direct) {
                translate_destination.apply(hdr, false, true, new4, new6);
            }
            if (fragmented && !later && (to_device || to_client) && !hdr.quoted.isValid()) {
                fate.service = meta.flow.service;
                fate.device = meta.device;
                fate.translated = !direct;
                fate.tunnelled = (conn.options & OPTION_TUNNEL) != 0;
                if (hdr.ipv4.isValid()) {
                    new6 = (bit<128>)new4;
                }
                fate.address = new6;
                @atomic {
                    fragments.apply(true, from.address, to.address, datagram, proto, now, fate);
                }
            }

            // Routed: one hop less to live.
            if (hdr.ipv4.isValid()) {
                if (hdr.ipv4.ttl <= 1 && meta.drop_reason == DROP_NONE) {
                    meta.drop_reason = DROP_TTL;
                }
                bit<16> before = hdr.ipv4.ttl ++ hdr.ipv4.proto;
                hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
                hdr.ipv4.checksum =
                    updated_checksum(hdr.ipv4.checksum, changed16(before, hdr.ipv4.ttl ++ hdr.ipv4.proto));
            } else {
                if (hdr.ipv6.hops <= 1 && meta.drop_reason == DROP_NONE) {
                    meta.drop_reason = DROP_TTL;
                }
                hdr.ipv6.hops = hdr.ipv6.hops - 1;
            }
            if (to_device && (conn.options & OPTION_TUNNEL) != 0 && meta.drop_reason == DROP_NONE) {
                encapsulate.apply(hdr, meta.flow.service, new4, new6);
            }
        }

        if (is_report) @atomic {
            note_t note;
            reports.apply(hdr, meta, standard_metadata, note);
            if (note.believed) {
                note_load.apply(note, meta.server, now, meta.words);
                standard_metadata.egress_spec = CONSUME_PORT;
                drops.count((bit<32>)REPORT_ACCEPTED);
            }
        }
        if (meta.drop_reason != DROP_NONE) {
            drops.count((bit<32>)meta.drop_reason);
            mark_to_drop(standard_metadata);
        }
#ifdef BALANCER_TEA
        load_of_links.apply(standard_metadata);
#endif
    }
}

// What v1model calls a copy that ingress made.
const bit<32> PKT_INSTANCE_TYPE_INGRESS_CLONE = 1;

control BalancerEgress(inout headers_t hdr,
                       inout metadata_t meta,
                       inout standard_metadata_t standard_metadata) {
#ifdef BALANCER_STORE
    RedPlaneFixedDepart() depart;
#endif
#ifdef BALANCER_TEA
    TeaDepart() depart;
#endif

    apply {
        // A copy that is to reset the other end of a connection: once more around.
        if (standard_metadata.instance_type == PKT_INSTANCE_TYPE_INGRESS_CLONE) {
            recirculate_preserving_field_list(RESET_FIELDS);
        }
#ifdef BALANCER_STORE
        else if (meta.store.step == REDPLANE_OTHER) {
            // Once more around: the parser leaves it alone then.
            recirculate_preserving_field_list(RESET_FIELDS);
        } else {
            depart.apply(hdr.store_outer, hdr.store, meta.store);
        }
#endif
#ifdef BALANCER_TEA
        else {
            depart.apply(hdr.tea, meta.tea, standard_metadata);
        }
#endif
    }
}

V1Switch(BalancerParser(), BalancerVerify(), BalancerIngress(), BalancerEgress(), BalancerCompute(),
         BalancerDeparser()) main;
