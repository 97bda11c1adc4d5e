// Queue pairs with servers whose memory the data plane uses. Part of <pointsman/dram/counters.p4> and <pointsman/dram/buffer.p4>.

#ifndef POINTSMAN_DRAM_PAIRS_P4
#define POINTSMAN_DRAM_PAIRS_P4

#include <pointsman/generator.p4>
#include <pointsman/roce/headers.p4>

// Queue pairs of a library.
#ifndef DRAM_PAIRS
#define DRAM_PAIRS 64
#endif
// What a clone that becomes a request keeps.
#ifndef DRAM_LIST
#define DRAM_LIST 101
#endif
// The port as which the packets of generators come in.
#ifndef DRAM_GENERATOR
#define DRAM_GENERATOR 508
#endif

// A server's end of a queue pair.
struct dram_peer_t {
    // 0: none.
    @field_list(DRAM_LIST)
    bit<24>        pair;
    @field_list(DRAM_LIST)
    bit<48>        mac;
    @field_list(DRAM_LIST)
    roce_address_t address;
    @field_list(DRAM_LIST)
    bit<32>        region;
    bit<9>         port;
    bit<32>        session;
    bit<64>        base;
}

// The server's end of queue pair `number`.
control DramPeer(in bit<32> number, inout dram_peer_t p) {
    // The server's queue pair, MAC address and IP address; the port to the server; a clone session to this port; the key of its region; the address of what
    // this queue pair uses.
    action peer(bit<24> pair,
                bit<48> mac,
                roce_address_t address,
                bit<9> port,
                bit<32> session,
                bit<32> region,
                bit<64> base) {
        p.pair = pair;
        p.mac = mac;
        p.address = address;
        p.port = port;
        p.session = session;
        p.region = region;
        p.base = base;
    }

    action no_peer() {
        p.pair = 0;
    }

    table dram_pairs {
        key = { number: exact @name("pair"); }
        actions = { peer; no_peer; }
        default_action = no_peer;
        size = DRAM_PAIRS;
    }

    apply {
        dram_pairs.apply();
    }
}

// Whether a packet to one of the switch's queue pairs is an answer of the server at its other end.
#define DRAM_IS_ANSWER(h, p, sm)                                                                                  \
    (p.pair != 0 && h.roce.src == p.address && sm.ingress_port == p.port && sm.checksum_error == 0                \
     && sm.parser_error == error.NoError && h.syndrome.isValid())

#endif
