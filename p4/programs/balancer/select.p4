// SPDX-License-Identifier: Apache-2.0
// Where a new connection goes: first a server, then a device of that server.
//
// The server comes from a slot table: hash of the flow -> slot -> server. The controller fills the slots, so weights are
// numbers of slots, and when a server goes only its own slots change hands. No state is kept per connection here.
//
// The device comes from the service's policy. Each policy proposes one device; what all of them share stands in `Select`:
// only devices that the pool enables and whose agents were heard of lately are candidates, and if the proposal is none of
// them, the priorities of `dip_table` choose among the candidates. A new policy is a new block that proposes.
//
// Everything that the controller writes is kept in two generations (`epoch`). It fills the one that is not in force, then
// changes the service's entry, which is one write: no packet ever sees half a policy.

#ifndef BALANCER_SELECT_P4
#define BALANCER_SELECT_P4

#include "headers.p4"

const bit<32> MAX_SERVERS = 8192; // all values of server_t

const bit<8> POLICY_HASH = 0;         // ECMP: by hash over the server's ring
const bit<8> POLICY_ROUND_ROBIN = 1;  // WRR: one step around the ring per connection
const bit<8> POLICY_AVAILABILITY = 2; // P4Mite: the first device by priority that reports to be available

// The load that agents report, as P4Mite keeps it: AccelState, one bit per device, 1 for available.
// One instance per device slot keeps when that device was last heard of.
control Freshness(in bool heard, in bool ask, in server_t server, in bit<1> enabled, in time_us_t now,
                  in time_us_t timeout, out bit<1> fresh) {
    register<bit<48>>(MAX_SERVERS) last_heard; // microseconds since start, 0 for never

    apply {
        fresh = enabled;
        if (heard) {
            last_heard.write((bit<32>)server, now);
        } else if (ask && timeout != 0) {
            time_us_t last;
            last_heard.read(last, (bit<32>)server);
            if (last == 0 || now - last > timeout) {
                fresh = 0;
            }
        }
    }
}

// Takes note of a report (mask != 0), or tells which of the enabled devices were heard of within the timeout.
control Heartbeats(in bit<8> mask, in server_t server, in bit<8> enabled, in time_us_t now, in time_us_t timeout,
                   out bit<8> fresh) {
    Freshness() device0;
    Freshness() device1;
    Freshness() device2;
    Freshness() device3;
    Freshness() device4;
    Freshness() device5;
    Freshness() device6;
    Freshness() device7;

    apply {
        bool ask = mask == 0;
        fresh = 0;
        device0.apply(mask[0:0] == 1, ask, server, enabled[0:0], now, timeout, fresh[0:0]);
        device1.apply(mask[1:1] == 1, ask, server, enabled[1:1], now, timeout, fresh[1:1]);
        device2.apply(mask[2:2] == 1, ask, server, enabled[2:2], now, timeout, fresh[2:2]);
        device3.apply(mask[3:3] == 1, ask, server, enabled[3:3], now, timeout, fresh[3:3]);
        device4.apply(mask[4:4] == 1, ask, server, enabled[4:4], now, timeout, fresh[4:4]);
        device5.apply(mask[5:5] == 1, ask, server, enabled[5:5], now, timeout, fresh[5:5]);
        device6.apply(mask[6:6] == 1, ask, server, enabled[6:6], now, timeout, fresh[6:6]);
        device7.apply(mask[7:7] == 1, ask, server, enabled[7:7], now, timeout, fresh[7:7]);
    }
}

// The position in a ring of `length` places that a hash points to: multiply and shift, since a switch cannot divide.
control HashPosition(in metadata_t meta, in bit<16> length, out bit<16> position) {
    apply {
        bit<32> scaled = (bit<32>)(meta.hash_a[31:16] ^ meta.hash_b[15:0]) * (bit<32>)length;
        position = scaled[31:16];
    }
}

// The next position of a ring, one step per connection.
control NextPosition(in bit<32> ring, in bit<16> length, out bit<16> position) {
    register<bit<16>>(65536) pointer;

    apply {
        pointer.read(position, ring);
        if (position >= length) {
            position = 0; // the ring became shorter
        }
        bit<16> next = position + 1;
        if (next >= length) {
            next = 0;
        }
        pointer.write(ring, next);
    }
}

// Chooses meta.server and meta.device, or says in meta.drop_reason why there is none.
// With mask != 0 it only takes note of a report about these devices of meta.server.
control Select(inout metadata_t meta, in bit<8> mask, in bit<8> available, in time_us_t now) {
    register<bit<8>>(MAX_SERVERS) accel_state;

    Heartbeats() heartbeats;
    HashPosition() hash_position;
    NextPosition() next_position;

    bit<8> enabled = 0;
    bit<8> candidates = 0;
    bit<16> ring_length = 0;
    bit<32> ring = 0;
    bit<16> position = 0;
    time_us_t report_timeout = 0;
    slot_t slot = 0;
    bool proposed = false;

    action use_server(server_t server) {
        meta.server = server;
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
    action set_pool(bit<8> devices, bit<32> ring_id, bit<16> length, bit<32> timeout_ms) {
        enabled = devices;
        ring = ring_id;
        ring_length = length;
        report_timeout = (bit<48>)timeout_ms * 1000;
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

    action use_device(slot_t device) {
        slot = device;
        proposed = true;
    }

    // Device by position: the ring of hash and round robin policies.
    table rings {
        key = {
            meta.flow.service: exact @name("service");
            meta.epoch: exact @name("epoch");
            meta.server: exact @name("server");
            position: exact @name("position");
        }
        actions = { use_device; @defaultonly NoAction; }
        const default_action = NoAction;
        size = 262144;
    }

    // Device by priority among those whose bit is set: P4Mite's DIPTable.
    table dip_table {
        key = {
            meta.flow.service: exact @name("service");
            meta.epoch: exact @name("epoch");
            meta.server: exact @name("server");
            candidates: ternary @name("available");
        }
        actions = { use_device; @defaultonly NoAction; }
        const default_action = NoAction;
        size = 65536;
    }

    apply {
        if (mask != 0) {
            bit<8> before;
            accel_state.read(before, (bit<32>)meta.server);
            accel_state.write((bit<32>)meta.server, (before & ~mask) | (available & mask));
            heartbeats.apply(mask, meta.server, 0, now, 0, candidates);
        } else if (!server_slots.apply().hit) {
            meta.drop_reason = DROP_NO_SERVER;
        } else if (!pools.apply().hit || enabled == 0) {
            meta.drop_reason = DROP_NO_DEVICE;
        } else {
            bit<8> fresh;
            heartbeats.apply(0, meta.server, enabled, now, report_timeout, fresh);
            // All agents silent at once is more likely their fault than the devices': better any device than none.
            if (fresh == 0) {
                fresh = enabled;
            }
            candidates = fresh;
            if (meta.policy == POLICY_AVAILABILITY) {
                bit<8> state;
                accel_state.read(state, (bit<32>)meta.server);
                // All busy: the priorities alone decide.
                if ((state & fresh) != 0) {
                    candidates = state & fresh;
                }
            } else if (ring_length != 0) {
                if (meta.policy == POLICY_ROUND_ROBIN) {
                    next_position.apply(ring, ring_length, position);
                } else if (meta.policy == POLICY_HASH) {
                    hash_position.apply(meta, ring_length, position);
                }
                rings.apply();
            }
            bit<8> choice = (bit<8>)1 << (bit<8>)slot;
            if (!proposed || (choice & fresh) == 0) {
                proposed = false;
                dip_table.apply();
            }
            if (proposed) {
                meta.device = meta.server ++ slot;
            } else {
                meta.drop_reason = DROP_NO_DEVICE;
            }
        }
    }
}

#endif
