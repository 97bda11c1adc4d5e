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
// when the entry is here. Headers and metadata begin again with the packet. Other effects there, such as those on counters and registers, are an error of the
// program (P0611), unless they are in `@repeatable { ... }`. Behind TeaFind they belong into the branch of TEA_PROGRAM: elsewhere they happen in each pass, which is
// not reported. The port that the packet came in by is `tea.in_port`.
//
// With `#define TEA_INLINE` the servers' memory has the paper's layout, where a look-up takes one WRITE and one READ; else it has scratchpads in turn.
//
// With `#define TEA_IPV6` the way to the servers is RoCEv2 over IPv6 in the place of IPv4.
//
// With `#define TEA_CACHE 1024` the switch also has a cache of so many entries; the control plane fills it with the keys that the data plane reports.
//
// With `#define TEA_TABLES` a program has several tables, told apart by the first byte of a key, which TEA_KEY puts in front. It applies TeaFindAll in the place of
// TeaFind: `tea.key` and, with `tea.has_key2`, `tea.key2` are found in one round trip, with the results in `tea.found`, `tea.value`, `tea.found2` and `tea.value2`. For keys
// that depend on these it applies TeaNext: then its pass begins again, with `tea.round` one higher and what it wrote to `tea.note`.
//
// With replicas the switch needs two generators as which packets come in from port TEA_GENERATOR: number TEA_PORT_DOWN for ports that go down, and another,
// periodic one with a packet for each queue pair, by which servers that were out are found again.

#ifndef POINTSMAN_TEA_P4
#define POINTSMAN_TEA_P4

#include <pointsman/tea/settings.p4>
#include <pointsman/tea/message.p4>
#include <pointsman/tea/parser.p4>
#ifdef TEA_CACHE
#include <pointsman/tea/cache.p4>
#endif
#ifdef TEA_TABLES
#include <pointsman/tea/more.p4>
#endif
#include <pointsman/tea/servers.p4>
#include <pointsman/tea/request.p4>
#include <pointsman/tea/answer.p4>
#include <pointsman/tea/find.p4>
#ifdef TEA_TABLES
#include <pointsman/tea/tables.p4>
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

// First in ingress: takes the servers' answers, and sends the packets that need one.
@repeatable
control TeaArrive(inout tea_headers_t h, inout tea_meta_t m, inout standard_metadata_t sm) {
    TeaServes() pair_serves;
    TeaColour() link;
    TeaProbe() probe;
    TeaRequest() request;
    TeaAnswer() answer;

    // The switch's own addresses; the cells of all servers; after how many timestamp ticks an answer is too late; the port whose queue
    // lets packets wait for a credit, 0 for none; the number of the first cell, another one after the table has got other servers or cells.
    action configure(tea_address_t address,
                     bit<48> mac,
                     bit<32> cells,
                     bit<48> timeout,
                     bit<9> wait_port,
                     bit<32> first) {
        m.address = address;
        m.mac = mac;
        m.all_cells = cells;
        m.timeout = timeout;
        m.wait_port = wait_port;
        m.first_cell = first;
    }

    table tea_config {
        actions = { configure; }
        default_action = configure(0, 0, 1, 0, 0, 0);
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
#ifdef TEA_TABLES
        if (m.step == TEA_NEXT) {
            m.step = TEA_PROGRAM;
        }
#endif
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
                    tea_metered.write((bit<32>)m.first_port, 1);
                    tea_metered.write((bit<32>)m.replica_port, 1);
                    pair_serves.apply(m.begun, m.patience, m.pair, m.first_port, serves, has_credit);
                    bool is_ready = serves && has_credit;
                    bit<48> now = sm.ingress_global_timestamp;
#ifdef TEA_TABLES
                    // A READ alone is short.
                    if (is_ready && m.is_alone == 0) {
#else
                    if (is_ready) {
#endif
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

#endif
