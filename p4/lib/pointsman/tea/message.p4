// TEA's settings, packets with their parser, and registers. Part of <pointsman/tea.p4>, which programs include.

#ifndef POINTSMAN_TEA_MESSAGE_P4
#define POINTSMAN_TEA_MESSAGE_P4

#include <pointsman/generator.p4>

// Queue pairs of all servers together.
#ifndef TEA_PAIRS
#define TEA_PAIRS 64
#endif
// Entries that the switch itself holds.
#ifndef TEA_STASH
#define TEA_STASH 1024
#endif
// Bytes of the longest packet for which an entry is looked up.
#ifndef TEA_PACKET
#define TEA_PACKET 1514
#endif
// Bytes of a scratchpad: a header of 8 (12 with TEA_INLINE), up to 3 of filling, the packet.
#ifndef TEA_SLOT
#ifdef TEA_INLINE
#define TEA_SLOT 1536
#else
#define TEA_SLOT 2048
#endif
#endif
// Look-ups in flight in a queue pair: two READs for each, with TEA_INLINE one, where network adapters allow 16.
#ifndef TEA_CREDITS
#ifdef TEA_INLINE
#define TEA_CREDITS 16
#else
#define TEA_CREDITS 8
#endif
#endif
// How often a packet waits when a queue pair has no credit.
#ifndef TEA_WAITS
#define TEA_WAITS 3
#endif
// The port on whose way a packet returns to the parser. Nothing is sent there.
#ifndef TEA_LOOP
#define TEA_LOOP 510
#endif
#ifndef TEA_LIST
#define TEA_LIST 100
#endif
// The port as which generators' packets come in: port-down packets of TEA_PORT_DOWN; periodic ones of another number, a packet for each queue pair.
#ifndef TEA_GENERATOR
#define TEA_GENERATOR 508
#endif
#ifndef TEA_PORT_DOWN
#define TEA_PORT_DOWN 1
#endif

// With a cache (TEA_CACHE, its entries): slots of each row of the sketch, a power of two, and bits of their number; the lowest bit of the time stamp by
// which the sketch ages: an age has 2 to the power of it in ticks, of the 1 us that v1model's usually have.
#ifdef TEA_CACHE
#ifndef TEA_SKETCH
#define TEA_SKETCH 65536
#define TEA_SKETCH_BITS 16
#endif
#ifndef TEA_AGE
#define TEA_AGE 20
#endif
#endif

// Cells of a window: what one READ fetches.
#define TEA_WINDOW 8
// Scratchpads of a queue pair, and look-ups that it remembers: the lower 6 bits of a tag, and of a packet sequence number.
#define TEA_RING 64
#define TEA_CELL_BYTES (8 + TEA_KEY_BYTES + TEA_VALUE_BYTES)

// Bytes of a scratchpad's header; requests of a look-up; what chooses the queue pair and, with TEA_INLINE, the row.
#ifdef TEA_INLINE
#define TEA_SCRATCH_BYTES 12
#define TEA_REQUESTS 2
#define TEA_PLACE(home) (home >> 2)
// A row: a bucket of four cells, a copy of the next bucket, a scratchpad.
#define TEA_ROW_BYTES (TEA_WINDOW * TEA_CELL_BYTES + TEA_SLOT)
#else
#define TEA_SCRATCH_BYTES 8
#define TEA_REQUESTS 3
#define TEA_PLACE(home) home
#endif

const bit<16> TEA_PORT = 4791;
// The switch's queue pair of number 0.
const bit<24> TEA_FIRST_PAIR = 0x100;

const bit<8> TEA_WRITE = 10;
const bit<8> TEA_READ = 12;
const bit<8> TEA_READ_ANSWER = 16;
const bit<8> TEA_ACK = 17;

const bit<8> TEA_NAK_SEQUENCE = 0x60;

// Steps: what becomes of the packet.
const bit<8> TEA_PROGRAM = 0; // the program processes it
const bit<8> TEA_SEND = 1;    // it leaves in a request
const bit<8> TEA_BACK = 2;    // it came back from a server, and returns to the parser
const bit<8> TEA_WAIT = 3;    // it waits for a credit
const bit<8> TEA_DROP = 4;    // it ends here
const bit<8> TEA_PROBE = 5;   // a generator's packet: asks a server whether it answers again

// States of a look-up, and its answer.
const bit<8> TEA_NONE = 0;
const bit<8> TEA_ASKED = 1;
const bit<8> TEA_FOUND = 2;
const bit<8> TEA_ABSENT = 3;
const bit<8> TEA_TORN = 4;

// Indices of `tea_counts`.
const bit<32> TEA_COUNT_STASH = 0;   // found, or known to be absent, in the switch
const bit<32> TEA_COUNT_FOUND = 1;   // found in a server
const bit<32> TEA_COUNT_ABSENT = 2;  // absent in a server
const bit<32> TEA_COUNT_SENT = 3;    // requests to servers
const bit<32> TEA_COUNT_WAITED = 4;  // packets that waited for a credit
const bit<32> TEA_COUNT_CREDIT = 5;  // lost: no credit after all waiting
const bit<32> TEA_COUNT_LONG = 6;    // lost: longer than TEA_PACKET
const bit<32> TEA_COUNT_SERVER = 7;  // lost: no server or queue pair is configured, or it is dead
const bit<32> TEA_COUNT_CELLS = 8;   // lost: the packet came back without its cells, or while its cell was written
const bit<32> TEA_COUNT_FOREIGN = 9; // lost: another packet came back
const bit<32> TEA_COUNT_LATE = 10;   // answers that came too late, twice, or to nothing
const bit<32> TEA_COUNT_BAD = 11;    // answers with a wrong check value, malformed, or from somewhere else
const bit<32> TEA_COUNT_GAP = 12;    // gaps that servers reported
const bit<32> TEA_COUNT_TIMEOUT = 13; // credits that came back without an answer, by time
const bit<32> TEA_COUNT_DEAD = 14;   // queue pairs that servers have ended
const bit<32> TEA_COUNT_WINDOW = 15; // other windows that came back; their packets come back without cells
const bit<32> TEA_COUNT_REPLICA = 16; // requests that a replica got
const bit<32> TEA_COUNT_OUT = 17;    // servers taken out: a port went down, or nothing was answered
const bit<32> TEA_COUNT_PROBE = 18;  // questions whether a server answers again
const bit<32> TEA_COUNT_CACHE = 19;  // answered by the cache
const bit<32> TEA_COUNT_LOADED = 20; // requests that a replica got because its link has less load

#include <pointsman/tea/roce.p4>

typedef bit<(8 * TEA_KEY_BYTES)> tea_key_t;
typedef bit<(8 * TEA_VALUE_BYTES)> tea_value_t;

// The rest of a READ or WRITE request's headers.
header tea_remote_t {
    bit<64> address;
    bit<32> key;
    bit<32> bytes;
}

// Of answers.
header tea_syndrome_t {
    bit<8>  syndrome;
    bit<24> messages;
}

// In front of a packet in its scratchpad. The first bit distinguishes it from cells.
header tea_scratch_t {
    bit<1>  is_scratch;
    bit<31> tag;
    bit<7>  unused;
    bit<9>  port;
    bit<16> bytes;
#ifdef TEA_INLINE
    // CRC-32 of this header up to here, and of the packet.
    bit<32> sum;
#endif
}

// They make a scratchpad's bytes a multiple of four.
header tea_fill1_t {
    bit<8> zero;
}

header tea_fill2_t {
    bit<16> zero;
}

// A window. The first bit of an index is 0; the last bit of a check is 1 unless the cell is empty.
header tea_cells_t {
    bit<32>     index0;
    tea_key_t   key0;
    tea_value_t value0;
    bit<32>     check0;
    bit<32>     index1;
    tea_key_t   key1;
    tea_value_t value1;
    bit<32>     check1;
    bit<32>     index2;
    tea_key_t   key2;
    tea_value_t value2;
    bit<32>     check2;
    bit<32>     index3;
    tea_key_t   key3;
    tea_value_t value3;
    bit<32>     check3;
    bit<32>     index4;
    tea_key_t   key4;
    tea_value_t value4;
    bit<32>     check4;
    bit<32>     index5;
    tea_key_t   key5;
    tea_value_t value5;
    bit<32>     check5;
    bit<32>     index6;
    tea_key_t   key6;
    tea_value_t value6;
    bit<32>     check6;
    bit<32>     index7;
    tea_key_t   key7;
    tea_value_t value7;
    bit<32>     check7;
}

// The whole packet that asks for an entry.
header tea_packet_t {
    varbit<(8 * TEA_PACKET)> bytes;
}

// iCRC, least significant byte first.
header tea_check_t {
    bit<32> value;
}

struct tea_headers_t {
    // Not emitted.
    generated_t generated;
    tea_roce_t     roce;
    tea_remote_t   remote;
    tea_syndrome_t syndrome;
    tea_scratch_t  scratch;
    tea_fill1_t    fill1;
    tea_fill2_t    fill2;
    tea_cells_t    cells;
    tea_packet_t   packet;
    tea_check_t    check;
}

// In the control that verifies checksums: the CRC over an answer with its own check value is a constant.
#ifdef TEA_INLINE
#define TEA_VERIFY(h, m)                                                                                             \
    verify_checksum_with_payload(h.roce.isValid(),                                                                   \
                                 { TEA_COVERED(h.roce), h.syndrome, h.cells, h.scratch, h.fill1, h.fill2, h.packet }, \
                                 m.residue, HashAlgorithm.crc32)

// What the check value of a scratchpad covers.
#define TEA_KEPT(h) 1w1, h.scratch.tag, h.scratch.unused, h.scratch.port, h.scratch.bytes, h.packet
#else
#define TEA_VERIFY(h, m)                                                                                   \
    verify_checksum_with_payload(h.roce.isValid(),                                                         \
                                 { TEA_COVERED(h.roce), h.syndrome, h.scratch, h.fill1, h.fill2, h.cells }, \
                                 m.residue, HashAlgorithm.crc32)
#endif

struct tea_meta_t {
    @field_list(TEA_LIST)
    bit<8>      step;
    // The port that the packet came in by.
    @field_list(TEA_LIST)
    bit<9>      in_port;
    // The packet was here before: `in_port` is known.
    @field_list(TEA_LIST)
    bool        again;
    // How often the packet has waited.
    @field_list(TEA_LIST)
    bit<8>      waits;
    // When the packet began this look-up.
    @field_list(TEA_LIST)
    bit<48>     begun;
    // The answer of a server.
    @field_list(TEA_LIST)
    bit<8>      answer;
    // Set by the program before TeaFind.
    @field_list(TEA_LIST)
    tea_key_t   key;
    // After TeaFind, with step TEA_PROGRAM: whether there is an entry, and its value.
    bool        found;
    @field_list(TEA_LIST)
    tea_value_t value;
    // The first cell of the window in which the key's entry may be.
    @field_list(TEA_LIST)
    bit<32>     home;
    bit<32>     pair;
    bit<24>     psn;
    bit<31>     tag;
    bit<1>      ask;
    bit<32>     bytes;
    bit<32>     residue;
    // Of the configuration.
    tea_address_t address;
    bit<48>     mac;
    bit<32>     all_cells;
    bit<48>     timeout;
    bit<9>      wait_port;
    bit<32>     first_pair;
    bit<32>     pair_mask;
    bool        replicated;
    bit<9>      first_port;
    bit<48>     patience;
    bit<32>     replica_pair;
    bit<9>      replica_port;
    bit<64>     replica_cells;
    bit<32>     replica_start;
    bit<24>     peer;
    bit<48>     peer_mac;
    tea_address_t peer_address;
    bit<9>      peer_port;
    bit<16>     group;
    bit<32>     region;
    bit<64>     cells;
    bit<64>     ring;
    bit<32>     start;
}

// A queue pair: the next sequence number, the first one without an answer, when there was progress, the last tag, whether it is dead.
register<bit<32>>(TEA_PAIRS) tea_next;
register<bit<32>>(TEA_PAIRS) tea_done;
register<bit<48>>(TEA_PAIRS) tea_progress;
register<bit<32>>(TEA_PAIRS) tea_tags;
register<bit<8>>(TEA_PAIRS) tea_dead;

// A look-up: its state and first sequence number, when it began, tag, key, window, value.
register<bit<32>>(TEA_PAIRS * TEA_RING) tea_lookups;
register<bit<48>>(TEA_PAIRS * TEA_RING) tea_begun;
register<bit<32>>(TEA_PAIRS * TEA_RING) tea_tag;
register<tea_key_t>(TEA_PAIRS * TEA_RING) tea_keys;
register<bit<32>>(TEA_PAIRS * TEA_RING) tea_homes;
register<tea_value_t>(TEA_PAIRS * TEA_RING) tea_values;

// By port: 1 if the server there is out, because the port went down or nothing was answered, until it answers.
register<bit<8>>(512) tea_out;
// A queue pair: 1 if its server was asked whether it answers again, and has not said so.
register<bit<8>>(TEA_PAIRS) tea_probed;

// By port: the load of the link, in bytes, by two rates. Without rates it is green, as if there were none.
meter(512, MeterType.bytes) tea_load;
// By port: when an ordinary packet was yellow or red, and red.
register<bit<48>>(512) tea_yellow;
register<bit<48>>(512) tea_red;

counter(21, CounterType.packets) tea_counts;

// Extracts an answer to the switch, or a packet that is to be looked up as a whole. `more` says whether the program's own headers follow.
parser TeaParser(packet_in packet,
                 out tea_headers_t h,
                 inout tea_meta_t m,
                 inout standard_metadata_t sm,
                 out bool more) {
    // The switch's own addresses.
    value_set<tea_address_t>(4) tea_addresses;

    state start {
        more = true;
        // The CRC-32 of anything that ends with its own CRC-32, the least significant byte first.
        m.residue = 0x2144df1c;
        transition select(m.step, sm.ingress_port) {
            (TEA_SEND, _): whole;
            (_, TEA_GENERATOR): generated;
            default: ethertype;
        }
    }

    state whole {
        packet.extract(h.packet, sm.packet_length << 3);
        more = false;
        transition accept;
    }

    state generated {
        packet.extract(h.generated);
        more = false;
        transition accept;
    }

#ifdef TEA_IPV6
    state ethertype {
        transition select(packet.lookahead<bit<112>>()[15:0]) {
            0x86dd: proto;
            default: accept;
        }
    }

    state proto {
        transition select(packet.lookahead<bit<168>>()[7:0]) {
            17: udp;
            default: accept;
        }
    }

    state udp {
        transition select(packet.lookahead<bit<464>>()[15:0]) {
            TEA_PORT: address;
            default: accept;
        }
    }

    state address {
        transition select(packet.lookahead<bit<432>>()[127:0]) {
            tea_addresses: roce;
            default: accept;
        }
    }
#else
    state ethertype {
        transition select(packet.lookahead<bit<112>>()[15:0]) {
            0x0800: proto;
            default: accept;
        }
    }

    state proto {
        bit<192> front = packet.lookahead<bit<192>>();
        transition select(front[79:72], front[7:0]) {
            (0x45, 17): udp;
            default: accept;
        }
    }

    state udp {
        bit<304> front = packet.lookahead<bit<304>>();
        transition select(front[15:0]) {
            TEA_PORT: address;
            default: accept;
        }
    }

    state address {
        bit<272> front = packet.lookahead<bit<272>>();
        transition select(front[31:0]) {
            tea_addresses: roce;
            default: accept;
        }
    }
#endif

    state roce {
        more = false;
        packet.extract(h.roce);
        transition select(h.roce.opcode) {
            TEA_READ_ANSWER: data;
            TEA_ACK: syndrome;
            default: accept;
        }
    }

    state syndrome {
        packet.extract(h.syndrome);
        transition accept;
    }

#ifdef TEA_INLINE
    // A row: all that is behind the filling, except for the check value, is the packet, whatever its scratchpad says.
    state data {
        packet.extract(h.syndrome);
        packet.extract(h.cells);
        transition scratch;
    }

    state kept {
        bit<2> fill = 0 - h.scratch.bytes[1:0];
        bit<32> front = TEA_ROCE_BYTES + 4 + TEA_WINDOW * TEA_CELL_BYTES + TEA_SCRATCH_BYTES + 4;
        packet.extract(h.packet, (sm.packet_length - front - (bit<32>)fill) << 3);
        transition accept;
    }
#define TEA_FILLED kept
#else
    state data {
        packet.extract(h.syndrome);
        transition select(packet.lookahead<bit<1>>()) {
            0: cells;
            default: scratch;
        }
    }

    state cells {
        packet.extract(h.cells);
        transition accept;
    }
#define TEA_FILLED accept
#endif

    state scratch {
        packet.extract(h.scratch);
        transition select(h.scratch.bytes[1:0]) {
            0: TEA_FILLED;
            1: fill3;
            2: fill2;
            3: fill1;
        }
    }

    state fill3 {
        packet.extract(h.fill1);
        transition fill2;
    }

    state fill2 {
        packet.extract(h.fill2);
        transition TEA_FILLED;
    }

    state fill1 {
        packet.extract(h.fill1);
        transition TEA_FILLED;
    }
}

#endif
