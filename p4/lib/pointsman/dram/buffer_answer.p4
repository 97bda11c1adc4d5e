// Answers of servers to requests of a packet buffer. Part of <pointsman/dram/buffer.p4>.

#ifndef POINTSMAN_DRAM_BUFFER_ANSWER_P4
#define POINTSMAN_DRAM_BUFFER_ANSWER_P4

// The answer to a READ: the queue's first packet leaves, whichever request brought it. If the request for this packet brings what was in its slot before, it was
// never written.
control BufferTake(inout buffer_headers_t h, inout buffer_meta_t m, inout buffer_queue_t q) {
    apply {
        bit<32> sum;
        bit<24> psn;
        hash(sum, HashAlgorithm.crc32, 32w0, { BUFFER_KEPT(h) }, 64w0x100000000);
        buffer_reading.read(psn, BUFFER_READING(m.queue, q.head));
        bit<24> behind = h.roce.psn - psn;
        bool waits = q.asked != q.head;
        bool whole = h.head.isValid() && h.head.queue == m.queue[15:0] && h.head.sum == sum;
        // Numbers of requests are used again: the answer may be that to an earlier one.
        bool elsewhere = whole && BUFFER_PLACE(h.head.number) != BUFFER_PLACE(q.head);
        if (q.tail != q.head && whole && h.head.number == q.head) {
            buffer_counts.count(BUFFER_COUNT_TAKEN);
            q.head = q.head + 1;
            if (!waits) {
                q.asked = q.head;
            }
            m.step = BUFFER_TAKE;
        } else if (waits && behind == 0 && !elsewhere) {
            bit<64> lost;
            buffer_lost.read(lost, m.queue);
            buffer_lost.write(m.queue, lost + 1);
            q.head = q.head + 1;
        } else if (waits && behind[23:23] == 0) {
            buffer_counts.count(BUFFER_COUNT_AGAIN);
            q.asked = q.head;
        } else {
            buffer_counts.count(BUFFER_COUNT_LATE);
        }
    }
}

// An answer of the server.
control BufferAnswer(inout buffer_headers_t h, inout buffer_meta_t m, inout buffer_queue_t q, in bit<48> now) {
    BufferTake() take;
    BufferGiveUp() give_up;

    apply {
        bool is_read = h.roce.opcode == ROCE_READ_ANSWER;
        bool has_gap = !is_read && h.syndrome.syndrome == ROCE_NAK_SEQUENCE;
        bool refuses = !has_gap && h.syndrome.syndrome[7:5] != 0;
        bit<24> end = has_gap ? h.roce.psn : h.roce.psn + 1;
        bit<24> advance = end - q.done;
        m.step = BUFFER_DROP;
        if (refuses) {
            buffer_counts.count(BUFFER_COUNT_DEAD);
            q.dead = h.syndrome.syndrome;
            give_up.apply(m.queue, q);
        } else if (is_read) {
            bit<32> before = q.head;
            take.apply(h, m, q);
            if (q.head != before) {
                buffer_progress.write(m.queue, now);
            }
            if (advance <= q.next - q.done) {
                q.done = end;
            }
        } else if (advance[23:23] == 1) {
            buffer_counts.count(BUFFER_COUNT_LATE);
        } else {
            // The server has all before `end`, and waits for that number. If it lacks what was sent before the first question, that is lost.
            bit<24> probed;
            buffer_probed.read(probed, m.queue);
            bit<24> missing = probed - end;
            bool lacks = q.probes != 0 && missing != 0 && missing[23:23] == 0;
            if (has_gap || lacks || advance > q.next - q.done) {
                q.next = end;
            }
            if (has_gap || q.probes != 0) {
                q.asked = q.head;
            }
            if (has_gap) {
                buffer_counts.count(BUFFER_COUNT_GAP);
            }
            q.done = end;
            q.probes = 0;
        }
    }
}

#endif
