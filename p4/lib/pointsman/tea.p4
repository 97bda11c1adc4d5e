// Tables in the memory of servers (docs/tea.md): the data plane, for v1model.
//
// A program defines, before it includes this file, the bytes of a key and of its value, multiples of four:
//
//     #define TEA_KEY_BYTES 16
//     #define TEA_VALUE_BYTES 8
//     #include <pointsman/tea.p4>
//
// It declares `tea_headers_t`, whose members it emits before all its own headers (TEA_EMIT), and `tea_meta_t` in its metadata. Its parser begins
// with TeaParser; TEA_VERIFY and TEA_COMPUTE are in the controls that verify and compute checksums; its egress is TeaDepart; its ingress is
//
//     TeaArrive.apply(...)                   // answers of servers
//     if (tea.step == TEA_PROGRAM) {
//         tea.key = ...;
//         TeaFind.apply(...)
//         if (tea.step == TEA_PROGRAM) {
//             ...                            // tea.found, tea.value
//         }
//         TeaLoad.apply(...)                 // if packets of the program leave by servers' ports, too
//     }
//
// A packet whose entry is in a server passes at least twice: what the program does before TeaFind happens again when the packet has waited for a credit, and
// when the entry is here. The port that the packet came in by is `tea.in_port`.
//
// With `#define TEA_INLINE` the servers' memory has the paper's layout, where a look-up takes one WRITE and one READ; else it has scratchpads in turn.
//
// With `#define TEA_IPV6` the way to the servers is RoCEv2 over IPv6 in the place of IPv4.
//
// With `#define TEA_CACHE 1024` the switch also has a cache of so many entries; the control plane fills it with the keys that the data plane reports.
//
// With replicas the switch needs two generators as which packets come in from port TEA_GENERATOR: number TEA_PORT_DOWN for ports that go down, and another,
// periodic one with a packet for each queue pair, by which servers that were out are found again.

#ifndef POINTSMAN_TEA_P4
#define POINTSMAN_TEA_P4

#include <pointsman/tea/message.p4>
#ifdef TEA_CACHE
#include <pointsman/tea/cache.p4>
#endif

#define TEA_EMIT(packet, h)     \
    packet.emit(h.roce);        \
    packet.emit(h.remote);      \
    packet.emit(h.syndrome);    \
    packet.emit(h.scratch);     \
    packet.emit(h.fill1);       \
    packet.emit(h.fill2);       \
    packet.emit(h.cells);       \
    packet.emit(h.packet);      \
    packet.emit(h.check)

// Whether a queue pair at a port serves, and takes another look-up now.
control TeaServes(in bit<48> begun,
                  in bit<48> patience,
                  in bit<32> pair,
                  in bit<9> port,
                  out bool serves,
                  out bool has_credit) {
    apply {
        bit<8> dead;
        bit<8> is_out;
        bit<8> probed;
        bit<32> next;
        bit<32> done;
        bit<48> progress;
        tea_dead.read(dead, pair);
        tea_out.read(is_out, (bit<32>)port);
        tea_probed.read(probed, pair);
        tea_next.read(next, pair);
        tea_done.read(done, pair);
        tea_progress.read(progress, pair);
        bit<24> in_flight = next[23:0] - done[23:0];
        bit<48> silent = begun - progress;
        if (is_out == 0 && in_flight != 0 && silent > patience && silent[47:47] == 0) {
            tea_counts.count(TEA_COUNT_OUT);
            tea_out.write((bit<32>)port, 1);
            is_out = 1;
        }
        serves = dead == 0 && is_out == 0 && probed == 0;
        has_credit = in_flight <= TEA_REQUESTS * (TEA_CREDITS - 1);
    }
}

// The colour of the link to a server for a look-up, which the meter counts. A short packet is green where a longer one is not, so what ordinary packets had a
// moment ago counts, too.
control TeaColour(in bit<9> port, in bit<48> now, in bit<48> patience, out bit<2> colour) {
    apply {
        bit<48> red;
        bit<48> yellow;
        tea_load.execute_meter((bit<32>)port, colour);
        tea_red.read(red, (bit<32>)port);
        tea_yellow.read(yellow, (bit<32>)port);
        if (red != 0 && now - red < patience) {
            colour = 2;
        } else if (yellow != 0 && now - yellow < patience && colour == 0) {
            colour = 1;
        }
    }
}

// Asks a server that is out whether it answers again: a WRITE of nothing, with a number that it may already have. Its acknowledgment names the one
// that it expects.
control TeaProbe(inout tea_meta_t m, inout standard_metadata_t sm) {
    apply {
        bit<8> is_out;
        bit<8> probed;
        bit<32> next;
        bit<32> done;
        bit<48> progress;
        tea_out.read(is_out, (bit<32>)m.peer_port);
        tea_probed.read(probed, m.pair);
        tea_next.read(next, m.pair);
        tea_done.read(done, m.pair);
        tea_progress.read(progress, m.pair);
        bit<48> silent = sm.ingress_global_timestamp - progress;
        if ((is_out == 1 || probed == 1) && (next == done || silent > m.timeout)) {
            tea_counts.count(TEA_COUNT_PROBE);
            tea_probed.write(m.pair, 1);
            m.psn = done[23:0];
            tea_next.write(m.pair, (bit<32>)(m.psn + 1));
            tea_progress.write(m.pair, sm.ingress_global_timestamp);
            m.step = TEA_PROBE;
            sm.egress_spec = m.peer_port;
        } else {
            m.step = TEA_DROP;
        }
    }
}

// Takes numbers and a scratchpad for a look-up, or lets the packet wait.
control TeaRequest(inout tea_meta_t m, inout standard_metadata_t sm) {
    apply {
        bit<32> next;
        bit<32> done;
        bit<48> progress;
        tea_next.read(next, m.pair);
        tea_done.read(done, m.pair);
        tea_progress.read(progress, m.pair);
        bit<24> psn = next[23:0];
        bit<24> in_flight = psn - done[23:0];
        // Packets that have waited have an earlier time.
        bit<48> silent = m.begun - progress;
        m.ask = 0;
        if (in_flight != 0 && silent > m.timeout && silent[47:47] == 0) {
            // A request, an answer, or the report of a gap is lost. The numbers begin again behind the last answer; the server's acknowledgment
            // to a number that it already has shows which one it expects.
            tea_counts.count(TEA_COUNT_TIMEOUT);
            psn = done[23:0];
            in_flight = 0;
            m.ask = 1;
        }
        if (in_flight > TEA_REQUESTS * (TEA_CREDITS - 1)) {
            if (m.waits < TEA_WAITS && m.wait_port != 0) {
                tea_counts.count(TEA_COUNT_WAITED);
                m.waits = m.waits + 1;
                m.step = TEA_WAIT;
                sm.egress_spec = m.wait_port;
            } else {
                tea_counts.count(TEA_COUNT_CREDIT);
                m.step = TEA_DROP;
            }
        } else {
            bit<32> slot = (m.pair << 6) + (bit<32>)psn[5:0];
            bit<32> tag;
            tea_tags.read(tag, m.pair);
            tag = tag + 1;
            tea_tags.write(m.pair, tag);
            tea_lookups.write(slot, TEA_ASKED ++ psn);
            tea_begun.write(slot, m.begun);
            tea_tag.write(slot, tag);
            tea_keys.write(slot, m.key);
            tea_homes.write(slot, m.home);
            tea_next.write(m.pair, (bit<32>)(psn + TEA_REQUESTS));
            if (in_flight == 0) {
                tea_progress.write(m.pair, m.begun);
            }
            m.psn = psn;
            m.tag = tag[30:0];
            m.bytes = sm.packet_length;
            sm.mcast_grp = m.group;
            tea_counts.count(TEA_COUNT_SENT);
        }
    }
}

// The entry of a key in a window.
control TeaSearch(in tea_cells_t c, in tea_key_t key, out bit<8> state, out tea_value_t value) {
    apply {
        bit<32> check = 0;
        value = 0;
        if (c.key0 == key && c.check0[0:0] == 1) {
            check = c.check0;
            value = c.value0;
        } else if (c.key1 == key && c.check1[0:0] == 1) {
            check = c.check1;
            value = c.value1;
        } else if (c.key2 == key && c.check2[0:0] == 1) {
            check = c.check2;
            value = c.value2;
        } else if (c.key3 == key && c.check3[0:0] == 1) {
            check = c.check3;
            value = c.value3;
        } else if (c.key4 == key && c.check4[0:0] == 1) {
            check = c.check4;
            value = c.value4;
        } else if (c.key5 == key && c.check5[0:0] == 1) {
            check = c.check5;
            value = c.value5;
        } else if (c.key6 == key && c.check6[0:0] == 1) {
            check = c.check6;
            value = c.value6;
        } else if (c.key7 == key && c.check7[0:0] == 1) {
            check = c.check7;
            value = c.value7;
        }
        if (check == 0) {
            state = TEA_ABSENT;
        } else {
            bit<32> expected;
            hash(expected, HashAlgorithm.crc32, 32w0, { key, value }, 64w0x100000000);
            state = (expected | 1) == check ? TEA_FOUND : TEA_TORN;
        }
    }
}

#ifdef TEA_INLINE
#include <pointsman/tea/inline.p4>
#endif

// A server's answer ends that it is out.
control TeaAlive(in bit<32> pair, in bit<9> port) {
    apply {
        tea_out.write((bit<32>)port, 0);
        tea_probed.write(pair, 0);
    }
}

// An answer of a server, with the right check value.
control TeaAnswer(inout tea_headers_t h, inout tea_meta_t m, inout standard_metadata_t sm) {
#ifdef TEA_INLINE
    TeaTakeRow() take_row;
#else
    TeaSearch() search;
#endif
    TeaAlive() alive;

    apply {
        bit<32> next;
        bit<32> done;
        tea_next.read(next, m.pair);
        tea_done.read(done, m.pair);
        bit<24> in_flight = next[23:0] - done[23:0];
        bit<24> end = h.roce.psn + 1;
        if (h.syndrome.syndrome == TEA_NAK_SEQUENCE) {
            end = h.roce.psn;
        }
        bit<24> advance = end - done[23:0];
        m.step = TEA_DROP;
        if (advance[23:23] == 1) {
            tea_counts.count(TEA_COUNT_LATE);
        } else if (h.roce.opcode == TEA_ACK && h.syndrome.syndrome == TEA_NAK_SEQUENCE) {
            // The server has all before `end`, and waits for that number.
            tea_counts.count(TEA_COUNT_GAP);
            alive.apply(m.pair, m.peer_port);
            tea_next.write(m.pair, (bit<32>)end);
            tea_done.write(m.pair, (bit<32>)end);
        } else if (h.syndrome.syndrome[7:5] != 0) {
            tea_counts.count(TEA_COUNT_DEAD);
            tea_dead.write(m.pair, h.syndrome.syndrome);
        } else if (h.roce.opcode == TEA_ACK) {
            alive.apply(m.pair, m.peer_port);
            if (advance > in_flight) {
                tea_next.write(m.pair, (bit<32>)end);
            }
            tea_done.write(m.pair, (bit<32>)end);
            tea_progress.write(m.pair, sm.ingress_global_timestamp);
        } else {
#ifdef TEA_INLINE
            bit<24> first = h.roce.psn - 1;
#else
            bit<24> first = h.roce.psn - (h.cells.isValid() ? 24w1 : 2);
#endif
            bit<32> slot = (m.pair << 6) + (bit<32>)first[5:0];
            bit<32> lookup;
            bit<48> begun;
            bit<32> tag;
            tea_lookups.read(lookup, slot);
            tea_begun.read(begun, slot);
            tea_tag.read(tag, slot);
            bit<8> state = lookup[31:24];
            if (advance > in_flight || state == TEA_NONE || lookup[23:0] != first
                || sm.ingress_global_timestamp - begun > m.timeout) {
                tea_counts.count(TEA_COUNT_LATE);
            } else {
                alive.apply(m.pair, m.peer_port);
                tea_done.write(m.pair, (bit<32>)end);
                tea_progress.write(m.pair, sm.ingress_global_timestamp);
#ifdef TEA_INLINE
                take_row.apply(h, m, slot, first, tag[30:0]);
#else
                if (h.cells.isValid()) {
                    bit<32> home;
                    tea_key_t key;
                    tea_homes.read(home, slot);
                    tea_keys.read(key, slot);
                    if (home != h.cells.index0) {
                        tea_counts.count(TEA_COUNT_WINDOW);
                    } else if (state == TEA_ASKED) {
                        search.apply(h.cells, key, state, m.value);
                        tea_values.write(slot, m.value);
                        tea_lookups.write(slot, state ++ first);
                    } else {
                        tea_counts.count(TEA_COUNT_LATE);
                    }
                } else {
                    tea_lookups.write(slot, TEA_NONE ++ first);
                    if (tag[30:0] != h.scratch.tag) {
                        tea_counts.count(TEA_COUNT_FOREIGN);
                    } else if (state == TEA_ASKED || state == TEA_TORN) {
                        tea_counts.count(TEA_COUNT_CELLS);
                    } else {
                        tea_values.read(m.value, slot);
                        m.answer = state;
                        m.step = TEA_BACK;
                    }
                }
#endif
            }
        }
    }
}

// First in ingress: takes the servers' answers, and sends the packets that need one.
control TeaArrive(inout tea_headers_t h, inout tea_meta_t m, inout standard_metadata_t sm) {
    TeaServes() pair_serves;
    TeaColour() link;
    TeaProbe() probe;
    TeaRequest() request;
    TeaAnswer() answer;

    // The switch's own addresses; the cells of all servers; after how many timestamp ticks an answer is too late; the port whose queue
    // lets packets wait for a credit, 0 for none.
    action configure(tea_address_t address, bit<48> mac, bit<32> cells, bit<48> timeout, bit<9> wait_port) {
        m.address = address;
        m.mac = mac;
        m.all_cells = cells;
        m.timeout = timeout;
        m.wait_port = wait_port;
    }

    table tea_config {
        actions = { configure; }
        default_action = configure(0, 0, 1, 0, 0);
        size = 1;
    }

    // The queue pairs of a server begin with this one; their number less one, a power of two less one.
    action server(bit<32> first_pair, bit<32> pair_mask) {
        m.first_pair = first_pair;
        m.pair_mask = pair_mask;
    }

    // The same with a replica in another server: ports of both; ticks without an answer after which the server is out, less than `timeout`; the replica's
    // first queue pair, of as many, address of its cells, and the first cell.
    action replicated(bit<32> first_pair,
                      bit<32> pair_mask,
                      bit<9> port,
                      bit<48> patience,
                      bit<32> replica_pair,
                      bit<9> replica_port,
                      bit<64> replica_cells,
                      bit<32> start) {
        m.first_pair = first_pair;
        m.pair_mask = pair_mask;
        m.replicated = true;
        m.first_port = port;
        m.patience = patience;
        m.replica_pair = replica_pair;
        m.replica_port = replica_port;
        m.replica_cells = replica_cells;
        m.replica_start = start;
    }

    action no_server() {
        m.step = TEA_DROP;
    }

    // Which server holds the window that begins with a cell.
    table tea_servers {
        key = { m.home: range @name("cell"); }
        actions = { server; replicated; no_server; }
        default_action = no_server;
        size = 64;
    }

    // The server's queue pair, MAC address and IP address; the port to the server; a multicast group with a replica for each request
    // to this port, of instances 1, 2 and, without TEA_INLINE, 3; the key of its region; the addresses of its cells and of this queue pair's scratchpads, which
    // TEA_INLINE does not use; its first cell.
    action peer(bit<24> pair,
                bit<48> mac,
                tea_address_t address,
                bit<9> port,
                bit<16> group,
                bit<32> region,
                bit<64> cells,
                bit<64> ring,
                bit<32> start) {
        m.peer = pair;
        m.peer_mac = mac;
        m.peer_address = address;
        m.peer_port = port;
        m.group = group;
        m.region = region;
        m.cells = cells;
        m.ring = ring;
        m.start = start;
    }

    action no_peer() {
        m.peer = 0;
    }

    table tea_pairs {
        key = { m.pair: exact @name("pair"); }
        actions = { peer; no_peer; }
        default_action = no_peer;
        size = TEA_PAIRS;
    }

    apply {
        tea_config.apply();
        bool asks = m.step == TEA_SEND;
        bool answers = h.roce.isValid();
        bool generated = h.generated.isValid();
        bool is_replica = false;
        if (!asks && !answers && !generated) {
            if (!m.again) {
                m.in_port = sm.ingress_port;
                m.begun = sm.ingress_global_timestamp;
                m.again = true;
            }
        } else {
            if (asks) {
                tea_servers.apply();
                m.pair = m.first_pair + (TEA_PLACE(m.home) & m.pair_mask);
                if (m.replicated) {
                    bit<32> other = m.replica_pair + (TEA_PLACE(m.home) & m.pair_mask);
                    bool serves;
                    bool has_credit;
                    bit<2> colour = 0;
                    pair_serves.apply(m.begun, m.patience, m.pair, m.first_port, serves, has_credit);
                    bool is_ready = serves && has_credit;
                    bit<48> now = sm.ingress_global_timestamp;
                    if (is_ready) {
                        link.apply(m.first_port, now, m.patience, colour);
                    }
                    if (!is_ready || colour != 0) {
                        bit<2> other_colour = 3;
                        pair_serves.apply(m.begun, m.patience, other, m.replica_port, serves, has_credit);
                        if (serves && has_credit) {
                            link.apply(m.replica_port, now, m.patience, other_colour);
                        }
                        // While the link is red, the packet waits for the replica's credit as long as it may.
                        bool waits = colour == 2 && !has_credit && m.waits < TEA_WAITS && m.wait_port != 0;
                        is_replica = serves && (!is_ready || other_colour < colour || waits);
                        if (is_replica) {
                            m.pair = other;
                        }
                        if (is_replica && is_ready && has_credit) {
                            tea_counts.count(TEA_COUNT_LOADED);
                        }
                    }
                }
            } else if (answers) {
                m.pair = (bit<32>)(h.roce.pair - TEA_FIRST_PAIR);
            } else {
                m.pair = (bit<32>)h.generated.packet;
            }
            tea_pairs.apply();
            bit<8> dead;
            tea_dead.read(dead, m.pair);
            if (asks) {
                if (m.step == TEA_DROP || m.peer == 0 || dead != 0) {
                    tea_counts.count(TEA_COUNT_SERVER);
                    m.step = TEA_DROP;
                } else {
                    if (is_replica) {
                        m.cells = m.replica_cells;
                        m.start = m.replica_start;
                    }
                    @atomic {
                        request.apply(m, sm);
                    }
                    if (is_replica && m.step == TEA_SEND) {
                        tea_counts.count(TEA_COUNT_REPLICA);
                    }
                }
            } else if (generated) {
                if (h.generated.generator == TEA_PORT_DOWN) {
                    tea_counts.count(TEA_COUNT_OUT);
                    tea_out.write((bit<32>)h.generated.port, 1);
                    m.step = TEA_DROP;
                } else if (m.peer == 0 || dead != 0) {
                    m.step = TEA_DROP;
                } else {
                    @atomic {
                        probe.apply(m, sm);
                    }
                }
            } else if (m.peer == 0 || dead != 0 || h.roce.src != m.peer_address || sm.ingress_port != m.peer_port
                       || sm.checksum_error == 1 || sm.parser_error != error.NoError || !h.syndrome.isValid()) {
                tea_counts.count(TEA_COUNT_BAD);
                m.step = TEA_DROP;
            } else {
                @atomic {
                    answer.apply(h, m, sm);
                }
            }
            if (m.step == TEA_DROP) {
                mark_to_drop(sm);
            } else if (m.step == TEA_BACK) {
                m.again = true;
                m.in_port = h.scratch.port;
                m.bytes = (bit<32>)h.scratch.bytes;
                h.roce.setInvalid();
                h.syndrome.setInvalid();
                h.cells.setInvalid();
                h.scratch.setInvalid();
                h.fill1.setInvalid();
                h.fill2.setInvalid();
                sm.egress_spec = TEA_LOOP;
            }
        }
    }
}

// Counts a packet for the load of the port by which it leaves.
control TeaLoad(in standard_metadata_t sm) {
    apply {
        bit<2> colour;
        bit<32> port = (bit<32>)sm.egress_spec;
        tea_load.execute_meter(port, colour);
        if (colour != 0) {
            tea_yellow.write(port, sm.ingress_global_timestamp);
        }
        if (colour == 2) {
            tea_red.write(port, sm.ingress_global_timestamp);
        }
    }
}

// Finds the entry of `key`, or asks a server for it.
control TeaFind(inout tea_meta_t m, inout standard_metadata_t sm) {
    // An entry that the switch holds.
    action stashed(tea_value_t value) {
        m.found = true;
        m.value = value;
    }

    // A key without an entry, whatever the servers say.
    action removed() {
        m.found = false;
    }

    table tea_stash {
        key = { m.key: exact @name("key"); }
        actions = { stashed; removed; NoAction; }
        const default_action = NoAction;
        size = TEA_STASH;
    }

#ifdef TEA_CACHE
    TeaPopular() popular;
    direct_counter(CounterType.packets) tea_hits;

    // An entry that is asked for often.
    action cached(tea_value_t value) {
        m.found = true;
        m.value = value;
    }

    // A key without an entry that is asked for often.
    action absent() {
        m.found = false;
    }

    table tea_cache {
        key = { m.key: exact @name("key"); }
        actions = { cached; absent; NoAction; }
        const default_action = NoAction;
        counters = tea_hits;
        size = TEA_CACHE;
    }
#endif

    apply {
        // Also for the packet that comes back from a server: an entry that was changed or moved meanwhile is here.
        if (tea_stash.apply().hit) {
            tea_counts.count(TEA_COUNT_STASH);
#ifdef TEA_CACHE
        } else if (tea_cache.apply().hit) {
            tea_counts.count(TEA_COUNT_CACHE);
#endif
        } else if (m.answer == TEA_FOUND) {
            tea_counts.count(TEA_COUNT_FOUND);
            m.found = true;
        } else if (m.answer == TEA_ABSENT) {
            tea_counts.count(TEA_COUNT_ABSENT);
            m.found = false;
        } else if (sm.packet_length > TEA_PACKET) {
            tea_counts.count(TEA_COUNT_LONG);
            m.step = TEA_DROP;
            mark_to_drop(sm);
        } else {
#ifdef TEA_CACHE
            // Packets that have waited were counted before.
            if (m.waits == 0) {
                popular.apply(m.key, m.begun);
            }
#endif
            hash(m.home, HashAlgorithm.crc32, 32w0, { m.key }, (bit<64>)TEA_PLACE(m.all_cells));
#ifdef TEA_INLINE
            m.home = m.home << 2;
#endif
            m.step = TEA_SEND;
            resubmit_preserving_field_list(TEA_LIST);
        }
    }
}

// Egress: makes the requests of a look-up, or a probe; packets that came back, or have waited, return to the parser.
control TeaDepart(inout tea_headers_t h, inout tea_meta_t m, inout standard_metadata_t sm) {
    apply {
        if (m.step == TEA_SEND || m.step == TEA_PROBE) {
            bit<2> fill = 0 - m.bytes[1:0];
            bit<32> data = TEA_SCRATCH_BYTES + (bit<32>)fill + m.bytes;
            h.remote.setValid();
#ifdef TEA_INLINE
            bit<64> row = m.cells + (bit<64>)TEA_PLACE((m.home - m.start)) * TEA_ROW_BYTES;
            h.remote.address = row + TEA_WINDOW * TEA_CELL_BYTES;
#else
            // Not by sequence number: a number is used again while a READ of its earlier use may be under way.
            h.remote.address = m.ring + (bit<64>)m.tag[5:0] * TEA_SLOT;
#endif
            h.remote.key = m.region;
            h.remote.bytes = data;
            h.roce.setValid();
            h.roce.opcode = TEA_READ;
            h.roce.ask = 0;
            bit<32> length = TEA_ROCE_BYTES + 16 + 4;
            if (m.step == TEA_PROBE) {
#ifdef TEA_INLINE
                h.remote.address = m.cells;
#endif
                h.remote.bytes = 0;
                h.roce.opcode = TEA_WRITE;
                h.roce.psn = m.psn;
                h.roce.ask = 0x80;
                truncate(length);
            } else if (sm.egress_rid == 1) {
                h.roce.opcode = TEA_WRITE;
                h.roce.psn = m.psn;
                h.roce.ask = m.ask ++ 7w0;
                h.scratch.setValid();
                h.scratch.is_scratch = 1;
                h.scratch.tag = m.tag;
                h.scratch.unused = 0;
                h.scratch.port = m.in_port;
                h.scratch.bytes = m.bytes[15:0];
                if (fill[0:0] == 1) {
                    h.fill1.setValid();
                    h.fill1.zero = 0;
                }
                if (fill[1:1] == 1) {
                    h.fill2.setValid();
                    h.fill2.zero = 0;
                }
#ifdef TEA_INLINE
                hash(h.scratch.sum, HashAlgorithm.crc32, 32w0, { TEA_KEPT(h) }, 64w0x100000000);
#endif
                length = length + data;
#ifdef TEA_INLINE
            } else {
                h.packet.setInvalid();
                h.roce.psn = m.psn + 1;
                h.remote.address = row;
                h.remote.bytes = TEA_WINDOW * TEA_CELL_BYTES + data;
            }
#else
            } else if (sm.egress_rid == 2) {
                h.packet.setInvalid();
                h.roce.psn = m.psn + 1;
                h.remote.address = m.cells + (bit<64>)(m.home - m.start) * TEA_CELL_BYTES;
                h.remote.bytes = TEA_WINDOW * TEA_CELL_BYTES;
            } else {
                h.packet.setInvalid();
                h.roce.psn = m.psn + 2;
            }
#endif
            h.roce.mac_dst = m.peer_mac;
            h.roce.mac_src = m.mac;
            TEA_SET_IP(h.roce, length[15:0]);
            h.roce.ttl = 64;
            h.roce.proto = 17;
            h.roce.src = m.address;
            h.roce.dst = m.peer_address;
            h.roce.sport = 0xc000 | m.pair[15:0];
            h.roce.dport = TEA_PORT;
            h.roce.udp_len = length[15:0] - TEA_IP_BYTES;
            h.roce.udp_checksum = 0;
            h.roce.padding = 0;
            h.roce.partition = 0xffff;
            h.roce.marks = 0;
            h.roce.pair = m.peer;
            bit<32> sum;
            hash(sum, HashAlgorithm.crc32, 32w0,
                 { TEA_COVERED(h.roce), h.remote, h.scratch, h.fill1, h.fill2, h.packet }, 64w0x100000000);
            h.check.setValid();
            h.check.value = sum[7:0] ++ sum[15:8] ++ sum[23:16] ++ sum[31:24];
#ifdef TEA_IPV6
            // The check value does not depend on it.
            hash(h.roce.udp_checksum, HashAlgorithm.csum16, 16w0,
                 { TEA_SUMMED(h.roce), h.remote, h.scratch, h.fill1, h.fill2, h.packet, h.check }, 32w0x10000);
            if (h.roce.udp_checksum == 0) {
                h.roce.udp_checksum = 0xffff;
            }
#endif
        } else if (m.step == TEA_BACK || m.step == TEA_WAIT) {
            if (m.step == TEA_BACK) {
                truncate(m.bytes);
            }
            m.step = TEA_PROGRAM;
            m.begun = sm.egress_global_timestamp;
            recirculate_preserving_field_list(TEA_LIST);
        }
    }
}

#endif
