// TEA's settings, what follows from them, and the numbers of steps, states and counters. Part of <pointsman/tea.p4>.

#ifndef POINTSMAN_TEA_SETTINGS_P4
#define POINTSMAN_TEA_SETTINGS_P4

#include <pointsman/tea/roce.p4>

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
#define TEA_READS 1
#define TEA_PLACE(home) (home >> 2)
// A row: a bucket of four cells, a copy of the next bucket, a scratchpad.
#define TEA_ROW_BYTES (TEA_WINDOW * TEA_CELL_BYTES + TEA_SLOT)
#else
#define TEA_SCRATCH_BYTES 8
#define TEA_REQUESTS 3
#define TEA_READS 2
#define TEA_PLACE(home) home
#endif

// A queue pair with more numbers in flight takes no look-up now; how many numbers a request takes from the first one of its look-up on; whether a key that is
// asked for was not counted before.
#ifdef TEA_TABLES
// All numbers may be those of READs.
#define TEA_FULL (TEA_READS * TEA_CREDITS - TEA_REQUESTS)
#define TEA_TAKEN(m) (m.is_alone == 1 ? 24w2 : TEA_REQUESTS)
#define TEA_IS_NEW(m) m.waits == 0 && m.repeats == 0
// Bytes of a note that comes back with a packet.
#ifndef TEA_NOTE_BYTES
#define TEA_NOTE_BYTES TEA_VALUE_BYTES
#endif
// How often a packet waits for its second answer, up to 255; with the delay of `wait_port`, this should be longer than the time after which an answer is too late.
#ifndef TEA_AWAITS
#define TEA_AWAITS 255
#endif
// The multicast group of a READ alone has the number of the group of a look-up, and this more: instance 2 at the server's port, and TEA_STAYS at TEA_LOOP.
#define TEA_ALONE 0x100
#define TEA_STAYS 5
#else
#define TEA_FULL (TEA_REQUESTS * (TEA_CREDITS - 1))
#define TEA_TAKEN(m) TEA_REQUESTS
#define TEA_IS_NEW(m) m.waits == 0
#endif

const bit<16> TEA_PORT = ROCE_PORT;
// The switch's queue pair of number 0.
const bit<24> TEA_FIRST_PAIR = 0x100;

const bit<8> TEA_WRITE = ROCE_WRITE;
const bit<8> TEA_READ = ROCE_READ;
const bit<8> TEA_READ_ANSWER = ROCE_READ_ANSWER;
const bit<8> TEA_ACK = ROCE_ACK;

const bit<8> TEA_NAK_SEQUENCE = ROCE_NAK_SEQUENCE;

// Steps: what becomes of the packet.
const bit<8> TEA_PROGRAM = 0; // the program processes it
const bit<8> TEA_SEND = 1;    // it leaves in a request
const bit<8> TEA_BACK = 2;    // it came back from a server, and returns to the parser
const bit<8> TEA_WAIT = 3;    // it waits for a credit
const bit<8> TEA_DROP = 4;    // it ends here
const bit<8> TEA_PROBE = 5;   // a generator's packet: asks a server whether it answers again
const bit<8> TEA_NEXT = 6;    // the program processes it once more, for another key (TEA_TABLES)

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
const bit<32> TEA_COUNT_SECOND = 21; // packets that waited for their second answer (TEA_TABLES)

#endif
