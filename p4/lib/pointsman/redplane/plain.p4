// A program without RedPlane: its state is lost with the switch. The controls are those of <pointsman/redplane.p4>, which includes this file if PLAIN is defined, but there are
// no messages, no leases and no store. A key has one slot, which its state leaves when another key with the same slot gets one.

#ifndef POINTSMAN_REDPLANE_PLAIN_P4
#define POINTSMAN_REDPLANE_PLAIN_P4

#include <pointsman/redplane/settings.p4>

// Headers without fields: there are no messages.
header redplane_outer_t {}

header redplane_t {}

struct redplane_meta_t {
    bit<8>           step;
#if REDPLANE_OBJECTS > 1
    bit<16>          object;
    bit<7>           stage;
#endif
    redplane_key_t   key;
    // These three have no effect here.
    bool             existing;
    bool             allocate;
    bool             ending;
#ifdef REDPLANE_SHARED_READS
    bool             writes;
#endif
    bool             held;
    // The state of the key; 0 if it has none.
    redplane_value_t value;
    bit<9>           in_port;
    bit<32>          index;
    redplane_value_t kept;
}

register<redplane_key_t>(REDPLANE_SLOTS * REDPLANE_OBJECTS) redplane_keys;
register<redplane_value_t>(REDPLANE_SLOTS * REDPLANE_OBJECTS) redplane_values;

#define REDPLANE_COMPUTE(outer, message, m, ...)

parser RedPlaneParser(packet_in packet, out redplane_outer_t outer, out redplane_t message, out bool more) {
    state start {
        more = true;
        transition accept;
    }
}

control RedPlaneArrive(inout redplane_outer_t outer,
                       inout redplane_t message,
                       inout redplane_meta_t m,
                       inout standard_metadata_t sm) {
    apply {
        m.step = REDPLANE_PROGRAM;
        m.in_port = sm.ingress_port;
    }
}

control RedPlaneFind(inout redplane_outer_t outer,
                     inout redplane_t message,
                     inout redplane_meta_t m,
                     inout standard_metadata_t sm) {
    apply {
        redplane_key_t key;
        hash(m.index, HashAlgorithm.crc32, REDPLANE_FIRST_SLOT(m), { m.key }, (bit<64>)REDPLANE_SLOTS);
#ifdef REDPLANE_SIDE_OF
        m.index = m.index[31:1] ++ REDPLANE_SIDE_OF(m.key);
#endif
        redplane_keys.read(key, m.index);
        redplane_values.read(m.kept, m.index);
        if (key != m.key) {
            m.kept = 0;
        }
        m.value = m.kept;
        m.held = true;
    }
}

#ifdef REDPLANE_SHARED_READS
control RedPlaneClaim(inout redplane_outer_t outer,
                      inout redplane_t message,
                      inout redplane_meta_t m,
                      inout standard_metadata_t sm) {
    apply {}
}
#endif

// A packet that leaves the state as it is takes the slot of no other key.
control RedPlaneSave(inout redplane_outer_t outer,
                     inout redplane_t message,
                     inout redplane_meta_t m,
                     inout standard_metadata_t sm) {
    apply {
        if (m.value != m.kept) {
            redplane_keys.write(m.index, m.key);
            redplane_values.write(m.index, m.value);
        }
    }
}

control RedPlaneDepart(inout redplane_outer_t outer,
                       inout redplane_t message,
                       inout redplane_meta_t m,
                       inout standard_metadata_t sm) {
    apply {}
}

#endif
