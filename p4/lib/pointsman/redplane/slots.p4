// What a switch knows of each key under RedPlane. Part of <pointsman/redplane.p4>, which programs include.

#ifndef POINTSMAN_REDPLANE_SLOTS_P4
#define POINTSMAN_REDPLANE_SLOTS_P4

// Indices of `redplane_counts`.
const bit<32> REDPLANE_COUNT_BAD = 0;       // forged, or for another switch, incarnation or object
const bit<32> REDPLANE_COUNT_LATE = 1;      // answers that came too late or twice
const bit<32> REDPLANE_COUNT_REFUSED = 2;   // refused by the store
const bit<32> REDPLANE_COUNT_COLLISION = 3; // another key has the slot
const bit<32> REDPLANE_COUNT_BUFFER = 4;    // the buffer of writes is full
const bit<32> REDPLANE_COUNT_RESENT = 5;    // writes sent again
const bit<32> REDPLANE_COUNT_EXPIRED = 6;   // the lease ended before its answer came
const bit<32> REDPLANE_COUNT_LONG = 7;      // packets that are too long with the headers of a message
const bit<32> REDPLANE_COUNT_EXHAUSTED = 8; // no port of the store's pools was free
#ifdef REDPLANE_SHARED_READS
const bit<32> REDPLANE_COUNT_UNCLAIMED = 9; // a change under a shared lease, without RedPlaneClaim
#define REDPLANE_COUNTS 10
#else
#define REDPLANE_COUNTS 9
#endif

// What differs in a program with several objects: the number of an object in messages, and the port of an input, which says in which stage the program continues. A packet that is not an output comes back to the program.
#if REDPLANE_OBJECTS > 1
#define REDPLANE_NUMBER(m) (REDPLANE_OBJECT + m.object)
#define REDPLANE_SET_OBJECT(m, message) m.object = message.object - REDPLANE_OBJECT
#define REDPLANE_IS_FOREIGN(message) message.object - REDPLANE_OBJECT >= REDPLANE_OBJECTS
#define REDPLANE_INPUT_PORT(m) (m.stage ++ m.in_port)
#define REDPLANE_COMES_BACK(message) (message.flags[1:1] == 1 || message.port[15:9] != 0)
#define REDPLANE_WAS_ANSWERED(m) (m.answered && m.answered_object == m.object)
#else
#define REDPLANE_NUMBER(m) REDPLANE_OBJECT
#define REDPLANE_SET_OBJECT(m, message)
#define REDPLANE_IS_FOREIGN(message) message.object != REDPLANE_OBJECT
#define REDPLANE_INPUT_PORT(m) (bit<16>)m.in_port
#define REDPLANE_COMES_BACK(message) message.flags[1:1] == 1
#define REDPLANE_WAS_ANSWERED(m) m.answered
#endif

// A slot of the registers.
struct redplane_slot_t {
    redplane_key_t   key;
    redplane_value_t value;
    bit<32>          grant; // 0: free
    bit<48>          until; // the end of the lease, by this switch's clock; 0: its session has ended
    bit<32>          sent;  // the number of the last write
    bit<32>          acked; // that of the last one acknowledged
    bit<32>          generation;
    bit<32>          request; // the number of the last request
    bit<64>          taken;   // bit N: the packet of request `request` - N was taken from an answer
#ifdef REDPLANE_SHARED_READS
    bit<1>           shared;  // other switches may have the key, too: its state must not change
#endif
}

struct redplane_meta_t {
    bit<8>             step;
    // The packet was processed before its state was here: do not ask twice.
    bool               answered;
#if REDPLANE_OBJECTS > 1
    // Set by the program before RedPlaneFind: the object, from 0 on.
    bit<16>            object;
    // Which of the objects the packet has passed: the program processes it from there on. Set by the program before RedPlaneSave: 0 if the packet leaves; otherwise it
    // comes back in this stage when the state is stored, and continues at once if nothing has to be sent.
    bit<7>             stage;
    bit<16>            answered_object;
#endif
    // Set by the program before RedPlaneFind.
    redplane_key_t     key;
    // Set by the program before RedPlaneFind: a key that the store does not know is not added, and its packet ends.
    bool               existing;
    // Set by the program before RedPlaneFind: a key that the store does not know gets a port of the store's pools.
    bool               allocate;
#ifdef REDPLANE_SHARED_READS
    // Set by the program before RedPlaneFind: the packet probably changes the state. Not set, a packet that does costs a request more.
    bool               writes;
#endif
    // Set by the program before RedPlaneSave, as the state says: the key is needed for a short time only.
    bool               ending;
    // The state is here, under a lease.
    bool               held;
    // The state. The program may change it.
    redplane_value_t   value;
    // Bytes of the packet without the message's headers. A program that adds or removes headers changes this number, too.
    bit<32>            bytes;
    // The port that the packet came in by, before it went to the store.
    bit<9>             in_port;
    bit<32>            index;
    redplane_slot_t    slot;
    // Of the configuration.
    bit<16>            switch_id;
    bit<32>            incarnation;
    bit<64>            secret;
    redplane_address_t address;
    redplane_address_t store;
    bit<48>            mac_src;
    bit<48>            mac_dst;
    bit<9>             store_port;
    bit<48>            ticks;
    bit<48>            renew;
}

register<redplane_key_t>(REDPLANE_SLOTS * REDPLANE_OBJECTS) redplane_keys;
register<redplane_value_t>(REDPLANE_SLOTS * REDPLANE_OBJECTS) redplane_values;
register<bit<32>>(REDPLANE_SLOTS * REDPLANE_OBJECTS) redplane_grants;
@real_time
register<bit<48>>(REDPLANE_LEASES) redplane_until;
register<bit<32>>(REDPLANE_SLOTS * REDPLANE_OBJECTS) redplane_sent;
register<bit<32>>(REDPLANE_SLOTS * REDPLANE_OBJECTS) redplane_acked;
register<bit<32>>(REDPLANE_SLOTS * REDPLANE_OBJECTS) redplane_generations;
register<bit<32>>(REDPLANE_SLOTS * REDPLANE_OBJECTS) redplane_requests;
register<bit<64>>(REDPLANE_SLOTS * REDPLANE_OBJECTS) redplane_taken;
// When the lease was last asked to be renewed for a packet that only reads.
register<bit<48>>(REDPLANE_LEASES) redplane_asked;
#ifdef REDPLANE_SESSION_LEASES
// The session in which the store last said that the key belongs to this switch.
register<bit<32>>(REDPLANE_SLOTS * REDPLANE_OBJECTS) redplane_sessions;
// The present session, and when the request was sent with which it began.
register<bit<32>>(1) redplane_session;
register<bit<48>>(1) redplane_started;
#endif
#ifdef REDPLANE_SHARED_READS
register<bit<1>>(REDPLANE_SLOTS * REDPLANE_OBJECTS) redplane_shared;
#endif
// Writes in the buffer.
register<bit<32>>(1) redplane_buffered;

counter(REDPLANE_COUNTS, CounterType.packets) redplane_counts;

#endif
