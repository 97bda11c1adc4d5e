// What becomes of packets for a queue. Part of <pointsman/dram/buffer.p4>.

#ifndef POINTSMAN_DRAM_BUFFER_QUEUE_P4
#define POINTSMAN_DRAM_BUFFER_QUEUE_P4

// All packets that are in the server, or on their way, are given up.
control BufferGiveUp(in bit<32> queue, inout buffer_queue_t q) {
    apply {
        bit<64> lost;
        buffer_lost.read(lost, queue);
        buffer_lost.write(queue, lost + (bit<64>)(q.tail - q.head));
        q.head = q.tail;
        q.written = q.tail;
        q.asked = q.tail;
    }
}

// A packet of the program for the queue's port: it goes there, if nothing is in the server and there is room, or to the server.
control BufferAdmit(inout buffer_meta_t m, inout buffer_queue_t q, inout standard_metadata_t sm) {
    apply {
        bool serves = m.peer.pair != 0 && q.dead == 0 && q.probes < BUFFER_TRIES;
        if (!serves || (q.tail == q.head && q.sent - q.left < m.room)) {
            m.step = BUFFER_TAKE;
        } else if (q.tail - q.head >= BUFFER_SLOTS) {
            buffer_counts.count(BUFFER_COUNT_FULL);
            m.step = BUFFER_DROP;
        } else if (sm.packet_length > BUFFER_PACKET) {
            buffer_counts.count(BUFFER_COUNT_LONG);
            m.step = BUFFER_DROP;
        } else {
            if (q.asked == q.head) {
                buffer_progress.write(m.queue, sm.ingress_global_timestamp);
            }
            m.number = q.tail;
            q.tail = q.tail + 1;
            m.step = BUFFER_STORE;
            sm.egress_spec = BUFFER_LOOP;
        }
    }
}

// A packet that returned to the parser is written, unless it was given up. One that is too long now is missing in the server, and lost.
control BufferWrite(inout buffer_meta_t m, inout buffer_queue_t q, in standard_metadata_t sm) {
    apply {
        bit<32> ahead = m.number - q.head;
        bit<32> new = m.number - q.written;
        m.step = BUFFER_DROP;
        if (ahead[31:31] == 0 && q.tail != q.head && m.peer.pair != 0 && sm.packet_length <= BUFFER_PACKET) {
            buffer_counts.count(BUFFER_COUNT_STORED);
            buffer_bytes.write(m.queue * BUFFER_SLOTS + BUFFER_PLACE(m.number), sm.packet_length[15:0]);
            // Packets of another worker may have overtaken it.
            if (new[31:31] == 0) {
                q.written = m.number + 1;
            }
            m.bytes = sm.packet_length;
            m.place = m.peer.base + (bit<64>)BUFFER_PLACE(m.number) * BUFFER_SLOT;
            m.psn = q.next;
            q.next = q.next + 1;
            m.step = BUFFER_WRITE;
        }
    }
}

// Asks for the next packet, if there will be room for it.
control BufferAsk(inout buffer_meta_t m, inout buffer_queue_t q, in bit<48> now, out bool asks) {
    apply {
        bit<32> reading = q.asked - q.head;
        asks = q.dead == 0 && q.probes == 0 && m.peer.pair != 0 && q.asked != q.written && reading < BUFFER_READS
            && q.sent - q.left + reading < m.room;
        if (asks) {
            bit<16> bytes;
            buffer_bytes.read(bytes, m.queue * BUFFER_SLOTS + BUFFER_PLACE(q.asked));
            // A packet that was never written: a READ that is long enough for any header.
            m.bytes = bytes < 4 ? 32w64 : (bit<32>)bytes;
            m.place = m.peer.base + (bit<64>)BUFFER_PLACE(q.asked) * BUFFER_SLOT;
            m.psn = q.next;
            q.next = q.next + 1;
            buffer_reading.write(BUFFER_READING(m.queue, q.asked), m.psn);
            q.asked = q.asked + 1;
            if (reading == 0) {
                buffer_progress.write(m.queue, now);
            }
        }
    }
}

// A generator's packet: what got no answer in time.
control BufferTick(inout buffer_meta_t m, inout buffer_queue_t q, in bit<48> now) {
    BufferGiveUp() give_up;

    apply {
        bit<48> progress;
        bit<48> moved;
        buffer_progress.read(progress, m.queue);
        buffer_moved.read(moved, m.queue);
        bit<48> silent = now - progress;
        bit<48> still = now - moved;
        m.step = BUFFER_DROP;
        if (q.sent != q.left && still > m.pause && still[47:47] == 0) {
            // The port has lost its last packets.
            buffer_counts.count(BUFFER_COUNT_HEALED);
            q.left = q.sent;
        }
        if (q.dead == 0 && m.peer.pair != 0 && silent > m.timeout && silent[47:47] == 0) {
            if (q.asked != q.head || q.probes != 0) {
                buffer_counts.count(BUFFER_COUNT_PROBE);
                if (q.probes == BUFFER_TRIES - 1) {
                    buffer_counts.count(BUFFER_COUNT_OUT);
                    give_up.apply(m.queue, q);
                }
                m.psn = q.done;
                if (q.next == q.done) {
                    q.next = q.next + 1;
                }
                if (q.probes == 0) {
                    buffer_probed.write(m.queue, q.next);
                }
                q.probes = q.probes |+| 1;
                buffer_progress.write(m.queue, now);
                m.step = BUFFER_PROBE;
            } else if (q.written == q.head) {
                // Packets that did not return to the parser: they are missing in the server.
                q.written = q.tail;
            }
        }
    }
}

#endif
