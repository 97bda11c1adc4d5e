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
        // The CRC-32 of anything that ends with its own CRC-32, the least significant byte first.
        m.residue = 0x2144df1c;
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

#ifdef TEA_IPV6
    state ethertype {
        transition select(packet.lookahead<bit<112>>()[15:0]) {
            0x86dd: proto;
            default: accept;
        }
    }

    state proto {
        transition select(packet.lookahead<bit<168>>()[7:0]) {
            17: udp;
            default: accept;
        }
    }

    state udp {
        transition select(packet.lookahead<bit<464>>()[15:0]) {
            TEA_PORT: address;
            default: accept;
        }
    }

    state address {
        transition select(packet.lookahead<bit<432>>()[127:0]) {
            tea_addresses: roce;
            default: accept;
        }
    }
#else
    state ethertype {
        transition select(packet.lookahead<bit<112>>()[15:0]) {
            0x0800: proto;
            default: accept;
        }
    }

    state proto {
        bit<192> front = packet.lookahead<bit<192>>();
        transition select(front[79:72], front[7:0]) {
            (0x45, 17): udp;
            default: accept;
        }
    }

    state udp {
        bit<304> front = packet.lookahead<bit<304>>();
        transition select(front[15:0]) {
            TEA_PORT: address;
            default: accept;
        }
    }

    state address {
        bit<272> front = packet.lookahead<bit<272>>();
        transition select(front[31:0]) {
            tea_addresses: roce;
            default: accept;
        }
    }
#endif

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
            TEA_ROCE_BYTES + 4 + TEA_WINDOW * TEA_CELL_BYTES + 4: accept;
            default: scratch;
        }
#else
        transition scratch;
#endif
    }

    state kept {
        bit<2> fill = 0 - h.scratch.bytes[1:0];
        bit<32> front = TEA_ROCE_BYTES + 4 + TEA_WINDOW * TEA_CELL_BYTES + TEA_SCRATCH_BYTES + 4;
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

    state fill3 {
        packet.extract(h.fill1);
        transition fill2;
    }

    state fill2 {
        packet.extract(h.fill2);
        transition TEA_FILLED;
    }

    state fill1 {
        packet.extract(h.fill1);
        transition TEA_FILLED;
    }
}

#endif
