// Settings, packets and registers of a packet buffer in the memory of servers. Part of <pointsman/dram/buffer.p4>.

#ifndef POINTSMAN_DRAM_BUFFER_MESSAGE_P4
#define POINTSMAN_DRAM_BUFFER_MESSAGE_P4

#include <pointsman/dram/pairs.p4>

// Queues, each with a queue pair.
#ifndef BUFFER_QUEUES
#define BUFFER_QUEUES 8
#endif
// Packets of a queue in its server, a power of two, and bytes for each: a header of 12, up to 3 of filling, the packet.
#ifndef BUFFER_SLOTS
#define BUFFER_SLOTS 4096
#endif
#ifndef BUFFER_SLOT
#define BUFFER_SLOT 2048
#endif
// Bytes of the longest packet that is stored.
#ifndef BUFFER_PACKET
#define BUFFER_PACKET 1514
#endif
// How often a server is asked whether it answers, until it is out.
#ifndef BUFFER_TRIES
#define BUFFER_TRIES 8
#endif
// The port on whose way a packet returns to the parser. Nothing is sent there.
#ifndef BUFFER_LOOP
#define BUFFER_LOOP 510
#endif

// READs in flight in a queue pair, where network adapters allow 16: the lower 4 bits of a packet's number.
#define BUFFER_READS 16
#define BUFFER_READING(queue, number) ((queue << 4) + (number & 0xf))
#define BUFFER_PLACE(number) (number & (BUFFER_SLOTS - 1))
#define BUFFER_HEAD_BYTES 12
#define BUFFER_REQUEST_BYTES (ROCE_BYTES + 16 + 4)

// The switch's queue pair of number 0.
const bit<24> BUFFER_FIRST_PAIR = 0x300;

// `instance_type` of an ingress clone.
const bit<32> BUFFER_IS_CLONE = 1;

// Steps: what becomes of the packet.
const bit<8> BUFFER_PROGRAM = 0; // as the program says
const bit<8> BUFFER_STORE = 1;   // it returns to the parser, to be stored
const bit<8> BUFFER_WRITE = 2;   // it leaves in a WRITE
const bit<8> BUFFER_READ = 3;    // it leaves as a READ
const bit<8> BUFFER_PROBE = 4;   // it leaves as a question whether the server answers
const bit<8> BUFFER_TAKE = 5;    // it came from the server, and leaves
const bit<8> BUFFER_CLONE = 6;   // the same, and a clone leaves as a READ
const bit<8> BUFFER_DROP = 7;    // it ends here

// Indices of `buffer_counts`.
const bit<32> BUFFER_COUNT_STORED = 0; // packets written to servers
const bit<32> BUFFER_COUNT_TAKEN = 1;  // packets that came from servers, and left
const bit<32> BUFFER_COUNT_FULL = 2;   // lost: the queue has BUFFER_SLOTS packets in its server
const bit<32> BUFFER_COUNT_LONG = 3;   // lost: longer than BUFFER_PACKET
const bit<32> BUFFER_COUNT_AGAIN = 4;  // packets from one on are read again: an answer was lost, or came too early
const bit<32> BUFFER_COUNT_LATE = 5;   // answers that came twice, or to nothing
const bit<32> BUFFER_COUNT_BAD = 6;    // answers with a wrong check value, malformed, or from somewhere else
const bit<32> BUFFER_COUNT_GAP = 7;    // gaps that servers reported
const bit<32> BUFFER_COUNT_PROBE = 8;  // questions whether a server answers
const bit<32> BUFFER_COUNT_OUT = 9;    // servers taken out: nothing was answered
const bit<32> BUFFER_COUNT_DEAD = 10;  // queue pairs that servers have ended
const bit<32> BUFFER_COUNT_HEALED = 11; // packets that the port had lost were taken off its account

// In front of a packet in its slot.
header buffer_head_t {
    bit<32> number;
    bit<16> queue;
    bit<16> bytes;
    // CRC-32 of this header up to here, and of the packet.
    bit<32> sum;
}

// What the check value of a slot covers.
#define BUFFER_KEPT(h) h.head.number, h.head.queue, h.head.bytes, h.packet

// A READ that is to bring this may bring what was in the slot before, with less filling.
header buffer_packet_t {
    varbit<(8 * (BUFFER_PACKET + 3))> bytes;
}

struct buffer_headers_t {
    // Not emitted.
    generated_t     generated;
    roce_t          roce;
    roce_remote_t   remote;
    roce_syndrome_t syndrome;
    buffer_head_t   head;
    roce_fill1_t    fill1;
    roce_fill2_t    fill2;
    buffer_packet_t packet;
    roce_check_t    check;
}

#define BUFFER_EMIT(packet, h)      \
    packet.emit(h.roce);            \
    packet.emit(h.remote);          \
    packet.emit(h.head);            \
    packet.emit(h.fill1);           \
    packet.emit(h.fill2);           \
    packet.emit(h.packet);          \
    packet.emit(h.check)

// The headers of a request behind the base header.
#define BUFFER_SENT(h) h.remote, h.head, h.fill1, h.fill2, h.packet

// Whether a packet is the library's own: an answer of a server, of a generator, or one that the program has processed.
#define BUFFER_OWN(h) (h.roce.isValid() || h.generated.isValid() || h.packet.isValid())

// In the control that verifies checksums: the CRC over an answer with its own check value is a constant.
#define BUFFER_VERIFY(h, m)                                                                                      \
    verify_checksum_with_payload(h.roce.isValid(),                                                               \
                                 { ROCE_COVERED(h.roce), h.syndrome, h.head, h.fill1, h.fill2, h.packet },       \
                                 m.residue, HashAlgorithm.crc32)

// Registers of a queue while a packet is processed.
struct buffer_queue_t {
    bit<32> tail;
    bit<32> written;
    bit<32> asked;
    bit<32> head;
    bit<32> sent;
    bit<32> left;
    bit<24> next;
    bit<24> done;
    bit<8>  probes;
    bit<8>  dead;
}

struct buffer_meta_t {
    @field_list(DRAM_LIST)
    bit<8>         step;
    @field_list(DRAM_LIST)
    bit<32>        queue;
    // The packet's number in the queue.
    @field_list(DRAM_LIST)
    bit<32>        number;
    // The request.
    @field_list(DRAM_LIST)
    bit<24>        psn;
    @field_list(DRAM_LIST)
    bit<64>        place;
    @field_list(DRAM_LIST)
    bit<32>        bytes;
    dram_peer_t    peer;
    @field_list(DRAM_LIST)
    roce_address_t address;
    @field_list(DRAM_LIST)
    bit<48>        mac;
    bit<48>        timeout;
    // Of the queue.
    bool           has_queue;
    bit<9>         port;
    bit<32>        room;
    bit<48>        pause;
    // The packet is the port's one of this number, 0: of none.
    bit<32>        sent;
    bit<32>        residue;
}

// A queue: the numbers of the next packet that comes, that is written, that is read, that leaves.
register<bit<32>>(BUFFER_QUEUES) buffer_tail;
register<bit<32>>(BUFFER_QUEUES) buffer_written;
register<bit<32>>(BUFFER_QUEUES) buffer_asked;
register<bit<32>>(BUFFER_QUEUES) buffer_head;
// When a packet came for an idle server, was asked for, or left.
register<bit<48>>(BUFFER_QUEUES) buffer_progress;
// Packets that were given up after they were accepted.
register<bit<64>>(BUFFER_QUEUES) buffer_lost;

// Packets sent to the port's queue in the switch, and those of them that have left it; when the last one left.
register<bit<32>>(BUFFER_QUEUES) buffer_sent;
register<bit<32>>(BUFFER_QUEUES) buffer_left;
register<bit<48>>(BUFFER_QUEUES) buffer_moved;

// Its queue pair: the next packet sequence number, the first one without an answer; questions without an answer, and the next number behind the first of them;
// whether it is dead.
register<bit<24>>(BUFFER_QUEUES) buffer_next;
register<bit<24>>(BUFFER_QUEUES) buffer_done;
register<bit<8>>(BUFFER_QUEUES) buffer_probes;
register<bit<24>>(BUFFER_QUEUES) buffer_probed;
register<bit<8>>(BUFFER_QUEUES) buffer_dead;

// A packet in the server: its bytes; a READ: its packet sequence number.
register<bit<16>>(BUFFER_QUEUES * BUFFER_SLOTS) buffer_bytes;
register<bit<24>>(BUFFER_QUEUES * BUFFER_READS) buffer_reading;

counter(12, CounterType.packets) buffer_counts;

#endif
