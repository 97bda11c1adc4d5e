// SPDX-License-Identifier: Apache-2.0
// Where a new connection goes: first a server, then a device of that server.
//
// The server comes from a slot table: hash of the flow -> slot -> server. The controller fills the slots, so weights are
// numbers of slots, and when a server goes only its own slots change hands. No state is kept per connection here.
//
// The device comes from the service's policy. Each policy proposes one device; what all of them share stands in `SelectDevice`:
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

// When one device of each server was last heard of. The load itself is kept as P4Mite does, in one bit per device
// (AccelState), 1 for available.
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

// The load of every server, as its agents report it. Two uses: with mask != 0 it takes note of a report about these
// devices; otherwise it tells which of the enabled devices were heard of within the timeout and which are available.
control LoadState(in bit<8> mask, in bit<8> reported, in server_t server, in bit<8> enabled, in time_us_t timeout,
                  in time_us_t now, out bit<8> fresh, out bit<8> available) {
    register<bit<8>>(MAX_SERVERS) accel_state;

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
        accel_state.read(available, (bit<32>)server);
        if (!ask) {
            available = (available & ~mask) | (reported & mask);
            accel_state.write((bit<32>)server, available);
        }
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

// What a service may use of a server.
struct pool_t {
    bit<8>    devices;     // enabled: one bit per device
    bit<32>   ring;
    bit<16>   ring_length;
    time_us_t report_timeout;
}

// Chooses meta.server, or says in meta.drop_reason why there is none.
control SelectServer(inout metadata_t meta, out pool_t pool) {
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
    action set_pool(bit<8> devices, bit<32> ring, bit<16> ring_length, bit<32> timeout_ms) {
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

    apply {
        pool = { 0, 0, 0, 0 };
        if (!server_slots.apply().hit) {
            meta.drop_reason = DROP_NO_SERVER;
        } else if (!pools.apply().hit || pool.devices == 0) {
            meta.drop_reason = DROP_NO_DEVICE;
        }
    }
}

// Chooses meta.device of meta.server, given which devices of the pool are fresh and which available.
control SelectDevice(inout metadata_t meta, in pool_t pool, in bit<8> reporting, in bit<8> available) {
    HashPosition() hash_position;
    NextPosition() next_position;

    bit<8> candidates = 0;
    bit<16> position = 0;
    slot_t slot = 0;
    bool proposed = false;

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
        // All agents silent at once is more likely their fault than the devices': better any device than none.
        bit<8> fresh = reporting;
        if (fresh == 0) {
            fresh = pool.devices;
        }
        candidates = fresh;
        if (meta.policy == POLICY_AVAILABILITY) {
            // All busy: the priorities alone decide.
            if ((available & fresh) != 0) {
                candidates = available & fresh;
            }
        } else if (pool.ring_length != 0) {
            if (meta.policy == POLICY_ROUND_ROBIN) {
                next_position.apply(pool.ring, pool.ring_length, position);
            } else if (meta.policy == POLICY_HASH) {
                hash_position.apply(meta, pool.ring_length, position);
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

#endif
