// SPDX-License-Identifier: Apache-2.0
// The connection table: every packet of a connection goes where its first packet went.
//
// A connection is found by its whole key (service, client address, client port; the service stands for VIP, protocol and
// port), so a packet can never match another's entry: the probability of a false match is zero, for IPv4 and IPv6 alike.
// There are four ways; way i keeps the key at place hash_i(key), where the four hashes are halves of two CRC-32s over the
// key in different orders (more than halves, which then overlap, where more than 16 bits are wanted). (Salting one CRC would not do: it is linear, so keys that collide once collide always.)
// With a share f of the places taken, a new connection finds none of its four free with probability f^4: at 10,000
// live connections in 262,144 places 2 in a million, at 50,000 1.3 in a thousand. It is then refused and counted;
// connections that exist are never touched.
//
// An entry is given up, and its place free, when nothing was seen of it for the service's idle time; after both FINs or a
// RST when nothing was seen for LINGER_US, so that last acknowledgements and retransmissions still pass, and a forged
// RST does not cut off a connection that goes on. A handshake that is not completed is given up after HALF_OPEN_MS.

#ifndef BALANCER_CONNECTIONS_P4
#define BALANCER_CONNECTIONS_P4

#include "headers.p4"

// Bits of a place's number, 16 to 31: there are four times 2^16 places unless the program is compiled with another.
#ifndef CONNECTION_PLACE_BITS
#define CONNECTION_PLACE_BITS 16
#endif

typedef bit<CONNECTION_PLACE_BITS> place_t;

const bit<32> WAY_SIZE = 32w1 << CONNECTION_PLACE_BITS;
const time_us_t LINGER_US = 2000000;
// Until the client acknowledges, a TCP connection is forgotten sooner: so long after its last SYN or answer.
const bit<24> HALF_OPEN_MS = 5000;

const bit<8> CONN_LIVE = 1;
const bit<8> CONN_FIN_CLIENT = 2;
const bit<8> CONN_FIN_DEVICE = 4;
const bit<8> CONN_RESET = 8;
// What the connection adds to the load of its device (the first at this moment, the others while it lasts).
const bit<8> CONN_IN_FLIGHT = 16;
const bit<8> CONN_COUNTS_CONNECTIONS = 32; // one from its first packet to its end
const bit<8> CONN_DIRECT = 128;            // its device answers the client itself, past us
const bit<8> CONN_COUNTS_REQUESTS = 64;    // one from a packet with data of the client to one of the device
const bit<8> CONN_COUNTS = CONN_COUNTS_CONNECTIONS | CONN_COUNTS_REQUESTS;

// What is asked of the table. Anything but CONN_FIND and CONN_SEEN belongs into an `@atomic` block, together with the
// CONN_FIND that came before it. Outside of one CONN_FIND may meet an entry that is just being written. It finds that out: every word
// of a key, and the state, bear the version of their entry, which changes when the place gets another key.
const bit<2> CONN_FIND = 0;  // find the key; otherwise a free place
const bit<2> CONN_WRITE = 1; // write key and state at the place that was found
const bit<2> CONN_TOUCH = 2; // write the state only
const bit<2> CONN_SEEN = 3;  // write when it was seen, nothing else

struct connection_t {
    bool      found;
    bool      room;      // not found, but `way` has a free place
    bit<2>    way;
    bit<10>   version;
    time_us_t last_seen;
    bit<24>   idle_ms;
    device_t  device;
    bit<8>    flags;
}

control Way(in bit<2> request,
            in bit<2> number,
            in place_t place,
            in bit<54> key_0,
            in bit<54> key_1,
            in bit<54> key_2,
            in bool opens,
            in time_us_t now,
            inout connection_t conn) {
    register<bit<64>>(WAY_SIZE) word_0;    // version, part of the key
    register<bit<64>>(WAY_SIZE) word_1;
    register<bit<64>>(WAY_SIZE) word_2;
    register<bit<64>>(WAY_SIZE) state;     // version, 6 bits unused, idle_ms, device, flags
    register<bit<48>>(WAY_SIZE) last_seen;

    apply {
        bit<32> at = (bit<32>)place;
        if (request != CONN_FIND) {
            last_seen.write(at, conn.last_seen);
            if (request != CONN_SEEN) {
                if (request == CONN_WRITE) {
                    conn.version = conn.version + 1;
                    word_0.write(at, conn.version ++ key_0);
                    word_1.write(at, conn.version ++ key_1);
                    word_2.write(at, conn.version ++ key_2);
                }
                state.write(at, conn.version ++ 6w0 ++ conn.idle_ms ++ conn.device ++ conn.flags);
            }
        } else {
            bit<64> s;
            bit<64> k0;
            bit<64> k1;
            bit<64> k2;
            time_us_t seen;
            state.read(s, at);
            word_0.read(k0, at);
            word_1.read(k1, at);
            word_2.read(k2, at);
            last_seen.read(seen, at);
            bit<8> fins = CONN_FIN_CLIENT | CONN_FIN_DEVICE;
            bool closing = (s[7:0] & CONN_RESET) != 0 || (s[7:0] & fins) == fins;
            bool live = (s[7:0] & CONN_LIVE) != 0;
            bit<10> version = s[63:54];
            bool same = live && k0 == version ++ key_0 && k1 == version ++ key_1 && k2 == version ++ key_2;
            if (same && !opens) {
                conn.found = true;
                conn.way = number;
                conn.version = version;
                conn.last_seen = seen;
                conn.idle_ms = s[47:24];
                conn.device = s[23:8];
                conn.flags = s[7:0];
            } else {
                time_us_t limit = closing ? LINGER_US : (bit<48>)s[47:24] * 1000;
                // What somebody else has seen since this packet came in is not over.
                bool over = now > seen && now - seen > limit;
                if (same && !over && !closing) {
                    conn.found = true;
                    conn.way = number;
                    conn.version = version;
                    conn.last_seen = seen;
                    conn.idle_ms = s[47:24];
                    conn.device = s[23:8];
                    conn.flags = s[7:0];
                } else {
                    // The same 5-tuple again after its end is a new connection, wherever its entry still stands. It takes precedence
                    // over a free place found before, or the key would stand twice. Nobody can foresee which places are
                    // free, so nothing branches on it.
                    bool free = same || !conn.room && (!live || over);
                    conn.room = conn.room || free;
                    conn.way = free ? number : conn.way;
                    conn.version = free ? version : conn.version;
                    // Whoever had the place may still be counted.
                    conn.device = free ? s[23:8] : conn.device;
                    conn.flags = free ? s[7:0] : conn.flags;
                }
            }
        }
    }
}

control Connections(in bit<2> request,
                    in flow_t flow,
                    in bit<32> hash_a,
                    in bit<32> hash_b,
                    in bool opens,
                    in time_us_t now,
                    inout connection_t conn) {
    Way() way0;
    Way() way1;
    Way() way2;
    Way() way3;

    apply {
        bool find = request == CONN_FIND;
        if (find) {
            conn.found = false;
            conn.room = false;
        }
        bit<54> key_0 = flow.client[53:0];
        bit<54> key_1 = flow.client[107:54];
        bit<54> key_2 = 2w0 ++ flow.client[127:108] ++ flow.client_port ++ flow.service;
        // A search ends where the key is found; what is written goes to that place alone.
        if (find || conn.way == 0) {
            way0.apply(request, 0, hash_a[CONNECTION_PLACE_BITS - 1:0], key_0, key_1, key_2, opens, now, conn);
        }
        if (find && !conn.found || !find && conn.way == 1) {
            way1.apply(request, 1, hash_b[CONNECTION_PLACE_BITS - 1:0], key_0, key_1, key_2, opens, now, conn);
        }
        if (find && !conn.found || !find && conn.way == 2) {
            way2.apply(request, 2, hash_a[31:32 - CONNECTION_PLACE_BITS], key_0, key_1, key_2, opens, now, conn);
        }
        if (find && !conn.found || !find && conn.way == 3) {
            way3.apply(request, 3, hash_b[31:32 - CONNECTION_PLACE_BITS], key_0, key_1, key_2, opens, now, conn);
        }
    }
}

// Whether a connection that counts is in flight after this packet, and whether that is a change. After its end it is not, be the end
// taken back (a forged RST) it is again.
control CountConnection(in headers_t hdr, in metadata_t meta, in bool from_device, inout connection_t conn,
                        inout bool one_more, inout bool one_less) {
    apply {
        bool was = (conn.flags & CONN_IN_FLIGHT) != 0;
        bool is_now = was;
        bit<8> fins = CONN_FIN_CLIENT | CONN_FIN_DEVICE;
        if ((conn.flags & CONN_RESET) != 0 || (conn.flags & fins) == fins) {
            is_now = false;
        } else if ((conn.flags & CONN_COUNTS_CONNECTIONS) != 0) {
            is_now = true;
        } else if (!hdr.tcp.isValid() || (bit<16>)hdr.tcp.data_offset << 2 < meta.l4_len) {
            is_now = !from_device;
        }
        one_more = is_now && !was;
        one_less = was && !is_now;
        conn.flags = conn.flags & ~CONN_IN_FLIGHT;
        if (is_now) {
            conn.flags = conn.flags | CONN_IN_FLIGHT;
        }
    }
}

#endif
