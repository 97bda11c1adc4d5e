// Settings, packets and registers of counters in the memory of servers. Part of <pointsman/dram/counters.p4>.

#ifndef POINTSMAN_DRAM_COUNTERS_MESSAGE_P4
#define POINTSMAN_DRAM_COUNTERS_MESSAGE_P4

#include <pointsman/dram/pairs.p4>

// Slots of the switch in which sums are collected, a power of two.
#ifndef COUNTERS_SLOTS
#define COUNTERS_SLOTS 16384
#endif
// Requests in flight in a queue pair: network adapters keep answers for 16.
#ifndef COUNTERS_CREDITS
#define COUNTERS_CREDITS 16
#endif
// Numbers of the generators.
#ifndef COUNTERS_TICK
#define COUNTERS_TICK 3
#endif
#ifndef COUNTERS_SWEEP
#define COUNTERS_SWEEP 4
#endif

// Sums of a queue pair that are not acknowledged, with those that were not sent yet: the lower 6 bits of a packet sequence number.
#define COUNTERS_RING 64
#define COUNTERS_PLACE(pair, psn) ((pair << 6) + (bit<32>)(psn & 0x3f))
#define COUNTERS_REQUEST_BYTES (ROCE_BYTES + 28 + 4)

// The switch's queue pair of number 0.
const bit<24> COUNTERS_FIRST_PAIR = 0x200;

// `instance_type` of an ingress clone.
const bit<32> COUNTERS_IS_CLONE = 1;

// Steps: what becomes of the packet.
const bit<8> COUNTERS_PROGRAM = 0; // the program processes it, or it ends here
const bit<8> COUNTERS_SEND = 1;    // it leaves as a request
const bit<8> COUNTERS_CLONE = 2;   // a clone leaves as a request

// Indices of `counters_counts`.
const bit<32> COUNTERS_COUNT_SUMS = 0;    // sums that left their slots
const bit<32> COUNTERS_COUNT_SENT = 1;    // requests, with repeated ones
const bit<32> COUNTERS_COUNT_LATE = 2;    // answers that came twice, or to nothing
const bit<32> COUNTERS_COUNT_BAD = 3;     // answers with a wrong check value, malformed, from somewhere else, or in a dead queue pair
const bit<32> COUNTERS_COUNT_GAP = 4;     // gaps that servers reported
const bit<32> COUNTERS_COUNT_TIMEOUT = 5; // repetitions because nothing was answered
const bit<32> COUNTERS_COUNT_DEAD = 6;    // queue pairs that servers have ended

// Indices of `counters_lost`.
const bit<32> COUNTERS_LOST_ROOM = 0;   // the slot belongs to another counter, whose sum could not leave
const bit<32> COUNTERS_LOST_SERVER = 1; // no server or queue pair is configured for the counter

struct counters_headers_t {
    // Not emitted.
    generated_t     generated;
    roce_t          roce;
    roce_syndrome_t syndrome;
    roce_original_t original;
    roce_atomic_t   atomic;
    roce_check_t    check;
}

#define COUNTERS_EMIT(packet, h)    \
    packet.emit(h.roce);            \
    packet.emit(h.atomic);          \
    packet.emit(h.check)

// The headers of a request behind the base header.
#define COUNTERS_SENT(h) h.atomic

// Whether a packet is the library's own: an answer of a server, or of a generator.
#define COUNTERS_OWN(h) (h.roce.isValid() || h.generated.isValid())

// In the control that verifies checksums: the CRC over an answer with its own check value is a constant.
#define COUNTERS_VERIFY(h, m)                                                                   \
    verify_checksum_with_payload(h.roce.isValid(),                                              \
                                 { ROCE_COVERED(h.roce), h.syndrome, h.original }, m.residue,   \
                                 HashAlgorithm.crc32)

struct counters_meta_t {
    // Set by the program: the number of a counter, and what is added to it; 0: nothing.
    bit<32>        index;
    bit<64>        amount;
    @field_list(DRAM_LIST)
    bit<8>         step;
    // The request.
    @field_list(DRAM_LIST)
    bit<32>        pair;
    @field_list(DRAM_LIST)
    bit<24>        psn;
    @field_list(DRAM_LIST)
    bit<64>        place;
    @field_list(DRAM_LIST)
    bit<64>        sum;
    dram_peer_t    peer;
    @field_list(DRAM_LIST)
    roce_address_t address;
    @field_list(DRAM_LIST)
    bit<48>        mac;
    // Of the configuration.
    bit<48>        timeout;
    bit<64>        limit;
    bit<32>        start;
    // The packet's slot; whether it belongs to another counter; whether a sum leaves, and of which counter; what the slot has then.
    bit<32>        slot;
    bool           meets;
    bool           leaves;
    bit<32>        leaving;
    bit<32>        rest_index;
    bit<64>        rest;
    bit<32>        residue;
}

// A slot: its counter, and the sum that was collected for it; 0: the slot is empty.
register<bit<32>>(COUNTERS_SLOTS) counters_index;
register<bit<64>>(COUNTERS_SLOTS) counters_sum;
// The slot that is swept next.
register<bit<32>>(1) counters_swept;

// A queue pair: the packet sequence numbers of the next sum, of the first one that was not sent, or is to be repeated, and of the first one without an answer;
// when there was progress; whether it is dead.
register<bit<24>>(DRAM_PAIRS) counters_next;
register<bit<24>>(DRAM_PAIRS) counters_sent;
register<bit<24>>(DRAM_PAIRS) counters_done;
register<bit<48>>(DRAM_PAIRS) counters_progress;
register<bit<8>>(DRAM_PAIRS) counters_dead;

// A sum without an answer: its counter, less the server's first one, and the sum. They stay the same until the answer: a request is repeated as it was.
register<bit<32>>(DRAM_PAIRS * COUNTERS_RING) counters_place;
register<bit<64>>(DRAM_PAIRS * COUNTERS_RING) counters_queued;

// Amounts that are lost.
register<bit<64>>(2) counters_lost;

counter(7, CounterType.packets) counters_counts;

#endif
