// State that outlives the switch (docs/redplane.md): the data plane's part of the protocol, for v1model.
//
// A program defines, before it includes this file, the size of a key and of its state in words of 32 bits:
//
//     #define REDPLANE_KEY_WORDS 4
//     #define REDPLANE_VALUE_WORDS 1
//     #include <pointsman/redplane.p4>
//
// It declares the headers `redplane_outer_t` and `redplane_t`, which it emits before all others, and `redplane_meta_t` in its metadata. Its parser
// begins with RedPlaneParser; its ingress is
//
//     RedPlaneArrive.apply(...)              // answers of the store
//     if (step == REDPLANE_PROGRAM) @atomic {
//         redplane.key = ...;
//         RedPlaneFind.apply(...)            // redplane.held: redplane.value is the state
//         if (redplane.held) {
//             ...                            // the program reads and changes redplane.value, and chooses egress_spec
//             RedPlaneSave.apply(...)        // replicates what changed
//         }
//     }
//
// its egress is RedPlaneDepart; REDPLANE_COMPUTE is the last line of the control that computes checksums. Clone session REDPLANE_SESSION leads to a port whose queue delays packets: the time after which a write is sent
// again. Its depth must be at least REDPLANE_BUFFER. With REDPLANE_RESEND, in ticks of timestamps, that delay is the time between two looks at a write:
// one that is acknowledged leaves the buffer, and one that is older than REDPLANE_RESEND is sent again.
//
// With REDPLANE_SHARED_READS several switches may hold a key at once, as long as none of them changes its state. The program sets `writes` before
// RedPlaneFind if the packet probably changes the state, and says between computing the new state and changing the packet
//
//     RedPlaneClaim.apply(...)               // redplane.held is false if the packet has to come again
//
// With `#define REDPLANE_IPV6` messages are sent over IPv6 in the place of IPv4.
//
// With `#define REDPLANE_OBJECTS 2` a program protects two objects, or more, which a packet passes one after the other: it sets `object` before RedPlaneFind, and
// `stage` before RedPlaneSave (docs/redplane.md, "Several objects").

#ifndef POINTSMAN_REDPLANE_P4
#define POINTSMAN_REDPLANE_P4

#include <pointsman/redplane/message.p4>
#include <pointsman/redplane/slots.p4>

#ifdef REDPLANE_SESSION_LEASES
#if REDPLANE_SHARDS > 1
#error "a session lease holds the keys of one store: REDPLANE_SHARDS must be 1"
#endif
#ifdef REDPLANE_SHARED_READS
#error "a session lease is not shared: define REDPLANE_SESSION_LEASES or REDPLANE_SHARED_READS"
#endif
#endif

// Reads the slot of a key.
control RedPlaneRead(in redplane_key_t key, inout redplane_meta_t m) {
    apply {
        hash(m.index, HashAlgorithm.crc32, REDPLANE_FIRST_SLOT(m), { key }, (bit<64>)REDPLANE_SLOTS);
        redplane_keys.read(m.slot.key, m.index);
        redplane_values.read(m.slot.value, m.index);
        redplane_grants.read(m.slot.grant, m.index);
        redplane_until.read(m.slot.until, REDPLANE_LEASE(m));
#ifdef REDPLANE_SESSION_LEASES
        bit<32> session;
        bit<32> present;
        redplane_sessions.read(session, m.index);
        redplane_session.read(present, 0);
        if (session != present) {
            m.slot.until = 0;
        }
#endif
        redplane_sent.read(m.slot.sent, m.index);
        redplane_acked.read(m.slot.acked, m.index);
        redplane_generations.read(m.slot.generation, m.index);
        redplane_requests.read(m.slot.request, m.index);
        redplane_taken.read(m.slot.taken, m.index);
#ifdef REDPLANE_SHARED_READS
        redplane_shared.read(m.slot.shared, m.index);
#endif
    }
}

// Makes the packet a request, with the number of a new one. A packet that is too long with the headers is lost, and its request goes without it: when the packet
// is sent again, the state is here.
control RedPlaneRequest(inout redplane_outer_t outer,
                        inout redplane_t message,
                        inout redplane_meta_t m,
                        inout standard_metadata_t sm,
                        in bit<8> kind,
                        in bit<8> flags,
                        in bit<16> port) {
    apply {
        m.slot.request = m.slot.request + 1;
        redplane_requests.write(m.index, m.slot.request);
        redplane_taken.write(m.index, m.slot.taken << 1);
        outer.setValid();
        outer.mac_dst = m.mac_dst;
        outer.mac_src = m.mac_src;
        REDPLANE_SET_IP(outer);
        outer.src = m.address;
        bit<16> shard = 0;
#if REDPLANE_SHARDS > 1
        hash(shard, HashAlgorithm.crc16, 16w0, { REDPLANE_SHARD_OF(m.key) }, (bit<32>)REDPLANE_SHARDS);
#endif
        outer.dst = m.store + (redplane_address_t)shard;
        outer.sport = REDPLANE_PORT;
        outer.dport = REDPLANE_PORT;
        outer.udp_checksum = 0;
        message.setValid();
        message.version = REDPLANE_VERSION;
        message.kind = kind;
        message.flags = flags;
        if (flags[0:0] == 1 && m.bytes > REDPLANE_MTU - REDPLANE_BYTES) {
            redplane_counts.count(REDPLANE_COUNT_LONG);
            message.flags = flags & ~(REDPLANE_PACKET | REDPLANE_INPUT);
        }
        message.flags = message.flags | (m.ending ? REDPLANE_ENDING : 8w0);
#ifdef REDPLANE_SESSION_LEASES
        message.flags = message.flags | REDPLANE_SESSION_LEASE;
#endif
        message.status = REDPLANE_OK;
        message.object = REDPLANE_NUMBER(m);
        message.shard = shard;
        message.switch_id = m.switch_id;
        message.port = port;
        message.incarnation = m.incarnation;
        message.generation = m.slot.generation;
        message.grant = m.slot.grant;
        message.sequence = m.slot.sent;
        message.request = m.slot.request;
        message.stamp = (bit<64>)sm.ingress_global_timestamp;
        message.lease = 0;
        message.key_bytes = 4 * REDPLANE_KEY_WORDS;
        message.value_bytes = 4 * REDPLANE_VALUE_WORDS;
        message.key = m.key;
        message.value = m.slot.value;
        m.step = REDPLANE_SEND;
        sm.egress_spec = m.store_port;
    }
}

// Makes the packet a request for a state that is not here.
control RedPlaneAsk(inout redplane_outer_t outer,
                    inout redplane_t message,
                    inout redplane_meta_t m,
                    inout standard_metadata_t sm,
                    in bit<8> kind) {
    RedPlaneRequest() request;

    apply {
        m.slot.grant = 0;
        m.slot.sent = REDPLANE_FIRST;
        m.slot.value = 0;
        bit<8> flags = REDPLANE_PACKET | REDPLANE_INPUT | (m.existing ? REDPLANE_EXISTING : 8w0)
            | (m.allocate ? REDPLANE_ALLOCATE : 8w0);
        request.apply(outer, message, m, sm, kind, flags, REDPLANE_INPUT_PORT(m));
    }
}

#ifdef REDPLANE_SHARED_READS
// Gives a shared lease up: the next request for the key shows this to the store, by its generation.
control RedPlaneGiveUp(inout redplane_meta_t m) {
    apply {
        redplane_grants.write(m.index, 0);
        m.slot.generation = m.slot.generation + 1;
        redplane_generations.write(m.index, m.slot.generation);
    }
}
#endif

// R1: takes the lease of an answer, which ends at `end`.
control RedPlaneExtend(in redplane_t message, inout redplane_meta_t m, in bit<48> end, in bit<48> now) {
    apply {
#ifdef REDPLANE_SESSION_LEASES
        bit<48> until;
        bit<48> started;
        bit<32> present;
        redplane_until.read(until, 0);
        redplane_started.read(started, 0);
        redplane_session.read(present, 0);
        if (until <= now && now < end) {
            // The store may have given away any key meanwhile: each is asked for again.
            present = present + 1;
            started = message.stamp[47:0];
            redplane_session.write(0, present);
            redplane_started.write(0, started);
        }
        // An answer to a request from before the session says nothing about the time in between.
        if (end != 0 && message.stamp[47:0] >= started) {
            redplane_sessions.write(m.index, present);
        }
#else
        bit<48> until = m.slot.until;
#endif
        if (end > until) {
            redplane_until.write(REDPLANE_LEASE(m), end);
        }
    }
}

// An answer of the store, whose digest is right.
control RedPlaneAnswer(inout redplane_outer_t outer,
                       inout redplane_t message,
                       inout redplane_meta_t m,
                       inout standard_metadata_t sm) {
    RedPlaneRead() read;
    RedPlaneExtend() extend;

    action give_up() {
        redplane_grants.write(m.index, 0);
        m.slot.grant = 0;
    }

    // What was asked for before must not take effect any more.
    action next_generation() {
        m.slot.generation = m.slot.generation + 1;
        redplane_generations.write(m.index, m.slot.generation);
    }

    action install() {
        redplane_keys.write(m.index, message.key);
        redplane_values.write(m.index, message.value);
        redplane_grants.write(m.index, message.grant);
        redplane_sent.write(m.index, message.sequence);
        redplane_acked.write(m.index, message.sequence);
        m.slot.sent = message.sequence;
        m.slot.acked = message.sequence;
        m.slot.until = 0;
#ifdef REDPLANE_SHARED_READS
        m.slot.shared = message.kind[6:6];
        redplane_shared.write(m.index, m.slot.shared);
#endif
    }

    action back_to_store() {
        message.kind = REDPLANE_SAME_LEASE(message, REDPLANE_RELEASE);
        message.flags = 0;
        outer.mac_dst = m.mac_dst;
        outer.mac_src = m.mac_src;
        outer.ttl = 64;
        outer.src = m.address;
        outer.dst = m.store + (redplane_address_t)message.shard;
        // The sum of the store's datagram.
        outer.udp_checksum = 0;
        m.step = REDPLANE_SEND;
        sm.egress_spec = m.store_port;
    }

    apply {
        m.step = REDPLANE_DROP;
        REDPLANE_SET_OBJECT(m, message);
        read.apply(message.key, m);
        bit<48> now = sm.ingress_global_timestamp;
        bool same = m.slot.key == message.key && m.slot.grant != 0;
        bool mine = same && m.slot.grant == message.grant;
        bool take = false;
        if (REDPLANE_KIND(message) == (REDPLANE_RECALL | 0x80)) {
            if (same && redplane_later(m.slot.grant, message.grant)) {
                redplane_counts.count(REDPLANE_COUNT_LATE);
            } else {
                if (mine) {
                    message.value = m.slot.value;
                    message.sequence = m.slot.sent;
                }
                if (same) {
                    give_up();
                }
#ifdef REDPLANE_SHARED_READS
                // A request that was made since this grant is still wanted.
                if (same || m.slot.generation == message.generation)
#endif
                    next_generation();
                back_to_store();
            }
        } else if (message.status == REDPLANE_STALE) {
            redplane_counts.count(REDPLANE_COUNT_REFUSED);
            if (mine) {
                give_up();
                next_generation();
            }
            take = true;
        } else if (message.status == REDPLANE_EXHAUSTED) {
            redplane_counts.count(REDPLANE_COUNT_EXHAUSTED);
        } else if (message.status != REDPLANE_OK) {
            redplane_counts.count(REDPLANE_COUNT_REFUSED);
        } else {
            // R1: counted from the time when the request was sent, less drift.
            bit<48> end = 0;
            if (message.lease != 0) {
                bit<32> term = message.lease - (message.lease >> REDPLANE_DRIFT_SHIFT);
                end = message.stamp[47:0] + (bit<48>)term * m.ticks;
            }
            bool free = m.slot.grant == 0 || m.slot.until <= now;
            if (!mine && REDPLANE_KIND(message) == (REDPLANE_NEW | 0x80) && free && m.slot.generation == message.generation && now < end) {
                install();
                next_generation();
                mine = true;
            }
            if (mine) {
                if (redplane_later(message.sequence, m.slot.acked)) {
                    redplane_acked.write(m.index, message.sequence);
                }
                extend.apply(message, m, end, now);
                take = true;
                m.answered = true;
#if REDPLANE_OBJECTS > 1
                m.answered_object = m.object;
#endif
            } else {
                redplane_counts.count(REDPLANE_COUNT_LATE);
            }
        }
        if (take && message.flags[0:0] == 1) {
            // R8: the packet of a request is taken once.
            bit<32> age = m.slot.request - message.request;
            bit<64> bit_of = 64w1 << age[5:0];
            if (age < 64 && (m.slot.taken & bit_of) == 0) {
                redplane_taken.write(m.index, m.slot.taken | bit_of);
                if (REDPLANE_COMES_BACK(message)) {
                    m.step = REDPLANE_PROGRAM;
                } else {
                    m.step = REDPLANE_OUT;
                    sm.egress_spec = message.port[8:0];
                }
                m.in_port = message.port[8:0];
#if REDPLANE_OBJECTS > 1
                m.stage = message.port[15:9];
#endif
                outer.setInvalid();
                message.setInvalid();
            } else {
                redplane_counts.count(REDPLANE_COUNT_LATE);
            }
        }
    }
}

// First in ingress: takes the store's answers.
control RedPlaneArrive(inout redplane_outer_t outer,
                       inout redplane_t message,
                       inout redplane_meta_t m,
                       inout standard_metadata_t sm) {
    RedPlaneDigest() digest_of;
    RedPlaneAnswer() answer;

    // The switch's number and incarnation; the secret that it shares with the store; both addresses; the way to the store; timestamp ticks
    // in a microsecond; the rest of a lease, in ticks, from which on it is renewed.
    action configure(bit<16> switch_id,
                     bit<32> incarnation,
                     bit<64> secret,
                     redplane_address_t address,
                     redplane_address_t store,
                     bit<48> mac_src,
                     bit<48> mac_dst,
                     bit<9> port,
                     bit<48> ticks,
                     bit<48> renew) {
        m.switch_id = switch_id;
        m.incarnation = incarnation;
        m.secret = secret;
        m.address = address;
        m.store = store;
        m.mac_src = mac_src;
        m.mac_dst = mac_dst;
        m.store_port = port;
        m.ticks = ticks;
        m.renew = renew;
    }

    table redplane_config {
        actions = { configure; }
        default_action = configure(0, 0, 0, 0, 0, 0, 0, 0, 1, 0);
        size = 1;
    }

    apply {
        redplane_config.apply();
        m.step = REDPLANE_PROGRAM;
        m.in_port = sm.ingress_port;
        m.bytes = sm.packet_length;
        if (message.isValid()) {
            m.bytes = sm.packet_length - REDPLANE_BYTES;
            if (sm.instance_type == 4 && outer.src == m.address) {
                // R7: a write from the buffer.
                redplane_counts.count(REDPLANE_COUNT_RESENT);
#ifndef REDPLANE_RESEND
                message.stamp = (bit<64>)sm.ingress_global_timestamp;
#endif
                m.step = REDPLANE_SEND;
                sm.egress_spec = m.store_port;
            } else if (outer.dst != m.address) {
                m.step = REDPLANE_OTHER;
            } else {
                bit<64> expected;
                digest_of.apply(m.secret, message, expected);
                if (expected != message.digest || message.version != REDPLANE_VERSION || message.kind[7:7] == 0
                    || message.switch_id != m.switch_id || message.incarnation != m.incarnation
                    || REDPLANE_IS_FOREIGN(message) || message.key_bytes != 4 * REDPLANE_KEY_WORDS
                    || message.value_bytes != 4 * REDPLANE_VALUE_WORDS REDPLANE_OR_UNSUMMED(outer)) {
                    redplane_counts.count(REDPLANE_COUNT_BAD);
                    m.step = REDPLANE_DROP;
                } else {
                    @atomic {
                        answer.apply(outer, message, m, sm);
                    }
                }
            }
        }
        if (m.step == REDPLANE_DROP) {
            mark_to_drop(sm);
        }
    }
}

// Finds the state of `key`, or asks the store for it.
control RedPlaneFind(inout redplane_outer_t outer,
                     inout redplane_t message,
                     inout redplane_meta_t m,
                     inout standard_metadata_t sm) {
    RedPlaneRead() read;
    RedPlaneRequest() request;
    RedPlaneAsk() ask;
#ifdef REDPLANE_SHARED_READS
    RedPlaneGiveUp() give_up;
#endif

    apply {
        read.apply(m.key, m);
        bool same = m.slot.key == m.key && m.slot.grant != 0;
        bool leased = sm.ingress_global_timestamp < m.slot.until;
        m.held = same && leased;
        m.value = m.slot.value;
        if (!m.held) {
            m.step = REDPLANE_DROP;
            bit<8> new = REDPLANE_NEW;
#ifdef REDPLANE_SHARED_READS
            if (!m.writes) {
                new = REDPLANE_NEW | REDPLANE_SHARED;
            } else if (same && m.slot.shared == 1) {
                // A renewal would not be enough.
                give_up.apply(m);
                same = false;
            }
#endif
            if (m.slot.grant != 0 && leased) {
                redplane_counts.count(REDPLANE_COUNT_COLLISION);
            } else if (REDPLANE_WAS_ANSWERED(m)) {
                redplane_counts.count(REDPLANE_COUNT_EXPIRED);
            } else if (same) {
                request.apply(outer, message, m, sm, REDPLANE_LEASE_KIND(m, REDPLANE_RENEW), REDPLANE_PACKET | REDPLANE_INPUT, REDPLANE_INPUT_PORT(m));
            } else {
                ask.apply(outer, message, m, sm, new);
            }
            if (m.step == REDPLANE_DROP) {
                mark_to_drop(sm);
            }
        }
    }
}

// Replicates what the program changed. Its output, to `egress_spec`, leaves after the acknowledgement.
control RedPlaneSave(inout redplane_outer_t outer,
                     inout redplane_t message,
                     inout redplane_meta_t m,
                     inout standard_metadata_t sm) {
    RedPlaneRequest() request;

    apply {
#if REDPLANE_OBJECTS > 1
        bit<16> port = (bit<16>)sm.egress_spec;
        bit<8> flags = REDPLANE_PACKET;
        if (port == 511) {
            flags = 0;
        } else if (m.stage != 0) {
            port = REDPLANE_INPUT_PORT(m);
        }
#else
        bit<9> port = sm.egress_spec;
        bit<8> flags = REDPLANE_PACKET;
        if (port == 511) {
            flags = 0;
        }
#endif
        bit<48> now = sm.ingress_global_timestamp;
#ifdef REDPLANE_SHARED_READS
        if (m.value != m.slot.value && m.slot.shared == 1) {
            redplane_counts.count(REDPLANE_COUNT_UNCLAIMED);
            m.step = REDPLANE_DROP;
            mark_to_drop(sm);
            return;
        }
#endif
        if (m.value != m.slot.value) {
            bit<32> buffered;
            redplane_buffered.read(buffered, 0);
            if (buffered >= REDPLANE_BUFFER) {
                redplane_counts.count(REDPLANE_COUNT_BUFFER);
                m.step = REDPLANE_DROP;
                mark_to_drop(sm);
            } else {
                redplane_buffered.write(0, buffered + 1);
                m.slot.value = m.value;
                m.slot.sent = m.slot.sent + 1;
                redplane_values.write(m.index, m.value);
                redplane_sent.write(m.index, m.slot.sent);
                request.apply(outer, message, m, sm, REDPLANE_WRITE, flags, (bit<16>)port);
            }
        } else if (flags != 0 && m.slot.sent != m.slot.acked) {
            request.apply(outer, message, m, sm, REDPLANE_READ, flags, (bit<16>)port);
        } else if (flags != 0 && m.slot.until - now < m.renew && m.bytes <= REDPLANE_MTU - REDPLANE_BYTES) {
            bit<48> asked;
            redplane_asked.read(asked, REDPLANE_LEASE(m));
            if (now - asked > m.renew >> 2) {
                redplane_asked.write(REDPLANE_LEASE(m), now);
                request.apply(outer, message, m, sm, REDPLANE_LEASE_KIND(m, REDPLANE_RENEW), flags, (bit<16>)port);
            }
        }
    }
}

#ifdef REDPLANE_SHARED_READS
#include <pointsman/redplane/claim.p4>
#endif

// Egress: signs requests, and keeps writes until they are acknowledged.
control RedPlaneDepart(inout redplane_outer_t outer,
                       inout redplane_t message,
                       inout redplane_meta_t m,
                       inout standard_metadata_t sm) {
    RedPlaneDigest() digest_of;
    RedPlaneRead() read;

    apply {
        if (sm.instance_type == 2 && message.isValid()) {
            // A write has waited in the buffer.
            @atomic {
                REDPLANE_SET_OBJECT(m, message);
                read.apply(message.key, m);
                // A later write has a copy of its own in the buffer.
                if (m.slot.key == message.key && m.slot.grant == message.grant && m.slot.sent == message.sequence
                    && redplane_later(message.sequence, m.slot.acked)) {
#ifdef REDPLANE_RESEND
                    // It is too early to send the write again: it returns to the buffer, where only its message is needed.
                    bool early = sm.egress_global_timestamp - message.stamp[47:0] < REDPLANE_RESEND;
                    if (early) {
                        truncate(REDPLANE_BYTES);
                        clone(CloneType.E2E, REDPLANE_SESSION);
                        mark_to_drop(sm);
                        return;
                    }
                    // The time in ingress is that of the packet that this is a copy of.
                    message.stamp = (bit<64>)sm.egress_global_timestamp;
#endif
                    message.flags = message.flags & (REDPLANE_ENDING | REDPLANE_SESSION_LEASE);
                    truncate(REDPLANE_BYTES);
                    recirculate_preserving_field_list(0);
                } else {
                    bit<32> buffered;
                    redplane_buffered.read(buffered, 0);
                    redplane_buffered.write(0, buffered - 1);
                    mark_to_drop(sm);
                }
            }
        } else if (m.step == REDPLANE_SEND) {
            bit<32> length = m.bytes + REDPLANE_BYTES;
            if (message.flags[0:0] == 0) {
                length = REDPLANE_BYTES;
                truncate(length);
            }
            outer.len = length[15:0] - REDPLANE_UNCOUNTED;
            outer.udp_len = length[15:0] - REDPLANE_IP_BYTES;
            digest_of.apply(m.secret, message, message.digest);
            if (message.kind == REDPLANE_WRITE) {
                clone(CloneType.E2E, REDPLANE_SESSION);
            }
        }
    }
}

#endif
