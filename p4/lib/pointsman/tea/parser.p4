// Which packets are answers, and which are to be looked up as a whole. Part of <pointsman/tea.p4>.

#ifndef POINTSMAN_TEA_PARSER_P4
#define POINTSMAN_TEA_PARSER_P4

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
        m.residue = ROCE_RESIDUE;
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

#define ROCE_ADDRESSES tea_addresses
#include <pointsman/roce/states.p4>
#undef ROCE_ADDRESSES

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
#ifdef TEA_TABLES
        transition select(sm.packet_length) {
            ROCE_BYTES + 4 + TEA_WINDOW * TEA_CELL_BYTES + 4: accept;
            default: scratch;
        }
#else
        transition scratch;
#endif
    }

    state kept {
        bit<2> fill = 0 - h.scratch.bytes[1:0];
        bit<32> front = ROCE_BYTES + 4 + TEA_WINDOW * TEA_CELL_BYTES + TEA_SCRATCH_BYTES + 4;
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

#define ROCE_FILLED TEA_FILLED
#include <pointsman/roce/fill.p4>
#undef ROCE_FILLED
}

#endif
