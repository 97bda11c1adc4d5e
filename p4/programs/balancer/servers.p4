// SPDX-License-Identifier: Apache-2.0
// Which server gets a new connection. Independent of how its device is chosen.
//
// Servers are in a slot table: the controller fills the slots, so weights are numbers of slots, and when a server goes only its
// own slots change hands.
//   by hash            hash of the flow -> slot -> server; no state at all
//   power of two       two slots by two hashes, the one whose server has less in flight per weight
//   least loaded       the same, but the second slot is the better one of last time: two choices with memory, which finds the
//                      least loaded server without ever looking at all of them
//   controller's choice  a register names the server
//
// A server that was silent for too long is not chosen, even if the slots do not change: the last server of the service that was not
// takes its connections. If none has reported lately, or a server never has, the slots alone decide.

#ifndef BALANCER_SERVERS_P4
#define BALANCER_SERVERS_P4

#include "headers.p4"
#include "load.p4"

const bit<8> SERVERS_BY_HASH = 0;
const bit<8> SERVERS_POWER_OF_TWO = 1;
const bit<8> SERVERS_LEAST_LOADED = 2;
const bit<8> SERVERS_CHOSEN = 3;

// What a service may use of a server.
struct pool_t {
    devices_t devices;     // enabled: one bit per device
    bit<32>   ring;        // also the number of its other state: pointer, thresholds
    bit<16>   ring_length;
    time_us_t report_timeout;
}

// One of two candidates: a slot's server, and its load. Each candidate has its own copy of slots and loads, since a stage can look
// at one place of a table or array only. CountServers keeps the copies of the loads alike.
control Candidate(in service_t service, in bit<1> epoch, in bit<16> slot, out bool found, out server_t server, out bit<48> load)
                 (register<bit<24>> in_flight) {
    bit<16> cost = 0;

    action use_weighted(server_t number, bit<16> factor) {
        server = number;
        cost = factor;
    }

    // As server_slots, with what one connection more means to this server: the inverse of its weight.
    table slots {
        key = {
            service: exact @name("service");
            epoch: exact @name("epoch");
            slot: exact @name("slot");
        }
        actions = { use_weighted; @defaultonly NoAction; }
        const default_action = NoAction;
        size = 262144;
    }

    apply {
        found = false;
        server = 0;
        load = 0;
        if (slots.apply().hit) {
            bit<24> n;
            found = true;
            in_flight.read(n, (bit<32>)server);
            load = ((bit<48>)n + 1) * (bit<48>)cost;
        }
    }
}

// Counts what is in flight: one more at server `to`, one less at `from`. `first` and `second` are the candidates' arrays.
control CountServers(in bool more, in server_t to, in bool less, in server_t from)
                    (register<bit<24>> first, register<bit<24>> second) {
    apply {
        bit<24> n;
        if (more) {
            first.read(n, (bit<32>)to);
            first.write((bit<32>)to, n |+| 1);
            second.read(n, (bit<32>)to);
            second.write((bit<32>)to, n |+| 1);
        }
        if (less) {
            first.read(n, (bit<32>)from);
            first.write((bit<32>)from, n |-| 1);
            second.read(n, (bit<32>)from);
            second.write((bit<32>)from, n |-| 1);
        }
    }
}

// Chooses meta.server, or says in meta.drop_reason why there is none.
control SelectServer(in bit<8> policy, in time_us_t now, inout metadata_t meta, out pool_t pool, out slot_t choice, out bool chosen)
                    (register<bit<24>> first_in_flight, register<bit<24>> second_in_flight, register<bit<48>> server_heard,
                     register<bit<48>> spare_heard) {
    register<bit<64>>(65536) spare;            // by service: a server that was not silent: timeout, 2 bits unused, epoch, server
    register<bit<16>>(65536) memory;           // by service: the better slot of last time
    register<bit<32>>(65536) controllers_choice; // by service: CHOICE_*, and a device or server

    Candidate(first_in_flight) first;
    Candidate(second_in_flight) second;

    bool found = false;

    action use_server(server_t server) {
        meta.server = server;
        found = true;
    }

    // Server by slot: weights are numbers of slots.
    table server_slots {
        key = {
            meta.flow.service: exact @name("service");
            meta.epoch: exact @name("epoch");
            meta.hash_b[31:16] & meta.slots_mask: exact @name("slot");
        }
        actions = { use_server; @defaultonly NoAction; }
        const default_action = NoAction;
        size = 262144;
    }

    // What a service uses of a server: enabled devices (a bitmap), its ring, and after how many milliseconds without
    // a report a device is out (0: reports are not needed).
    action set_pool(devices_t devices, bit<32> ring, bit<16> ring_length, bit<32> timeout_ms) {
        pool.devices = devices;
        pool.ring = ring;
        pool.ring_length = ring_length;
        pool.report_timeout = (bit<48>)timeout_ms * 1000;
    }

    table pools {
        key = {
            meta.flow.service: exact @name("service");
            meta.epoch: exact @name("epoch");
            meta.server: exact @name("server");
        }
        actions = { set_pool; @defaultonly NoAction; }
        const default_action = NoAction;
        size = 65536;
    }

    // The same, for the server that the controller chose: a choice that is not (or no longer) a server of the service is ignored.
    table chosen_pools {
        key = {
            meta.flow.service: exact @name("service");
            meta.epoch: exact @name("epoch");
            meta.server: exact @name("server");
        }
        actions = { set_pool; @defaultonly NoAction; }
        const default_action = NoAction;
        size = 65536;
    }

    apply {
        pool = { 0, 0, 0, 0 };
        choice = 0;
        chosen = false;
        bool has_pool = false;
        bool by_slot = policy == SERVERS_BY_HASH;
#ifdef BALANCER_STORE
        // Not to choose a server, but to look at that of the device which the store knows.
        if (meta.checks) {
            meta.server = SERVER_OF(meta.device);
            found = true;
            by_slot = false;
        }
#endif
        if (policy == SERVERS_CHOSEN UNLESS_CHECKED) {
            bit<32> named;
            controllers_choice.read(named, (bit<32>)meta.flow.service);
            if (named[31:31] == 1) {
                meta.server = SERVER_OF(named);
                choice = SLOT_OF(named);
                has_pool = chosen_pools.apply().hit;
                found = has_pool;
                chosen = has_pool && named[30:30] == 1;
            }
            by_slot = !has_pool;
        } else if (!by_slot UNLESS_CHECKED) {
            bit<16> slot = meta.hash_b[31:16] & meta.slots_mask;
            bit<16> other_slot = (meta.hash_a[15:0] ^ meta.hash_a[31:16]) & meta.slots_mask;
            if (policy != SERVERS_POWER_OF_TWO) {
                memory.read(other_slot, (bit<32>)meta.flow.service);
                other_slot = other_slot & meta.slots_mask;
            }
            server_t server;
            server_t other;
            bit<48> load;
            bit<48> other_load;
            bool is_there;
            first.apply(meta.flow.service, meta.epoch, slot, found, server, load);
            second.apply(meta.flow.service, meta.epoch, other_slot, is_there, other, other_load);
            if (is_there && (!found || other_load < load)) {
                found = true;
                server = other;
                slot = other_slot;
            }
            meta.server = server;
            if (policy == SERVERS_LEAST_LOADED) {
                memory.write((bit<32>)meta.flow.service, slot);
            }
        }
        if (by_slot) {
            server_slots.apply();
        }
        if (!found) {
            meta.drop_reason = DROP_NO_SERVER;
        } else {
            bit<64> known;
            time_us_t heard;
            spare.read(known, (bit<32>)meta.flow.service);
            server_heard.read(heard, (bit<32>)meta.server);
#ifdef BALANCER_STORE
            known = meta.checks ? 64w0 : known;
#endif
            if (known != 0) {
                time_us_t limit = known[63:16];
                time_us_t other_heard;
                spare_heard.read(other_heard, (bit<32>)known[12:0]);
                // A report may have come since this packet did.
                if (known[13:13] == meta.epoch && heard != HEARD_NEVER && now > heard && now - heard > limit
                    && other_heard != HEARD_NEVER && (now <= other_heard || now - other_heard <= limit)) {
                    meta.server = known[12:0];
                    heard = other_heard;
                    has_pool = false;
                    chosen = false;
                }
            }
            if (!has_pool) {
                pools.apply();
            }
            if (pool.devices == 0) {
                meta.drop_reason = DROP_NO_DEVICE;
            }
            // Is this one such a server, or the one that is known no longer?
            if (pool.report_timeout != 0 UNLESS_CHECKED || known != 0) {
                bool silent = heard == HEARD_NEVER || now > heard && now - heard > pool.report_timeout;
                if (pool.devices == 0 || pool.report_timeout == 0) {
                    spare.write((bit<32>)meta.flow.service, 0);
                } else if (!silent) {
                    spare.write((bit<32>)meta.flow.service, pool.report_timeout ++ 2w0 ++ meta.epoch ++ meta.server);
                }
            }
        }
    }
}

#endif
