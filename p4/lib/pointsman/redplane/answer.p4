// What the store says. Part of <pointsman/redplane.p4>, which programs include.

#ifndef POINTSMAN_REDPLANE_ANSWER_P4
#define POINTSMAN_REDPLANE_ANSWER_P4

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
@repeatable
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

#endif
