// Shared read leases: several switches may have a key at once, as long as none of them changes its state. Part of <pointsman/redplane.p4>, which programs
// include, with REDPLANE_SHARED_READS defined.

#ifndef POINTSMAN_REDPLANE_CLAIM_P4
#define POINTSMAN_REDPLANE_CLAIM_P4

// Asks for the exclusive lease, with the packet, if the packet would change a state that other switches may read. Then `held` is false: the program leaves the
// packet as it is, and processes it again when it returns with the grant.
@restarts
@repeatable
control RedPlaneClaim(inout redplane_outer_t outer,
                      inout redplane_t message,
                      inout redplane_meta_t m,
                      inout standard_metadata_t sm) {
    RedPlaneGiveUp() give_up;
    RedPlaneAsk() ask;

    apply {
        if (m.held && m.slot.shared == 1 && m.value != m.slot.value) {
            m.held = false;
            give_up.apply(m);
            ask.apply(outer, message, m, sm, REDPLANE_NEW);
        }
    }
}

#endif
