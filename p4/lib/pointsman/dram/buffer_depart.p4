// Packets of a packet buffer in egress. Part of <pointsman/dram/buffer.p4>.

#ifndef POINTSMAN_DRAM_BUFFER_DEPART_P4
#define POINTSMAN_DRAM_BUFFER_DEPART_P4

// The request of the step, without its check value.
control BufferRequest(inout buffer_headers_t h, inout buffer_meta_t m, out bit<32> length) {
    apply {
        bit<2> fill = 0 - m.bytes[1:0];
        h.roce.setValid();
        h.remote.setValid();
        h.remote.address = m.place;
        h.remote.key = m.peer.region;
        h.remote.bytes = BUFFER_HEAD_BYTES + (bit<32>)fill + m.bytes;
        length = BUFFER_REQUEST_BYTES;
        h.generated.setInvalid();
        h.syndrome.setInvalid();
        h.head.setInvalid();
        h.fill1.setInvalid();
        h.fill2.setInvalid();
        h.roce.opcode = ROCE_WRITE;
        h.roce.ask = 0;
        if (m.step == BUFFER_WRITE) {
            length = length + h.remote.bytes;
            h.head.setValid();
            h.head.number = m.number;
            h.head.queue = m.queue[15:0];
            h.head.bytes = m.bytes[15:0];
            hash(h.head.sum, HashAlgorithm.crc32, 32w0, { BUFFER_KEPT(h) }, 64w0x100000000);
            if (fill[0:0] == 1) {
                h.fill1.setValid();
                h.fill1.zero = 0;
            }
            if (fill[1:1] == 1) {
                h.fill2.setValid();
                h.fill2.zero = 0;
            }
        } else {
            h.packet.setInvalid();
            if (m.step == BUFFER_PROBE) {
                h.remote.address = m.peer.base;
                h.remote.bytes = 0;
                h.roce.ask = 0x80;
            } else {
                h.roce.opcode = ROCE_READ;
            }
        }
        ROCE_SET(h.roce, length[15:0], m.mac, m.peer.mac, m.address, m.peer.address, 0xc000 | m.queue[15:0],
                 m.peer.pair);
        h.roce.psn = m.psn;
    }
}

// First in egress: makes requests, and notes what leaves.
control BufferDepart(inout buffer_headers_t h, inout buffer_meta_t m, inout standard_metadata_t sm) {
    BufferRequest() request;

    apply {
        bool is_clone = sm.instance_type == BUFFER_IS_CLONE;
        bool takes = m.step == BUFFER_TAKE || m.step == BUFFER_CLONE;
        if (m.step == BUFFER_STORE) {
            recirculate_preserving_field_list(DRAM_LIST);
        } else if (m.step == BUFFER_WRITE || m.step == BUFFER_READ || m.step == BUFFER_PROBE
                   || (m.step == BUFFER_CLONE && is_clone)) {
            bit<32> length;
            request.apply(h, m, length);
            ROCE_SET_CHECK(h, BUFFER_SENT);
            truncate(length);
        } else if (takes && !is_clone && sm.egress_port == m.port && m.queue < BUFFER_QUEUES) {
            @atomic {
                bit<32> left;
                buffer_left.read(left, m.queue);
                bit<32> more = m.sent - left;
                if (more[31:31] == 0) {
                    buffer_left.write(m.queue, m.sent);
                }
                buffer_moved.write(m.queue, sm.egress_global_timestamp);
            }
            if (h.roce.isValid()) {
                // Only the packet, without the check value behind it.
                truncate((bit<32>)h.head.bytes);
                h.roce.setInvalid();
                h.syndrome.setInvalid();
                h.head.setInvalid();
                h.fill1.setInvalid();
                h.fill2.setInvalid();
            }
        }
    }
}

#endif
