// State that outlives the switch (docs/redplane.md): the data plane's part of the protocol, for v1model.
//
// A program defines, before it includes this file, the size of a key and of its state in words of 32 bits:
//
//     #define REDPLANE_KEY_WORDS 4
//     #define REDPLANE_VALUE_WORDS 1
//     #include <pointsman/redplane.p4>
//
// It declares the headers `redplane_outer_t` and `redplane_t`, which it emits before all others, and `redplane_meta_t` in its metadata. Its parser
// begins with RedPlaneParser; its ingress is
//
//     RedPlaneArrive.apply(...)              // answers of the store
//     if (step == REDPLANE_PROGRAM) @atomic {
//         redplane.key = ...;
//         RedPlaneFind.apply(...)            // redplane.held: redplane.value is the state
//         if (redplane.held) {
//             ...                            // the program reads and changes redplane.value, and chooses egress_spec
//             RedPlaneSave.apply(...)        // replicates what changed
//         }
//     }
//
// its egress is RedPlaneDepart; REDPLANE_COMPUTE is the last line of the control that computes checksums. Clone session REDPLANE_SESSION leads to a port whose queue delays packets: the time after which a write is sent
// again. Its depth must be at least REDPLANE_BUFFER. With REDPLANE_RESEND, in ticks of timestamps, that delay is the time between two looks at a write:
// one that is acknowledged leaves the buffer, and one that is older than REDPLANE_RESEND is sent again.
//
// With REDPLANE_SHARED_READS several switches may hold a key at once, as long as none of them changes its state. The program sets `writes` before
// RedPlaneFind if the packet probably changes the state, and says between computing the new state and changing the packet
//
//     RedPlaneClaim.apply(...)               // redplane.held is false if the packet has to come again
//
// With `#define REDPLANE_IPV6` messages are sent over IPv6 in the place of IPv4.
//
// With `#define REDPLANE_OBJECTS 2` a program protects two objects, or more, which a packet passes one after the other: it sets `object` before RedPlaneFind, and
// `stage` before RedPlaneSave (docs/redplane.md, "Several objects").
//
// With `#define PLAIN` the same program runs without RedPlane: its state is lost with the switch.

#ifndef POINTSMAN_REDPLANE_P4
#define POINTSMAN_REDPLANE_P4

#ifdef PLAIN

#include <pointsman/redplane/plain.p4>

#else

#include <pointsman/redplane/message.p4>
#include <pointsman/redplane/slots.p4>

#ifdef REDPLANE_SESSION_LEASES
#if REDPLANE_SHARDS > 1
#error "a session lease holds the keys of one store: REDPLANE_SHARDS must be 1"
#endif
#ifdef REDPLANE_SHARED_READS
#error "a session lease is not shared: define REDPLANE_SESSION_LEASES or REDPLANE_SHARED_READS"
#endif
#endif

#include <pointsman/redplane/request.p4>
#include <pointsman/redplane/answer.p4>
#include <pointsman/redplane/state.p4>
#ifdef REDPLANE_SHARED_READS
#include <pointsman/redplane/claim.p4>
#endif
#include <pointsman/redplane/depart.p4>

#endif

#endif
