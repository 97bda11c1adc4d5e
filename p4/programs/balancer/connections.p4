// SPDX-License-Identifier: Apache-2.0
// The connection table: every packet of a connection goes where its first packet went.
//
// A connection is found by its whole key (service, client address, client port; the service stands for VIP, protocol and
// port), so a packet can never match another's entry: the probability of a false match is zero, for IPv4 and IPv6 alike.
// There are four ways; way i keeps the key at place hash_i(key), where the four hashes are the low and the high bits of two
// CRC-32s over the key in different orders (17 bits of each usually, so that two of the 32 are in both). (Salting one CRC would not do: it
// is linear, so keys that collide once collide always.) The second is computed where the first finds nothing.
// With a share f of the places taken, a new connection finds none of its four free with probability f^4: at 20,000
// live connections in 524,288 places 2 in a million, at 100,000 1.3 in a thousand. It is then refused and counted;
// connections that exist are never touched.
//
// An entry is given up, and its place free, when nothing was seen of it for the service's idle time; after both FINs or a
// RST when nothing was seen for LINGER, so that last acknowledgements and retransmissions still pass, and a forged
// RST does not cut off a connection that goes on. A handshake that is not completed is given up after HALF_OPEN.
//
// An entry takes 32 bytes, half a line of the processor's cache, so times are kept in coarse units (see below).

#ifndef BALANCER_CONNECTIONS_P4
#define BALANCER_CONNECTIONS_P4

#include "headers.p4"

// Bits of a place's number, 16 to 31: there are four times 2^17 places unless the program is compiled with another.
#ifndef CONNECTION_PLACE_BITS
#define CONNECTION_PLACE_BITS 17
#endif

typedef bit<CONNECTION_PLACE_BITS> place_t;

const bit<32> WAY_SIZE = 32w1 << CONNECTION_PLACE_BITS;

// When an entry was seen last: microseconds / 1024, which come around every 51 days.
typedef bit<32> seen_t;
// How long it may stay unseen: microseconds / 65536 (66 ms), rounded up; 64 of the unit above. As long as the longest idle time of a
// service, 4.6 hours, takes 256,000.
typedef bit<18> idle_t;

const seen_t LINGER = 1954; // 2 s
// Until the client acknowledges, a TCP connection is forgotten sooner: so long after its last SYN or answer.
const idle_t HALF_OPEN = 77; // 5 s
// Somebody else may have seen an entry after this packet came in. Up to so far in the future it was seen just now.
const seen_t AHEAD = 1 << 20;

idle_t idle_time(in bit<24> ms) {
    bit<34> wide = (bit<34>)ms;
    bit<34> us = (wide << 10) - (wide << 4) - (wide << 3);
    return (us + 65535)[33:16];
}

const bit<8> CONN_LIVE = 1;
const bit<8> CONN_FIN_CLIENT = 2;
const bit<8> CONN_FIN_DEVICE = 4;
const bit<8> CONN_FINS = CONN_FIN_CLIENT | CONN_FIN_DEVICE;
const bit<8> CONN_RESET = 8;
// What the connection adds to the load of its device (the first at this moment, the others while it lasts).
const bit<8> CONN_IN_FLIGHT = 16;
const bit<8> CONN_COUNTS_CONNECTIONS = 32; // one from its first packet to its end
const bit<8> CONN_DIRECT = 128;            // its device answers the client itself, past us
const bit<8> CONN_COUNTS_REQUESTS = 64;    // one from a packet with data of the client to one of the device
const bit<8> CONN_COUNTS = CONN_COUNTS_CONNECTIONS | CONN_COUNTS_REQUESTS;

// What a connection's service asked for when it began.
const bit<6> OPTION_RESET_IDLE = 1;   // RST to both ends of a connection that was idle for too long
const bit<6> OPTION_RESET_FAILED = 2; // and of one whose device failed
const bit<6> OPTION_TUNNEL = 4;       // with CONN_DIRECT: packets go to the device in packets to its address
// The idle time of a connection that was reset so; no service has that.
const idle_t CONN_EXPIRED = 0;

// What is asked of the table. Anything but CONN_FIND and CONN_SEEN belongs into an `@atomic` block, together with the
// CONN_FIND that came before it. Outside of one CONN_FIND may meet an entry that is just being written, and finds that out by
// the entry's version, which changes when the place gets another key. It stands in two words. Who writes an entry writes the one
// with the version first and the state, with the same version, last. Who looks reads them the other way around: if both versions are the same,
// nothing was written in between.
const bit<2> CONN_FIND = 0;  // find the key; otherwise a free place
const bit<2> CONN_WRITE = 1; // write key and state at the place that was found
const bit<2> CONN_TOUCH = 2; // write the state only
const bit<2> CONN_SEEN = 3;  // write when it was seen, nothing else

struct connection_t {
    bool      found;
    bool      room;      // not found, but `way` has a free place
    bit<2>    way;
    bit<6>    version;
    idle_t    idle;
    device_t  device;
    bit<8>    flags;
    bit<6>    options;
    seen_t    seen;      // when, if `found`
}

control Way(in bit<2> request,
            in bit<2> number,
            in place_t place,
            in flow_t flow,
            in bool opens,
            in seen_t now,
            inout connection_t conn) {
    register<bit<64>>(WAY_SIZE) low;    // low half of a client's IPv6 address or the whole IPv4 address, port, service
    register<bit<64>>(WAY_SIZE) high;   // bits 127 to 64 of its address
    register<bit<64>>(WAY_SIZE) middle; // bits 63 to 32, device, 4 bits unused, options, version
    register<bit<32>>(WAY_SIZE) state;  // version, idle time, flags
    register<bit<32>>(WAY_SIZE) last_seen;

    apply {
        bit<32> at = (bit<32>)place;
        if (request != CONN_FIND) {
            if (request == CONN_WRITE) {
                conn.version = conn.version + 1;
                middle.write(at, flow.client[63:32] ++ conn.device ++ 4w0 ++ conn.options ++ conn.version);
                low.write(at, flow.client[31:0] ++ flow.client_port ++ flow.service);
                high.write(at, flow.client[127:64]);
            }
            last_seen.write(at, now);
            if (request != CONN_SEEN) {
                state.write(at, conn.version ++ conn.idle ++ conn.flags);
            }
        } else {
            bit<32> s;
            bit<64> l;
            bit<64> h;
            bit<64> m;
            seen_t seen;
            state.read(s, at);
            low.read(l, at);
            high.read(h, at);
            last_seen.read(seen, at);
            middle.read(m, at);
            bool closing = (s[7:0] & CONN_RESET) != 0 || (s[7:0] & CONN_FINS) == CONN_FINS;
            bool live = (s[7:0] & CONN_LIVE) != 0;
            bool found = live && l == flow.client[31:0] ++ flow.client_port ++ flow.service && h == flow.client[127:64]
                         && m[63:32] == flow.client[63:32] && m[5:0] == s[31:26];
            bool free = false;
            if (!found || opens) {
                seen_t age = now - seen;
                bool over = age > (closing ? LINGER : (seen_t)s[25:8] << 6) && age < (seen_t)(0 - AHEAD);
                // The same 5-tuple again after its end is a new connection, wherever its entry still stands. It takes precedence
                // over a free place found before, or the key would stand twice. Nobody can foresee which places are
                // free, so nothing branches on it.
                free = found ? over || closing : !conn.room && (!live || over);
                found = found && !over && !closing;
            }
            conn.found = found;
            conn.room = conn.room || free;
            conn.way = found || free ? number : conn.way;
            conn.version = found || free ? s[31:26] : conn.version;
            // Whoever had the place may still be counted.
            conn.device = found || free ? m[31:16] : conn.device;
            conn.flags = found || free ? s[7:0] : conn.flags;
            conn.idle = found ? s[25:8] : conn.idle;
            conn.options = found ? m[11:6] : conn.options;
            conn.seen = found ? seen : conn.seen;
        }
    }
}

// The other hash of a connection, unless it is known. (Should it be 0, it is computed once more.)
control SecondHash(in flow_t flow, inout bit<32> hash_b) {
    apply {
        if (hash_b == 0) {
            hash(hash_b, HashAlgorithm.crc32, 32w0, { flow.client_port, flow.service, flow.client }, 64w0x100000000);
        }
    }
}

// `hash_b` is 0 as long as nobody has needed it.
control Connections(in bit<2> request,
                    in flow_t flow,
                    in bit<32> hash_a,
                    inout bit<32> hash_b,
                    in bool opens,
                    in time_us_t now,
                    inout connection_t conn) {
    SecondHash() second_hash;
    Way() way0;
    Way() way1;
    Way() way2;
    Way() way3;

    apply {
        bool find = request == CONN_FIND;
        seen_t seen = now[41:10];
        if (find) {
            conn.found = false;
            conn.room = false;
        }
        // A search ends where the key is found; what is written goes to that place alone.
        if (find || conn.way == 0) {
            way0.apply(request, 0, hash_a[CONNECTION_PLACE_BITS - 1:0], flow, opens, seen, conn);
        }
        if (find && !conn.found || !find && conn.way == 1) {
            way1.apply(request, 1, hash_a[31:32 - CONNECTION_PLACE_BITS], flow, opens, seen, conn);
        }
        if (find && !conn.found) {
            second_hash.apply(flow, hash_b);
        }
        if (find && !conn.found || !find && conn.way == 2) {
            way2.apply(request, 2, hash_b[CONNECTION_PLACE_BITS - 1:0], flow, opens, seen, conn);
        }
        if (find && !conn.found || !find && conn.way == 3) {
            way3.apply(request, 3, hash_b[31:32 - CONNECTION_PLACE_BITS], flow, opens, seen, conn);
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
        if ((conn.flags & CONN_RESET) != 0 || (conn.flags & CONN_FINS) == CONN_FINS) {
            is_now = false;
        } else if ((conn.flags & CONN_COUNTS_CONNECTIONS) != 0) {
            is_now = true;
        } else if (!hdr.tcp.isValid() || (bit<16>)hdr.tcp.data_offset << 2 < meta.l4_len) {
            is_now = !from_device;
        }
        one_more = is_now && !was;
        one_less = was && !is_now;
        conn.flags = is_now ? conn.flags | CONN_IN_FLIGHT : conn.flags & ~CONN_IN_FLIGHT;
    }
}

#endif
