// RedPlane's settings that programs may change, and what becomes of a packet. Part of <pointsman/redplane/message.p4> and <pointsman/redplane/plain.p4>, which programs
// include.

#ifndef POINTSMAN_REDPLANE_SETTINGS_P4
#define POINTSMAN_REDPLANE_SETTINGS_P4

#ifndef REDPLANE_SLOTS
#define REDPLANE_SLOTS 65536
#endif
// Protected objects of the program: messages for its N-th one have the number REDPLANE_OBJECT plus N, from 0 on.
#ifndef REDPLANE_OBJECTS
#define REDPLANE_OBJECTS 1
#endif
#ifdef REDPLANE_SIDE_OF
#if REDPLANE_SLOTS == 1
#error "keys with sides need two slots: REDPLANE_SLOTS must be even"
#endif
#endif
// The first slot of an object.
#if REDPLANE_OBJECTS > 1
#define REDPLANE_FIRST_SLOT(m) ((bit<32>)m.object * REDPLANE_SLOTS)
#else
#define REDPLANE_FIRST_SLOT(m) 32w0
#endif

// Steps: what becomes of the packet.
const bit<8> REDPLANE_PROGRAM = 0; // the program processes and forwards it
const bit<8> REDPLANE_SEND = 1;    // it leaves as a request to the store
const bit<8> REDPLANE_OUT = 2;     // an output that the store has acknowledged leaves
const bit<8> REDPLANE_DROP = 3;    // it ends here
const bit<8> REDPLANE_OTHER = 4;   // a message to another address: the program routes it

typedef bit<(32 * REDPLANE_KEY_WORDS)> redplane_key_t;
typedef bit<(32 * REDPLANE_VALUE_WORDS)> redplane_value_t;

#endif
