// What programs call: the state of a key, and what they made of it. Part of <pointsman/redplane.p4>, which programs include.

#ifndef POINTSMAN_REDPLANE_STATE_P4
#define POINTSMAN_REDPLANE_STATE_P4

// Finds the state of `key`, or asks the store for it.
@restarts
@repeatable
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
#ifndef REDPLANE_SESSION_LEASES
    RedPlaneMakeRoom() make_room;
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
#ifndef REDPLANE_SESSION_LEASES
            if (m.slot.grant != 0 && leased && m.slot.key != m.key) {
                make_room.apply(m, sm.ingress_global_timestamp);
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
@repeatable
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

#endif
