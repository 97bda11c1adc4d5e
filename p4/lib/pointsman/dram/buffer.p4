// A packet buffer in the memory of servers (docs/dram.md): the data plane, for v1model. Packets for a port that has no room wait in a server, in their order.
//
// A program declares `buffer_headers_t`, whose members it emits before all its own headers (BUFFER_EMIT), and `buffer_meta_t` in its metadata. Its parser begins
// with BufferParser; BUFFER_VERIFY and ROCE_COMPUTE are in the controls that verify and compute checksums; its egress begins with BufferDepart; its ingress is
//
//     if (!BUFFER_OWN(hdr.buffer)) {         // else an answer of a server, a packet that was processed before, or a generator's
//         ...
//     }
//     Buffer.apply(hdr.buffer, meta.buffer, standard_metadata);
//
// A packet that waits passes egress before it waits, with the port BUFFER_LOOP, and as bytes without the program's headers when it leaves. So what the program
// does with packets of these ports belongs in its ingress.
//
// The switch needs a periodic generator whose packets come in from port DRAM_GENERATOR, one for each queue in a period: each asks for one packet.

#ifndef POINTSMAN_DRAM_BUFFER_P4
#define POINTSMAN_DRAM_BUFFER_P4

#include <pointsman/dram/buffer_message.p4>
#include <pointsman/dram/buffer_queue.p4>
#include <pointsman/dram/buffer_answer.p4>

// Extracts an answer to the switch, a packet that is to be stored, or a generator's. `more` says whether the program's own headers follow.
parser BufferParser(packet_in packet,
                    out buffer_headers_t h,
                    inout buffer_meta_t m,
                    inout standard_metadata_t sm,
                    out bool more) {
    // The switch's own addresses.
    value_set<roce_address_t>(4) buffer_addresses;

    state start {
        more = true;
        m.residue = ROCE_RESIDUE;
        transition select(m.step, sm.ingress_port) {
            (BUFFER_STORE, _): whole;
            (_, DRAM_GENERATOR): generated;
            default: ethertype;
        }
    }

    state whole {
        more = false;
        transition select(sm.packet_length) {
            0 .. BUFFER_PACKET: stored;
            default: too_long;
        }
    }

    state stored {
        packet.extract(h.packet, sm.packet_length << 3);
        transition accept;
    }

    state too_long {
        h.packet.setValid();
        transition accept;
    }

    state generated {
        packet.extract(h.generated);
        more = false;
        transition accept;
    }

#define ROCE_ADDRESSES buffer_addresses
#include <pointsman/roce/states.p4>
#undef ROCE_ADDRESSES

    state roce {
        packet.extract(h.roce);
        more = false;
        transition select(h.roce.opcode) {
            ROCE_READ_ANSWER: head;
            ROCE_ACK: syndrome;
            default: accept;
        }
    }

    state syndrome {
        packet.extract(h.syndrome);
        transition accept;
    }

    // All that is behind the filling, except for the check value, is the packet, whatever the header in front of it says.
    state head {
        packet.extract(h.syndrome);
        packet.extract(h.head);
        transition select(h.head.bytes[1:0]) {
            0: kept;
            1: fill3;
            2: fill2;
            3: fill1;
        }
    }

#define ROCE_FILLED kept
#include <pointsman/roce/fill.p4>
#undef ROCE_FILLED

    state kept {
        bit<2> fill = 0 - h.head.bytes[1:0];
        bit<32> front = ROCE_BYTES + 4 + BUFFER_HEAD_BYTES + 4;
        packet.extract(h.packet, (sm.packet_length - front - (bit<32>)fill) << 3);
        transition accept;
    }
}

// Last in ingress: packets to ports with a queue go there, or to its server and back.
control Buffer(inout buffer_headers_t h, inout buffer_meta_t m, inout standard_metadata_t sm) {
    DramPeer() peer;
    BufferAdmit() admit;
    BufferWrite() write;
    BufferAnswer() answer;
    BufferTick() tick;
    BufferAsk() ask;

    // The switch's own addresses; after how many timestamp ticks without an answer the server is asked whether it answers.
    action configure(roce_address_t address, bit<48> mac, bit<48> timeout) {
        m.address = address;
        m.mac = mac;
        m.timeout = timeout;
    }

    table buffer_config {
        actions = { configure; }
        default_action = configure(0, 0, 0);
        size = 1;
    }

    action queued(bit<32> queue) {
        m.queue = queue;
    }

    action not_queued() {
        m.queue = BUFFER_QUEUES;
    }

    // The queue of a port.
    table buffer_ports {
        key = { sm.egress_spec: exact @name("port"); }
        actions = { queued; not_queued; }
        default_action = not_queued;
        size = BUFFER_QUEUES;
    }

    // The port; how many packets may be in its queue in the switch, with those that are asked for; after how many ticks in which none leaves there are none.
    action queue(bit<9> port, bit<32> room, bit<48> pause) {
        m.has_queue = true;
        m.port = port;
        m.room = room;
        m.pause = pause;
    }

    action no_queue() {
        m.has_queue = false;
    }

    table buffer_queues {
        key = { m.queue: exact @name("queue"); }
        actions = { queue; no_queue; }
        default_action = no_queue;
        size = BUFFER_QUEUES;
    }

    apply {
        buffer_queue_t q;
        bit<48> now = sm.ingress_global_timestamp;
        bool stores = m.step == BUFFER_STORE;
        bool own = BUFFER_OWN(h);
        buffer_config.apply();
        if (!own) {
            buffer_ports.apply();
        } else if (h.roce.isValid()) {
            m.queue = (bit<32>)(h.roce.pair - BUFFER_FIRST_PAIR);
        } else if (h.generated.isValid()) {
            m.queue = (bit<32>)h.generated.packet;
        }
        buffer_queues.apply();
        if (m.queue >= BUFFER_QUEUES) {
            m.queue = 0;
            m.has_queue = false;
        }
        peer.apply(m.queue, m.peer);
        m.sent = 0;
        if (own && (!m.has_queue || (h.roce.isValid() && !DRAM_IS_ANSWER(h, m.peer, sm)))) {
            if (h.roce.isValid()) {
                buffer_counts.count(BUFFER_COUNT_BAD);
            }
            m.step = BUFFER_DROP;
        } else if (m.has_queue && sm.mcast_grp == 0) {
            @atomic {
                buffer_tail.read(q.tail, m.queue);
                buffer_written.read(q.written, m.queue);
                buffer_asked.read(q.asked, m.queue);
                buffer_head.read(q.head, m.queue);
                buffer_sent.read(q.sent, m.queue);
                buffer_left.read(q.left, m.queue);
                buffer_next.read(q.next, m.queue);
                buffer_done.read(q.done, m.queue);
                buffer_probes.read(q.probes, m.queue);
                buffer_dead.read(q.dead, m.queue);
                if (!own) {
                    admit.apply(m, q, sm);
                } else if (stores) {
                    write.apply(m, q, sm);
                } else if (h.roce.isValid()) {
                    answer.apply(h, m, q, now);
                } else {
                    tick.apply(m, q, now);
                }
                if (m.step == BUFFER_TAKE) {
                    if (q.sent == q.left) {
                        buffer_moved.write(m.queue, now);
                    }
                    q.sent = q.sent + 1;
                    m.sent = q.sent;
                }
                // Each packet of the library sends a READ, except for one that leaves otherwise.
                if (own && (m.step == BUFFER_TAKE || m.step == BUFFER_DROP) && !stores) {
                    bool asks;
                    ask.apply(m, q, now, asks);
                    if (asks) {
                        m.step = m.step == BUFFER_TAKE ? BUFFER_CLONE : BUFFER_READ;
                    }
                }
                buffer_tail.write(m.queue, q.tail);
                buffer_written.write(m.queue, q.written);
                buffer_asked.write(m.queue, q.asked);
                buffer_head.write(m.queue, q.head);
                buffer_sent.write(m.queue, q.sent);
                buffer_left.write(m.queue, q.left);
                buffer_next.write(m.queue, q.next);
                buffer_done.write(m.queue, q.done);
                buffer_probes.write(m.queue, q.probes);
                buffer_dead.write(m.queue, q.dead);
            }
        }
        if (m.step == BUFFER_DROP) {
            mark_to_drop(sm);
        } else if (m.step == BUFFER_WRITE || m.step == BUFFER_READ || m.step == BUFFER_PROBE) {
            sm.egress_spec = m.peer.port;
        } else if (m.step == BUFFER_TAKE || m.step == BUFFER_CLONE) {
            sm.egress_spec = m.port;
            if (m.step == BUFFER_CLONE) {
                clone_preserving_field_list(CloneType.I2E, m.peer.session, DRAM_LIST);
            }
        }
    }
}

#include <pointsman/dram/buffer_depart.p4>

#endif
