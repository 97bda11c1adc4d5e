// Counters in the memory of servers (docs/dram.md): the data plane, for v1model. It collects what is to be added to a counter in a slot of the switch, and adds
// sums to the servers' memory by FETCH_ADD.
//
// A program declares `counters_headers_t`, whose members it emits before all its own headers (COUNTERS_EMIT), and `counters_meta_t` in its metadata. Its
// parser begins with CountersParser; COUNTERS_VERIFY and ROCE_COMPUTE are in the controls that verify and compute checksums; its egress begins with CountersDepart;
// its ingress is
//
//     if (!COUNTERS_OWN(hdr.counters)) {         // else an answer of a server, or a generator's packet
//         ...
//         meta.counters.index = ...;             // the counter, and what is added to it
//         meta.counters.amount = ...;
//     }
//     Counters.apply(hdr.counters, meta.counters, standard_metadata);
//
// A sum leaves in a clone of the packet that evicts it: so a program that clones the packets that it counts in ingress needs another way to do so.
//
// The switch needs two periodic generators whose packets come in from port DRAM_GENERATOR: number COUNTERS_TICK with a packet for each queue pair, which repeats
// what got no answer, and number COUNTERS_SWEEP, each of whose packets empties a slot.

#ifndef POINTSMAN_DRAM_COUNTERS_P4
#define POINTSMAN_DRAM_COUNTERS_P4

#include <pointsman/dram/counters_message.p4>
#include <pointsman/dram/counters_collect.p4>

// Extracts an answer to the switch, or a generator's packet. `more` says whether the program's own headers follow.
parser CountersParser(packet_in packet,
                      out counters_headers_t h,
                      inout counters_meta_t m,
                      inout standard_metadata_t sm,
                      out bool more) {
    // The switch's own addresses.
    value_set<roce_address_t>(4) counters_addresses;

    state start {
        more = true;
        m.residue = ROCE_RESIDUE;
        transition select(sm.ingress_port) {
            DRAM_GENERATOR: generated;
            default: ethertype;
        }
    }

    state generated {
        packet.extract(h.generated);
        more = false;
        transition accept;
    }

#define ROCE_ADDRESSES counters_addresses
#include <pointsman/roce/states.p4>
#undef ROCE_ADDRESSES

    state roce {
        packet.extract(h.roce);
        more = false;
        transition select(h.roce.opcode) {
            ROCE_ACK: syndrome;
            ROCE_ATOMIC_ACK: original;
            default: accept;
        }
    }

    state syndrome {
        packet.extract(h.syndrome);
        transition accept;
    }

    state original {
        packet.extract(h.syndrome);
        packet.extract(h.original);
        transition accept;
    }
}

// An answer of the server. Requests are done in their order: an answer to one is an answer to all before it.
control CountersAnswer(in counters_headers_t h,
                       in bit<32> pair,
                       in bit<48> now,
                       in bit<24> next,
                       inout bit<24> sent,
                       inout bit<24> done) {
    apply {
        bool has_gap = h.roce.opcode == ROCE_ACK && h.syndrome.syndrome == ROCE_NAK_SEQUENCE;
        bool refuses = !has_gap && h.syndrome.syndrome[7:5] != 0;
        bit<24> end = h.roce.psn + 1;
        if (has_gap || refuses) {
            end = h.roce.psn;
        }
        bit<24> advance = end - done;
        if (advance > next - done || (advance == 0 && !has_gap && !refuses)) {
            counters_counts.count(COUNTERS_COUNT_LATE);
        } else {
            done = end;
            bit<24> ahead = sent - done;
            // The server waits for `end`, or has done more than was repeated so far.
            if (has_gap || ahead[23:23] == 1) {
                sent = end;
            }
            counters_progress.write(pair, now);
            if (has_gap) {
                counters_counts.count(COUNTERS_COUNT_GAP);
            }
            if (refuses) {
                counters_counts.count(COUNTERS_COUNT_DEAD);
                counters_dead.write(pair, h.syndrome.syndrome);
            }
        }
    }
}

// In ingress: collects, takes the servers' answers, and sends sums.
control Counters(inout counters_headers_t h, inout counters_meta_t m, inout standard_metadata_t sm) {
    CountersCollect() collect;
    CountersLeave() leave;
    CountersAnswer() answer;
    DramPeer() peer;

    // The switch's own addresses; after how many timestamp ticks without an answer requests are repeated; the sum with which a slot is emptied (1 or less: with each
    // packet, if there is room).
    action configure(roce_address_t address, bit<48> mac, bit<48> timeout, bit<64> limit) {
        m.address = address;
        m.mac = mac;
        m.timeout = timeout;
        m.limit = limit;
    }

    table counters_config {
        actions = { configure; }
        default_action = configure(0, 0, 0, 1);
        size = 1;
    }

    // The queue pairs of a server begin with this one; their number less one, a power of two less one; its first counter.
    action server(bit<32> first_pair, bit<32> pair_mask, bit<32> start) {
        m.pair = first_pair + (m.leaving & pair_mask);
        m.start = start;
    }

    action no_server() {
        m.pair = DRAM_PAIRS;
    }

    // Which server has a counter.
    table counters_servers {
        key = { m.leaving: range @name("index"); }
        actions = { server; no_server; }
        default_action = no_server;
        size = 64;
    }

    apply {
        bit<48> now = sm.ingress_global_timestamp;
        bool answers = h.roce.isValid();
        bool generated = h.generated.isValid();
        bool ticks = generated && h.generated.generator == COUNTERS_TICK;
        bool counts = !answers && !generated;
        counters_config.apply();
        m.leaves = false;
        m.step = COUNTERS_PROGRAM;
        @atomic {
            if (answers) {
                m.pair = (bit<32>)(h.roce.pair - COUNTERS_FIRST_PAIR);
            } else if (ticks) {
                m.pair = (bit<32>)h.generated.packet;
            } else {
                if (generated || m.amount != 0) {
                    collect.apply(h, m);
                }
                if (m.leaves) {
                    counters_servers.apply();
                }
            }
            if (m.leaves || answers || ticks) {
                bit<24> next;
                bit<24> sent;
                bit<24> done;
                bit<48> progress;
                bit<8> dead;
                bool exists = true;
                if (m.pair >= DRAM_PAIRS) {
                    m.pair = 0;
                    exists = false;
                }
                peer.apply(m.pair, m.peer);
                exists = exists && m.peer.pair != 0;
                counters_next.read(next, m.pair);
                counters_sent.read(sent, m.pair);
                counters_done.read(done, m.pair);
                counters_dead.read(dead, m.pair);
                counters_progress.read(progress, m.pair);
                bit<48> silent = now - progress;
                if (m.leaves) {
                    leave.apply(m, exists, done, next);
                } else if (ticks) {
                    if (exists && sent != done && silent > m.timeout && silent[47:47] == 0) {
                        counters_counts.count(COUNTERS_COUNT_TIMEOUT);
                        sent = done;
                    }
                } else if (exists && dead == 0 && DRAM_IS_ANSWER(h, m.peer, sm)) {
                    answer.apply(h, m.pair, now, next, sent, done);
                    counters_dead.read(dead, m.pair);
                } else {
                    counters_counts.count(COUNTERS_COUNT_BAD);
                }
                // The oldest request that is to be sent, or repeated.
                if (exists && dead == 0 && sent != next && sent - done < COUNTERS_CREDITS) {
                    bit<32> place = COUNTERS_PLACE(m.pair, sent);
                    bit<32> offset;
                    counters_place.read(offset, place);
                    counters_queued.read(m.sum, place);
                    m.place = m.peer.base + ((bit<64>)offset << 3);
                    m.psn = sent;
                    m.step = counts ? COUNTERS_CLONE : COUNTERS_SEND;
                    if (sent == done) {
                        counters_progress.write(m.pair, now);
                    }
                    sent = sent + 1;
                    counters_counts.count(COUNTERS_COUNT_SENT);
                }
                counters_next.write(m.pair, next);
                counters_sent.write(m.pair, sent);
                counters_done.write(m.pair, done);
            }
        }
        if (m.step == COUNTERS_CLONE) {
            clone_preserving_field_list(CloneType.I2E, m.peer.session, DRAM_LIST);
        } else if (m.step == COUNTERS_SEND) {
            sm.egress_spec = m.peer.port;
        } else if (!counts) {
            mark_to_drop(sm);
        }
    }
}

// First in egress: makes the request.
control CountersDepart(inout counters_headers_t h, inout counters_meta_t m, inout standard_metadata_t sm) {
    apply {
        if (m.step == COUNTERS_SEND || (m.step == COUNTERS_CLONE && sm.instance_type == COUNTERS_IS_CLONE)) {
            h.generated.setInvalid();
            h.syndrome.setInvalid();
            h.original.setInvalid();
            h.roce.setValid();
            ROCE_SET(h.roce, COUNTERS_REQUEST_BYTES, m.mac, m.peer.mac, m.address, m.peer.address,
                     0xc000 | m.pair[15:0], m.peer.pair);
            h.roce.opcode = ROCE_FETCH_ADD;
            h.roce.ask = 0x80;
            h.roce.psn = m.psn;
            h.atomic.setValid();
            h.atomic.address = m.place;
            h.atomic.key = m.peer.region;
            h.atomic.number = m.sum;
            h.atomic.compare = 0;
            ROCE_SET_CHECK(h, COUNTERS_SENT);
            truncate(COUNTERS_REQUEST_BYTES);
        }
    }
}

#endif
