// Slots, and the requests that are made of packets. Part of <pointsman/redplane.p4>, which programs include.

#ifndef POINTSMAN_REDPLANE_REQUEST_P4
#define POINTSMAN_REDPLANE_REQUEST_P4

// Reads the slot of a key.
control RedPlaneRead(in redplane_key_t key, inout redplane_meta_t m) {
    apply {
        hash(m.index, HashAlgorithm.crc32, REDPLANE_FIRST_SLOT(m), { key }, (bit<64>)REDPLANE_SLOTS);
#ifdef REDPLANE_SIDE_OF
        m.index = m.index[31:1] ++ REDPLANE_SIDE_OF(key);
#endif
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

#ifndef REDPLANE_SESSION_LEASES
// Gives the key of the slot up: the next request for it shows this to the store, by its generation.
control RedPlaneGiveUp(inout redplane_meta_t m) {
    apply {
        redplane_grants.write(m.index, 0);
        m.slot.generation = m.slot.generation + 1;
        redplane_generations.write(m.index, m.slot.generation);
    }
}

// Another key has the slot: it is given up if no write of it is under way, and no packet has used it in the part of its lease in which that would have renewed it.
control RedPlaneMakeRoom(inout redplane_meta_t m, in bit<48> now) {
    RedPlaneGiveUp() give_up;

    apply {
        bit<48> asked;
        redplane_asked.read(asked, REDPLANE_LEASE(m));
        if (m.slot.sent == m.slot.acked && m.slot.until - now < m.renew && now - asked >= m.renew) {
            give_up.apply(m);
            m.slot.grant = 0;
        }
    }
}
#endif

#endif
