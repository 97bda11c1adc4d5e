// SPDX-License-Identifier: Apache-2.0
// Which device of its server gets a new connection.
//
// The service's policy proposes a device, or leaves it to the priorities of `dip_table`. All policies share `SelectDevice`:
// only devices that the pool enables and whose agents have reported lately are candidates, and if the proposal
// is not one of them, the priorities choose among the candidates.
//
// Three policies are fixed (hash, round robin, availability); with POLICY_BLOCKS the entry of table `policies` says which blocks
// (blocks.p4) with which settings, so that a policy is a configuration.
//
// Everything that the controller writes is kept in two generations (`epoch`). It fills the one that is not in force, then
// changes the service's entry, which is one write: no packet ever sees half a policy.

#ifndef BALANCER_SELECT_P4
#define BALANCER_SELECT_P4

#include "blocks.p4"
#include "headers.p4"
#include "load.p4"
#include "servers.p4"

const bit<8> POLICY_HASH = 0;         // ECMP: by hash over the server's ring
const bit<8> POLICY_ROUND_ROBIN = 1;  // WRR: one step around the ring per connection
const bit<8> POLICY_AVAILABILITY = 2; // P4Mite: the first device by priority that reports to be available
const bit<8> POLICY_BLOCKS = 3;       // as `policies` says

// Why a device was chosen: what decided. Metrics show it.
const bit<4> REASON_HASH = 0;              // ring, by hash
const bit<4> REASON_RING = 1;              // ring, by turns
const bit<4> REASON_PRIORITY = 2;          // first of dip_table
const bit<4> REASON_MINIMUM = 3;           // smallest value of what was reported
const bit<4> REASON_LEAST_CONNECTIONS = 4; // smallest value of what is in flight
const bit<4> REASON_CHOICES = 5;           // smallest value of some by chance
const bit<4> REASON_IDLE = 6;              // one of those with value 0
const bit<4> REASON_CHANCE = 7;
const bit<4> REASON_WEIGHTED = 8;          // by turns, each as often as its value says
const bit<4> REASON_CHOSEN = 9;            // the controller's
// The choice of the policy was not available:
const bit<4> REASON_NO_CHOICE = 10;  // the controller names none: smallest value
const bit<4> REASON_NONE_LEFT = 11;  // all are busy, above their threshold, not idle: the rest of the policy, of all
const bit<4> REASON_FALLBACK = 12;   // the device was silent or not enabled: first of dip_table
const bit<4> REASON_ALL_SILENT = 13; // no report of any device: as if all had reported
const bit<4> REASON_ADOPTED = 14;    // a segment of an unknown connection: as another switch chose, by hash, or the device that sent it

// What `policies` says of a service.
struct blocks_t {
    bit<8>    servers;  // SERVERS_*
    bit<8>    narrow;   // NARROW_*
    bit<8>    pick;     // PICK_*
    bit<8>    choices;  // of PICK_LEAST
    bit<8>    counting; // flags of a new connection: CONN_COUNTS_*
    measure_t measure;
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

// The settings of a service's policy.
control ServicePolicy(in metadata_t meta, out blocks_t blocks) {
    action set_policy(bit<8> servers, bit<8> narrow, bit<8> pick, bit<8> choices, bit<8> counting, bit<8> metric_a, bit<8> weight_a,
                      bit<8> metric_b, bit<8> weight_b, bit<8> step, bit<8> offset, bit<1> complement, bit<1> second_only) {
        blocks = { servers, narrow, pick, choices, counting,
                   { metric_a, weight_a, metric_b, weight_b, step, offset, complement, second_only } };
    }

    // Blocks and their settings. A service without an entry has servers by hash and counts nothing.
    table policies {
        key = {
            meta.flow.service: exact @name("service");
            meta.epoch: exact @name("epoch");
        }
        actions = { set_policy; @defaultonly NoAction; }
        const default_action = NoAction;
        size = 16384;
    }

    apply {
        blocks = { SERVERS_BY_HASH, NARROW_NONE, PICK_LEAST, 0, 0, { METRIC_NONE, 0, METRIC_NONE, 0, 0, 0, 0, 0 } };
        policies.apply();
    }
}

// The settings of each device of a server.
#define FACTOR(i) bit<16> d##i
#define FACTOR_NAME(i) d##i
#define HIGH(i) bit<16> high##i
#define HIGH_NAME(i) high##i
#define LOW(i) bit<16> low##i
#define LOW_NAME(i) low##i
#define NO_LIMIT(i) 0xffff
control DeviceSettings(in metadata_t meta, out factors_t factors, out thresholds_t thresholds) {
    action set_factors(DEVICE_LIST(FACTOR)) {
        factors = { DEVICE_LIST(FACTOR_NAME) };
    }

    // What the load of each device is multiplied with: its weight where more is better, the inverse where less is.
    table device_factors {
        key = {
            meta.flow.service: exact @name("service");
            meta.epoch: exact @name("epoch");
            meta.server: exact @name("server");
        }
        actions = { set_factors; @defaultonly NoAction; }
        const default_action = NoAction;
        size = 65536;
    }

    action set_thresholds(DEVICE_LIST(HIGH), DEVICE_LIST(LOW)) {
        thresholds.high = { DEVICE_LIST(HIGH_NAME) };
        thresholds.low = { DEVICE_LIST(LOW_NAME) };
    }

    // Where each device is out, and in again.
    table device_thresholds {
        key = {
            meta.flow.service: exact @name("service");
            meta.epoch: exact @name("epoch");
            meta.server: exact @name("server");
        }
        actions = { set_thresholds; @defaultonly NoAction; }
        const default_action = NoAction;
        size = 65536;
    }

    apply {
        factors = { DEVICE_LIST(ONE) };
        thresholds = { { DEVICE_LIST(NO_LIMIT) }, { DEVICE_LIST(ZERO) } };
        device_factors.apply();
        device_thresholds.apply();
    }
}

// A proposal made of blocks: the devices that remain of the fresh ones (`candidates`), and of these the one to take. None, which
// leaves it to dip_table, whose policy is priority.
#define IS_IDLE(i) (values.d##i <= (bit<48>)thresholds.low.d##i ? 1w1 : 1w0)
control Blocks(in metadata_t meta, in blocks_t blocks, in bit<32> pool, in devices_t fresh, in devices_t available,
               in values_t values, in factors_t factors, in thresholds_t thresholds, in bool is_chosen, in slot_t choice,
               out devices_t candidates, out slot_t proposal, out bool proposed, out bit<4> reason) {
    Thresholds() thresholds_of_pool;
    Sample() sample;
    Weighted() weighted;
    Minimum() minimum;
    Sample() tie;
    Position() position;

    apply {
        bit<16> draw1 = meta.hash_a[31:16] ^ meta.hash_b[15:0];
        bit<32> more;
        hash(more, HashAlgorithm.crc32, 32w0, { meta.hash_b, meta.flow.client_port, meta.hash_a }, 64w0x100000000);
        devices_t left = fresh;
        if (blocks.narrow == NARROW_AVAILABLE) {
            left = available & fresh;
        } else if (blocks.narrow == NARROW_BELOW) {
            thresholds_of_pool.apply(pool, fresh, values, thresholds, left);
        } else if (blocks.narrow == NARROW_IDLE) {
            left = fresh & (DEVICE_BITMAP(IS_IDLE));
        }
        // No device left: the block does not decide.
        bool none_left = left == 0;
        if (none_left) {
            left = fresh;
        }
        candidates = left;
        proposed = blocks.pick != PICK_PRIORITY;
        devices_t last = left;
        if (blocks.pick == PICK_PRIORITY) {
            reason = REASON_PRIORITY;
        } else if (blocks.choices != 0) {
            reason = REASON_CHOICES;
        } else if (blocks.measure.metric_a == METRIC_IN_FLIGHT) {
            reason = REASON_LEAST_CONNECTIONS;
        } else {
            reason = REASON_MINIMUM;
        }
        if (blocks.pick == PICK_CHOSEN && is_chosen) {
            last = SET_OF(choice);
            reason = REASON_CHOSEN;
        } else if (blocks.pick == PICK_WEIGHTED || blocks.pick == PICK_CHANCE) {
            values_t shares = values;
            reason = REASON_WEIGHTED;
            if (blocks.pick == PICK_CHANCE) {
                shares = { DEVICE_LIST(ZERO) };
                reason = blocks.narrow == NARROW_IDLE ? REASON_IDLE : REASON_CHANCE;
            }
            weighted.apply(pool, left, shares, factors, last);
        } else {
            if (blocks.pick == PICK_CHOSEN) {
                reason = REASON_NO_CHOICE;
            }
            sample.apply(left, blocks.choices, draw1, more[31:16], more[15:0], last);
            devices_t sampled = last;
            minimum.apply(sampled, values, last);
        }
        if (none_left && reason != REASON_CHOSEN) {
            reason = REASON_NONE_LEFT;
        }
        // Ties by chance, with bits that the sample did not look at first.
        devices_t tied = last;
        tie.apply(tied, 1, draw1[7:0] ++ draw1[15:8], 0, 0, last);
        position.apply(last, proposal);
    }
}

// Chooses meta.device of meta.server, given which devices of the pool are fresh and which available, and what blocks proposed of
// which candidates and why.
control SelectDevice(inout metadata_t meta, in pool_t pool, in devices_t fresh, in devices_t available,
                     inout devices_t candidates, inout slot_t slot, inout bool proposed, inout bit<4> reason) {
    HashPosition() hash_position;
    NextPosition() next_position;

    bit<16> position = 0;

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
        size = 524288;
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
        size = 262144;
    }

    apply {
        if (meta.policy == POLICY_AVAILABILITY) {
            // All busy: the priorities alone decide.
            reason = REASON_NONE_LEFT;
            if ((available & fresh) != 0) {
                candidates = available & fresh;
                reason = REASON_PRIORITY;
            }
        } else if (meta.policy != POLICY_BLOCKS && pool.ring_length != 0) {
            if (meta.policy == POLICY_ROUND_ROBIN) {
                next_position.apply(pool.ring, pool.ring_length, position);
                reason = REASON_RING;
            } else if (meta.policy == POLICY_HASH) {
                hash_position.apply(meta, pool.ring_length, position);
                reason = REASON_HASH;
            }
            rings.apply();
        }
        devices_t choice_bit = SET_OF(slot);
        if (!proposed || (choice_bit & fresh) == 0) {
            if (reason != REASON_PRIORITY && (proposed || reason != REASON_NONE_LEFT)) {
                reason = REASON_FALLBACK;
            }
            proposed = false;
            dip_table.apply();
        }
        if (proposed) {
            meta.device = DEVICE_NUMBER(meta.server, slot);
        } else {
            meta.drop_reason = DROP_NO_DEVICE;
        }
    }
}

#endif
