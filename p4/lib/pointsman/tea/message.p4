// TEA's packets, what it keeps of each, and registers. Part of <pointsman/tea.p4>, which programs include.

#ifndef POINTSMAN_TEA_MESSAGE_P4
#define POINTSMAN_TEA_MESSAGE_P4

#include <pointsman/generator.p4>

typedef bit<(8 * TEA_KEY_BYTES)> tea_key_t;
typedef bit<(8 * TEA_VALUE_BYTES)> tea_value_t;
#ifdef TEA_TABLES
typedef bit<(8 * TEA_NOTE_BYTES)> tea_note_t;
#endif

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

struct tea_headers_t {
    // Not emitted.
    generated_t     generated;
    roce_t          roce;
    roce_remote_t   remote;
    roce_syndrome_t syndrome;
    tea_scratch_t   scratch;
    roce_fill1_t    fill1;
    roce_fill2_t    fill2;
    tea_cells_t     cells;
    tea_packet_t    packet;
    roce_check_t    check;
}

// The headers of a request behind the base header.
#define TEA_SENT(h) h.remote, h.scratch, h.fill1, h.fill2, h.packet

// In the control that verifies checksums: the CRC over an answer with its own check value is a constant.
#ifdef TEA_INLINE
#define TEA_VERIFY(h, m)                                                                                             \
    verify_checksum_with_payload(h.roce.isValid(),                                                                   \
                                 { ROCE_COVERED(h.roce), h.syndrome, h.cells, h.scratch, h.fill1, h.fill2, h.packet }, \
                                 m.residue, HashAlgorithm.crc32)

// What the check value of a scratchpad covers.
#define TEA_KEPT(h) 1w1, h.scratch.tag, h.scratch.unused, h.scratch.port, h.scratch.bytes, h.packet
#else
#define TEA_VERIFY(h, m)                                                                                   \
    verify_checksum_with_payload(h.roce.isValid(),                                                         \
                                 { ROCE_COVERED(h.roce), h.syndrome, h.scratch, h.fill1, h.fill2, h.cells }, \
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
#ifdef TEA_TABLES
    // Set by the program before TeaFindAll: a second key.
    bool        has_key2;
    tea_key_t   key2;
    // After TeaFindAll, with step TEA_PROGRAM.
    bool        found2;
    @field_list(TEA_LIST)
    tea_value_t value2;
    // How often TeaNext began another round, and what the program noted before.
    @field_list(TEA_LIST)
    bit<8>      round;
    @field_list(TEA_LIST)
    tea_note_t  note;
    // What is known of each key: nothing, that the switch does not have it (TEA_ASKED), or the result.
    @field_list(TEA_LIST)
    bit<8>      state;
    @field_list(TEA_LIST)
    bit<8>      state2;
    // The key of a server's answer; the answer if it is of the second key.
    @field_list(TEA_LIST)
    tea_key_t   about;
    @field_list(TEA_LIST)
    bit<8>      answer2;
    // The request is of the second key; it is a READ alone.
    @field_list(TEA_LIST)
    bit<1>      is_second;
    @field_list(TEA_LIST)
    bit<1>      is_alone;
    // A READ alone was sent; its slot.
    @field_list(TEA_LIST)
    bit<1>      is_asked;
    @field_list(TEA_LIST)
    bit<32>     other_slot;
    // The key was looked for before.
    bit<1>      repeats;
#endif
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
    bit<32>     first_cell;
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
// By port: 1 once a look-up could choose by the load there. Before, ordinary packets are not counted for it.
register<bit<1>>(512) tea_metered;
// By port: when an ordinary packet was yellow or red, and red.
register<bit<48>>(512) tea_yellow;
register<bit<48>>(512) tea_red;

#ifdef TEA_TABLES
counter(22, CounterType.packets) tea_counts;
#else
counter(21, CounterType.packets) tea_counts;
#endif

#endif
