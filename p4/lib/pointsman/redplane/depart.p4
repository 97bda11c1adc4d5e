// What leaves for the store, and the buffer of writes. Part of <pointsman/redplane.p4>, which programs include.

#ifndef POINTSMAN_REDPLANE_DEPART_P4
#define POINTSMAN_REDPLANE_DEPART_P4

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
