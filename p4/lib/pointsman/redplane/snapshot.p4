// State that outlives the switch, replicated by snapshots (docs/redplane.md, "Snapshots"): arrays of counters that every packet changes. Packets do not
// wait for the store; what changed since the last snapshot is lost with the switch.
//
// A program defines, before it includes this file, the words of a key, the number of arrays (1 to 5), and the structures of the switch, each of
// 2^REDPLANE_CELL_BITS cells in each array:
//
//     #define REDPLANE_KEY_WORDS 1
//     #define REDPLANE_VALUE_WORDS 3
//     #define REDPLANE_PLACES 16
//     #define REDPLANE_CELL_BITS 6
//     #include <pointsman/redplane/snapshot.p4>
//
// Its parser begins with RedPlaneSnapshotParser; its ingress is
//
//     arrive.apply(...)                      // RedPlaneSnapshotArrive
//     if (step == REDPLANE_PROGRAM) {
//         redplane.key = ...; redplane.place = ...; redplane.cells = ...; redplane.values = ...; redplane.work = REDPLANE_COUNT;
//     }
//     @atomic {
//         turn.apply(...)                    // RedPlaneSnapshotTurn
//         arrays.apply(...)                  // RedPlaneSnapshotArrays: the only access to the arrays
//     }
//     send.apply(...)                        // RedPlaneSnapshotSend
//
// its egress is RedPlaneSnapshotDepart, and REDPLANE_COMPUTE is the last line of the control that computes checksums. If redplane.held, redplane.values are those of the cells after the change. A packet generator makes
// REDPLANE_PLACES * 2^REDPLANE_CELL_BITS packets at a time, as port REDPLANE_GENERATOR. With `#define REDPLANE_IPV6` messages are sent over IPv6 in the
// place of IPv4.

#ifndef POINTSMAN_REDPLANE_SNAPSHOT_P4
#define POINTSMAN_REDPLANE_SNAPSHOT_P4

#include <pointsman/redplane/arrays.p4>

// First in ingress: what the packet is.
control RedPlaneSnapshotArrive(inout generated_t generated,
                               inout redplane_outer_t outer,
                               inout redplane_t message,
                               inout redplane_snapshot_t m,
                               inout standard_metadata_t sm) {
    RedPlaneDigest() digest_of;

    // The switch's number and incarnation; the secret that it shares with the store; both addresses; the way to the store; timestamp ticks
    // in a microsecond; in ticks, the time between two snapshots, and the age of the last acknowledged one from which on packets are counted in
    // `redplane_counts`, and end if `strict` is 1.
    action configure(bit<16> switch_id,
                     bit<32> incarnation,
                     bit<64> secret,
                     redplane_address_t address,
                     redplane_address_t store,
                     bit<48> mac_src,
                     bit<48> mac_dst,
                     bit<9> port,
                     bit<48> ticks,
                     bit<48> period,
                     bit<48> bound,
                     bit<1> strict) {
        m.switch_id = switch_id;
        m.incarnation = incarnation;
        m.secret = secret;
        m.address = address;
        m.store = store;
        m.mac_src = mac_src;
        m.mac_dst = mac_dst;
        m.store_port = port;
        m.ticks = ticks;
        m.period = period;
        m.bound = bound;
        m.strict = strict;
    }

    table redplane_config {
        actions = { configure; }
        default_action = configure(0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0);
        size = 1;
    }

    apply {
        redplane_config.apply();
        m.step = REDPLANE_PROGRAM;
        m.work = REDPLANE_NO_WORK;
        m.op = REDPLANE_NOTHING;
        m.held = false;
        m.old = false;
        m.now = sm.ingress_global_timestamp;
        if (generated.isValid()) {
            m.step = REDPLANE_DROP;
            m.place = (bit<32>)generated.packet >> REDPLANE_CELL_BITS;
            m.cell = (bit<32>)generated.packet & (REDPLANE_CELLS - 1);
            if (m.place < REDPLANE_PLACES) {
                m.work = REDPLANE_GENERATED;
            }
            generated.setInvalid();
        } else if (message.isValid() && outer.dst != m.address) {
            m.step = REDPLANE_OTHER;
        } else if (message.isValid()) {
            m.step = REDPLANE_DROP;
            m.place = (bit<32>)message.generation[15:0];
            m.cell = (bit<32>)message.request[15:0];
            bit<64> expected;
            digest_of.apply(m.secret, message, expected);
            if (expected != message.digest || message.version != REDPLANE_VERSION || message.kind[7:7] == 0
                || message.switch_id != m.switch_id || message.incarnation != m.incarnation
                || message.object != REDPLANE_OBJECT || message.key_bytes != 4 * REDPLANE_KEY_WORDS
                || message.value_bytes != 4 * REDPLANE_VALUE_WORDS || m.place >= REDPLANE_PLACES || m.cell >= REDPLANE_CELLS
                REDPLANE_OR_UNSUMMED(outer)) {
                redplane_counts.count(REDPLANE_COUNT_BAD);
            } else {
                m.work = REDPLANE_ANSWER;
            }
        }
    }
}

// A packet that the program counts.
control RedPlaneSnapshotCount(inout redplane_snapshot_t m, inout redplane_place_t p) {
    apply {
        bool leased = p.grant != 0 && m.now < p.until;
        if (p.key != m.key && !leased) {
            // The place is free.
            p.key = m.key;
            p.grant = 0;
            p.stage = REDPLANE_AWAY;
            p.generation = p.generation + 1;
            redplane_keys.write(m.place, p.key);
            redplane_grants.write(m.place, 0);
            redplane_stages.write(m.place, REDPLANE_AWAY);
            redplane_generations.write(m.place, p.generation);
        }
        m.old = true;
        if (p.key != m.key) {
            redplane_counts.count(REDPLANE_COUNT_COLLISION);
        } else if (!leased || p.stage != REDPLANE_LIVE) {
            redplane_counts.count(REDPLANE_COUNT_AWAY);
            redplane_wanted.write(m.place, 1);
        } else {
            m.held = true;
            m.old = m.now - p.good > m.bound;
            m.op = REDPLANE_ADD;
            if (m.old) {
                redplane_counts.count(REDPLANE_COUNT_OLD);
            }
        }
        if (m.old && m.strict == 1) {
            m.held = false;
            m.op = REDPLANE_NOTHING;
            m.step = REDPLANE_DROP;
        }
    }
}

// Makes the packet a request. The values of a cell follow.
control RedPlaneSnapshotRequest(inout redplane_outer_t outer,
                                inout redplane_t message,
                                inout redplane_snapshot_t m,
                                in redplane_place_t p,
                                in bit<8> kind,
                                in bit<8> flags,
                                in bit<32> sequence) {
    apply {
        outer.setValid();
        outer.mac_dst = m.mac_dst;
        outer.mac_src = m.mac_src;
        REDPLANE_SET_IP(outer);
        outer.src = m.address;
        outer.dst = m.store;
        outer.sport = REDPLANE_PORT;
        outer.dport = REDPLANE_PORT;
        outer.udp_checksum = 0;
        message.setValid();
        message.version = REDPLANE_VERSION;
        message.kind = kind;
        message.flags = flags;
        message.status = REDPLANE_OK;
        message.object = REDPLANE_OBJECT;
        message.shard = 0;
        message.switch_id = m.switch_id;
        message.port = 0;
        message.incarnation = m.incarnation;
        message.generation = p.generation ++ m.place[15:0];
        message.grant = p.grant;
        message.sequence = sequence;
        message.request = (REDPLANE_CELLS << 16) | m.cell;
        message.stamp = (bit<64>)m.now;
        message.lease = 0;
        message.key_bytes = 4 * REDPLANE_KEY_WORDS;
        message.value_bytes = 4 * REDPLANE_VALUE_WORDS;
        message.key = p.key;
        message.value = 0;
        m.step = REDPLANE_SEND;
    }
}

// A cell has the value that the store gave back, or 0.
control RedPlaneSnapshotFill(inout redplane_snapshot_t m, inout redplane_place_t p) {
    apply {
        m.op = REDPLANE_FILL;
        redplane_done.write((m.place << REDPLANE_CELL_BITS) + m.cell, p.grant ++ 32w0);
        p.left = p.left - 1;
        redplane_left.write(m.place, p.left);
        if (p.left == 0) {
            redplane_stages.write(m.place, REDPLANE_LIVE);
            redplane_numbers.write(m.place, p.base);
            redplane_complete.write(m.place, 1);
            redplane_taken.write(m.place, m.now);
            redplane_good.write(m.place, m.now);
        }
    }
}

// A packet of the generator: sends a cell of the snapshot that the store does not have yet, or asks for one.
control RedPlaneSnapshotGenerated(inout redplane_outer_t outer,
                                  inout redplane_t message,
                                  inout redplane_snapshot_t m,
                                  inout redplane_place_t p) {
    RedPlaneSnapshotRequest() request;
    RedPlaneSnapshotFill() fill;

    // The next snapshot is of this moment. The number 0 means that there is none.
    action take() {
        p.active = ~p.active;
        p.number = p.number + 1;
        p.number = p.number == 0 ? 32w1 : p.number;
        p.complete = 0;
        redplane_active.write(m.place, p.active);
        redplane_numbers.write(m.place, p.number);
        redplane_complete.write(m.place, 0);
        redplane_taken.write(m.place, m.now);
    }

    apply {
        bit<64> done;
        redplane_done.read(done, (m.place << REDPLANE_CELL_BITS) + m.cell);
        if (p.grant == 0 || m.now >= p.until) {
            if (m.cell == 0 && p.wanted == 1) {
                bit<8> kind = p.grant == 0 ? REDPLANE_NEW : REDPLANE_RENEW;
                request.apply(outer, message, m, p, kind, 0, 0);
            }
        } else if (p.stage == REDPLANE_LIVE) {
            if (m.cell == 0 && p.complete == 1 && m.now - p.taken >= m.period) {
                take();
            }
            if (p.complete == 0 && done != p.grant ++ p.number) {
                m.op = REDPLANE_SHOW;
                request.apply(outer, message, m, p, REDPLANE_SNAPSHOT, 0, p.number);
            }
        } else if (p.stage == REDPLANE_FILLING && done[63:32] != p.grant) {
            if (p.base == 0) {
                fill.apply(m, p);
                m.values = { 0, 0, 0, 0, 0 };
            } else {
                request.apply(outer, message, m, p, REDPLANE_SNAPSHOT, REDPLANE_EXISTING, p.base);
            }
        }
    }
}

// An answer of the store, whose digest is right.
control RedPlaneSnapshotAnswer(inout redplane_outer_t outer,
                               inout redplane_t message,
                               inout redplane_snapshot_t m,
                               inout redplane_place_t p) {
    RedPlaneSnapshotFill() fill;

    action give_up() {
        p.grant = 0;
        redplane_grants.write(m.place, 0);
        redplane_stages.write(m.place, REDPLANE_AWAY);
    }

    // What was asked for before must not take effect any more.
    action next_generation() {
        redplane_generations.write(m.place, p.generation + 1);
    }

    action install() {
        redplane_grants.write(m.place, message.grant);
        redplane_until.write(m.place, 0);
        redplane_stages.write(m.place, REDPLANE_FILLING);
        redplane_bases.write(m.place, message.sequence);
        redplane_left.write(m.place, REDPLANE_CELLS);
        p.until = 0;
    }

    action back_to_store() {
        message.kind = REDPLANE_RELEASE;
        message.flags = 0;
        outer.mac_dst = m.mac_dst;
        outer.mac_src = m.mac_src;
        outer.ttl = 64;
        outer.src = m.address;
        outer.dst = m.store;
        // The sum of the store's datagram.
        outer.udp_checksum = 0;
        m.step = REDPLANE_SEND;
    }

    // The words of a cell.
    action words() {
#if REDPLANE_VALUE_WORDS == 1
        m.values.c0 = message.value;
#else
        m.values.c0 = message.value[(32 * REDPLANE_VALUE_WORDS - 1):(32 * REDPLANE_VALUE_WORDS - 32)];
        m.values.c1 = message.value[(32 * REDPLANE_VALUE_WORDS - 33):(32 * REDPLANE_VALUE_WORDS - 64)];
#endif
#if REDPLANE_VALUE_WORDS > 2
        m.values.c2 = message.value[(32 * REDPLANE_VALUE_WORDS - 65):(32 * REDPLANE_VALUE_WORDS - 96)];
#endif
#if REDPLANE_VALUE_WORDS > 3
        m.values.c3 = message.value[(32 * REDPLANE_VALUE_WORDS - 97):(32 * REDPLANE_VALUE_WORDS - 128)];
#endif
#if REDPLANE_VALUE_WORDS > 4
        m.values.c4 = message.value[31:0];
#endif
    }

    apply {
        bool known = p.key == message.key;
        bool same = known && p.grant != 0;
        bool mine = same && p.grant == message.grant;
        // R1: counted from the time when the request was sent, less drift.
        bit<48> end = 0;
        if (message.lease != 0) {
            bit<32> term = message.lease - (message.lease >> REDPLANE_DRIFT_SHIFT);
            end = message.stamp[47:0] + (bit<48>)term * m.ticks;
        }
        bit<32> index = (m.place << REDPLANE_CELL_BITS) + m.cell;
        bit<64> done;
        redplane_done.read(done, index);
        bool extends = false;
        if (message.kind == (REDPLANE_RECALL | 0x80)) {
            if (same && redplane_later(p.grant, message.grant)) {
                redplane_counts.count(REDPLANE_COUNT_LATE);
            } else {
                if (known) {
                    give_up();
                    next_generation();
                    redplane_wanted.write(m.place, 0);
                }
                back_to_store();
            }
        } else if (message.status != REDPLANE_OK) {
            redplane_counts.count(REDPLANE_COUNT_REFUSED);
            if (message.status == REDPLANE_STALE && mine) {
                give_up();
                next_generation();
            }
        } else if (message.kind == (REDPLANE_NEW | 0x80) && known && p.grant == 0
                   && message.generation[31:16] == p.generation && m.now < end) {
            install();
            next_generation();
            extends = true;
        } else if (!mine) {
            redplane_counts.count(REDPLANE_COUNT_LATE);
        } else {
            extends = true;
            if (message.kind == (REDPLANE_SNAPSHOT | 0x80)) {
                if ((message.flags & REDPLANE_EXISTING) != 0) {
                    if (p.stage == REDPLANE_FILLING && message.sequence == p.base && done[63:32] != p.grant) {
                        fill.apply(m, p);
                        words();
                    }
                } else if (p.stage == REDPLANE_LIVE && message.sequence == p.number) {
                    redplane_done.write(index, p.grant ++ p.number);
                    if ((message.flags & REDPLANE_CREATED) != 0 && p.complete == 0) {
                        redplane_counts.count(REDPLANE_COUNT_COMPLETE);
                        redplane_complete.write(m.place, 1);
                        redplane_good.write(m.place, p.taken);
                    }
                }
            }
        }
        if (extends) {
            redplane_wanted.write(m.place, 0);
            if (end > p.until) {
                redplane_until.write(m.place, end);
            }
        }
    }
}

// What the packet does to the arrays.
control RedPlaneSnapshotTurn(inout redplane_outer_t outer, inout redplane_t message, inout redplane_snapshot_t m) {
    RedPlaneSnapshotCount() count;
    RedPlaneSnapshotGenerated() generated;
    RedPlaneSnapshotAnswer() answer;

    apply {
        if (m.work != REDPLANE_NO_WORK) {
            redplane_place_t p;
            redplane_keys.read(p.key, m.place);
            redplane_generations.read(p.generation, m.place);
            redplane_wanted.read(p.wanted, m.place);
            redplane_grants.read(p.grant, m.place);
            redplane_until.read(p.until, m.place);
            redplane_stages.read(p.stage, m.place);
            redplane_bases.read(p.base, m.place);
            redplane_left.read(p.left, m.place);
            redplane_numbers.read(p.number, m.place);
            redplane_complete.read(p.complete, m.place);
            redplane_active.read(p.active, m.place);
            redplane_taken.read(p.taken, m.place);
            redplane_good.read(p.good, m.place);
            if (m.work == REDPLANE_COUNT) {
                count.apply(m, p);
            } else {
                if (m.work == REDPLANE_GENERATED) {
                    generated.apply(outer, message, m, p);
                } else {
                    answer.apply(outer, message, m, p);
                }
                m.cells = { m.cell, m.cell, m.cell, m.cell, m.cell };
            }
            m.active = p.active;
        }
    }
}

// Last in ingress: gives a message the values of its cell.
control RedPlaneSnapshotSend(inout redplane_t message, inout redplane_snapshot_t m, inout standard_metadata_t sm) {
    apply {
        if (m.step == REDPLANE_SEND) {
            sm.egress_spec = m.store_port;
            if (m.op == REDPLANE_SHOW) {
                message.value = m.values.c0
#if REDPLANE_VALUE_WORDS > 1
                    ++ m.values.c1
#endif
#if REDPLANE_VALUE_WORDS > 2
                    ++ m.values.c2
#endif
#if REDPLANE_VALUE_WORDS > 3
                    ++ m.values.c3
#endif
#if REDPLANE_VALUE_WORDS > 4
                    ++ m.values.c4
#endif
                    ;
            }
        } else if (m.step == REDPLANE_DROP) {
            mark_to_drop(sm);
        }
    }
}

// Egress: signs requests.
control RedPlaneSnapshotDepart(inout redplane_outer_t outer, inout redplane_t message, in redplane_snapshot_t m) {
    RedPlaneDigest() digest_of;

    apply {
        if (m.step == REDPLANE_SEND) {
            truncate(REDPLANE_BYTES);
            outer.len = REDPLANE_BYTES - REDPLANE_UNCOUNTED;
            outer.udp_len = REDPLANE_BYTES - REDPLANE_IP_BYTES;
            digest_of.apply(m.secret, message, message.digest);
        }
    }
}

#endif
