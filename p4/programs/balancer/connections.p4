// SPDX-License-Identifier: Apache-2.0
// The connection table: every packet of a connection goes where its first packet went.
//
// A connection is found by its whole key (service, client address, client port; the service stands for VIP, protocol and
// port), so a packet can never match another's entry: the probability of a false match is zero, for IPv4 and IPv6 alike.
// There are four ways; way i keeps the key at place hash_i(key), where the four hashes are the low and the high bits of two
// CRC-32s over the key in different orders (17 bits of each usually, so that two of the 32 are in both). (Salting one CRC would not do: it
// is linear, so keys that collide once collide always.) The second is computed where the first finds nothing.
// With a share f of the places taken, a new connection finds none of its four free with probability f^4: at 20,000
// live connections in 524,288 places 2 in a million, at 100,000 1.3 in a thousand. It then takes the place of a connection that
// is not established: a handshake that is not completed, or datagrams to which the client has not come back after an answer; of several
// that of the one which was not seen for the longest time, where an answer counts as much as 64 times the time. So a flood of forged SYNs or datagrams only
// crowds out itself. If all four are established the new connection is refused and counted; these are never touched.
//
// An entry is given up, and its place free, when nothing was seen of it for the service's idle time; after both FINs or a
// RST when nothing was seen for LINGER, so that last acknowledgements and retransmissions still pass, and a forged
// RST does not cut off a connection that continues. A handshake that is not completed is given up after HALF_OPEN.
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
// The idle time that a service has instead, so that its connections do not look like handshakes.
const idle_t NOT_HALF_OPEN = 78;
// Another worker may have seen an entry after this packet came in. Up to this far in the future it was seen just now.
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
// Of datagrams, which have no FINs: the device answered; and the client came back after that.
const bit<8> CONN_ANSWERED = 4;
const bit<8> CONN_CONFIRMED = 2;
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
// Not the service's: datagrams, whose answers pass the switch.
const bit<6> OPTION_DATAGRAMS = 8;
// The idle time of a connection that was reset so; no service has that.
const idle_t CONN_EXPIRED = 0;

// What a store, or servers' memory, keeps of a connection.
#define KEPT(flags, options, device) (1w0 ++ (flags) ++ (options) ++ (bit<17>)(device))
#define KEPT_FLAGS(value) value[30:23]
#define KEPT_OPTIONS(value) value[22:17]
#define KEPT_DEVICE(value) ((device_t)value[16:0])

#ifdef BALANCER_TEA
// Neither is this the service's: servers' memory has the connection, too; and it may be changing there, so that the place stays its own.
const bit<6> OPTION_SETTLED = 32;
const bit<6> OPTION_HELD = 16;
// In the word `middle` of an entry.
#define UNLESS_HELD m[10:10] == 0 &&
#define OR_SETTLED || m[11:10] != 0
#else
#define UNLESS_HELD
#define OR_SETTLED
#endif

// What changes the table belongs into an `@atomic` block, together with the FindConnection that came before it; but for SawConnection, which
// writes one word. Outside of one FindConnection may meet an entry that is just being written, and finds that out by
// the entry's version, which changes when the place gets another key. It is kept in two words. Who writes an entry writes the one
// with the version first and the state, with the same version, last. Who looks reads them the other way around: if both versions are the same,
// nothing was written in between.

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
    seen_t    worth;     // how much it is worth to take the place of the connection at `way`, which is not established
}

// The device in the word `middle` of an entry.
#define DEVICE_IN(middle) WITH_HIGH(middle[31:16], middle[12:12])

control FindInWay(in bit<2> number, in place_t place, in flow_t flow, in bool opens, in seen_t now, inout connection_t conn)
                 (register<bit<64>> low, register<bit<64>> high, register<bit<64>> middle, register<bit<32>> state,
                  register<bit<32>> last_seen) {
    apply {
        bit<32> at = (bit<32>)place;
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
        bool same = live && l == flow.client[31:0] ++ flow.client_port ++ flow.service && h == flow.client[127:64]
                    && m[63:32] == flow.client[63:32] && m[5:0] == s[31:26];
        seen_t age = now - seen;
        bool over = UNLESS_HELD age > (closing ? LINGER : (seen_t)s[25:8] << 6) && age < (seen_t)(0 - AHEAD);
        if (same && (!opens || !over && (!closing OR_SETTLED))) {
            conn.found = true;
            conn.way = number;
            conn.version = s[31:26];
            conn.idle = s[25:8];
            conn.device = DEVICE_IN(m);
            conn.flags = s[7:0];
            conn.options = m[11:6];
            conn.seen = seen;
        } else {
            // The same 5-tuple again after its end is a new connection, wherever its entry still is. It takes precedence
            // over a free place found before, or the key would exist twice. It is unpredictable which places are
            // free, so nothing branches on it.
            bool free = same || !conn.room && (!live || over);
            conn.room = conn.room || free;
            conn.way = free ? number : conn.way;
            conn.version = free ? s[31:26] : conn.version;
            // Whoever had the place may still be counted.
            conn.device = free ? DEVICE_IN(m) : conn.device;
            conn.flags = free ? s[7:0] : conn.flags;
        }
    }
}

// What it is worth to end the connection at a place, which is not free, and whether it is worth more than those before.
control WorthInWay(in bit<2> number, in place_t place, in seen_t now, inout connection_t conn)
                  (register<bit<64>> middle, register<bit<32>> state, register<bit<32>> last_seen) {
    apply {
        bit<32> s;
        bit<64> m;
        seen_t seen;
        state.read(s, (bit<32>)place);
        last_seen.read(seen, (bit<32>)place);
        middle.read(m, (bit<32>)place);
        seen_t age = now - seen;
        bool datagrams = (m[11:6] & OPTION_DATAGRAMS) != 0;
        // An answer makes it 64 times less; who was seen after this packet came in is worth nothing.
        seen_t worth = s[25:8] == HALF_OPEN || datagrams && (s[7:0] & CONN_FINS) == 0 ? age
            : (datagrams && (s[7:0] & CONN_FINS) == CONN_ANSWERED ? age >> 6 : 0);
        if (UNLESS_HELD age < (seen_t)(0 - AHEAD) && worth > conn.worth) {
            conn.worth = worth;
            conn.way = number;
            conn.version = s[31:26];
            conn.device = DEVICE_IN(m);
            conn.flags = s[7:0];
        }
    }
}

// Writes an entry at the place that was found: its state, and its key, too, if it is new.
control KeepInWay(in place_t place, in bool is_new, in flow_t flow, in seen_t now, in connection_t conn)
                 (register<bit<64>> low, register<bit<64>> high, register<bit<64>> middle, register<bit<32>> state,
                  register<bit<32>> last_seen) {
    apply {
        bit<32> at = (bit<32>)place;
        if (is_new) {
            middle.write(at, flow.client[63:32] ++ DEVICE_LOW(conn.device) ++ DEVICE_HIGH(conn.device, 4) ++ conn.options ++ conn.version);
            low.write(at, flow.client[31:0] ++ flow.client_port ++ flow.service);
            high.write(at, flow.client[127:64]);
        }
        last_seen.write(at, now);
        state.write(at, conn.version ++ conn.idle ++ conn.flags);
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

// Finds a connection, or otherwise a place for it. `hash_b` is 0 until it is needed.
control FindConnection(in flow_t flow, in bit<32> hash_a, inout bit<32> hash_b, in bool opens, in time_us_t now, inout connection_t conn)
                      (register<bit<64>> low0, register<bit<64>> high0, register<bit<64>> middle0, register<bit<32>> state0,
                       register<bit<32>> last_seen0, register<bit<64>> low1, register<bit<64>> high1,
                       register<bit<64>> middle1, register<bit<32>> state1, register<bit<32>> last_seen1,
                       register<bit<64>> low2, register<bit<64>> high2, register<bit<64>> middle2, register<bit<32>> state2,
                       register<bit<32>> last_seen2, register<bit<64>> low3, register<bit<64>> high3,
                       register<bit<64>> middle3, register<bit<32>> state3, register<bit<32>> last_seen3) {
    SecondHash() second_hash;
    FindInWay(low0, high0, middle0, state0, last_seen0) way0;
    FindInWay(low1, high1, middle1, state1, last_seen1) way1;
    FindInWay(low2, high2, middle2, state2, last_seen2) way2;
    FindInWay(low3, high3, middle3, state3, last_seen3) way3;

    apply {
        seen_t seen = now[41:10];
        conn.found = false;
        conn.room = false;
        // A search ends where the key is found.
        way0.apply(0, hash_a[CONNECTION_PLACE_BITS - 1:0], flow, opens, seen, conn);
        if (!conn.found) {
            way1.apply(1, hash_a[31:32 - CONNECTION_PLACE_BITS], flow, opens, seen, conn);
        }
        if (!conn.found) {
            second_hash.apply(flow, hash_b);
            way2.apply(2, hash_b[CONNECTION_PLACE_BITS - 1:0], flow, opens, seen, conn);
        }
        if (!conn.found) {
            way3.apply(3, hash_b[31:32 - CONNECTION_PLACE_BITS], flow, opens, seen, conn);
        }
    }
}

// Finds a place for a new connection where none of the four is free: that of a connection which is not established.
control FindLeast(in bit<32> hash_a, in bit<32> hash_b, in time_us_t now, inout connection_t conn)
                 (register<bit<64>> middle0, register<bit<64>> middle1, register<bit<64>> middle2, register<bit<64>> middle3,
                  register<bit<32>> state0, register<bit<32>> state1, register<bit<32>> state2, register<bit<32>> state3,
                  register<bit<32>> last_seen0, register<bit<32>> last_seen1, register<bit<32>> last_seen2, register<bit<32>> last_seen3) {
    WorthInWay(middle0, state0, last_seen0) way0;
    WorthInWay(middle1, state1, last_seen1) way1;
    WorthInWay(middle2, state2, last_seen2) way2;
    WorthInWay(middle3, state3, last_seen3) way3;

    apply {
        seen_t seen = now[41:10];
        conn.worth = 0;
        way0.apply(0, hash_a[CONNECTION_PLACE_BITS - 1:0], seen, conn);
        way1.apply(1, hash_a[31:32 - CONNECTION_PLACE_BITS], seen, conn);
        way2.apply(2, hash_b[CONNECTION_PLACE_BITS - 1:0], seen, conn);
        way3.apply(3, hash_b[31:32 - CONNECTION_PLACE_BITS], seen, conn);
        conn.room = conn.worth != 0;
    }
}

// Writes a connection that was found, or that is new, at its place.
control KeepConnection(in bool is_new, in flow_t flow, in bit<32> hash_a, in bit<32> hash_b, in time_us_t now,
                       inout connection_t conn)
                      (register<bit<64>> low0, register<bit<64>> high0, register<bit<64>> middle0, register<bit<32>> state0,
                       register<bit<32>> last_seen0, register<bit<64>> low1, register<bit<64>> high1,
                       register<bit<64>> middle1, register<bit<32>> state1, register<bit<32>> last_seen1,
                       register<bit<64>> low2, register<bit<64>> high2, register<bit<64>> middle2, register<bit<32>> state2,
                       register<bit<32>> last_seen2, register<bit<64>> low3, register<bit<64>> high3,
                       register<bit<64>> middle3, register<bit<32>> state3, register<bit<32>> last_seen3) {
    KeepInWay(low0, high0, middle0, state0, last_seen0) way0;
    KeepInWay(low1, high1, middle1, state1, last_seen1) way1;
    KeepInWay(low2, high2, middle2, state2, last_seen2) way2;
    KeepInWay(low3, high3, middle3, state3, last_seen3) way3;

    apply {
        seen_t seen = now[41:10];
        conn.version = is_new ? conn.version + 1 : conn.version;
        if (conn.way == 0) {
            way0.apply(hash_a[CONNECTION_PLACE_BITS - 1:0], is_new, flow, seen, conn);
        } else if (conn.way == 1) {
            way1.apply(hash_a[31:32 - CONNECTION_PLACE_BITS], is_new, flow, seen, conn);
        } else if (conn.way == 2) {
            way2.apply(hash_b[CONNECTION_PLACE_BITS - 1:0], is_new, flow, seen, conn);
        } else {
            way3.apply(hash_b[31:32 - CONNECTION_PLACE_BITS], is_new, flow, seen, conn);
        }
    }
}

// Notes that a connection that was found was seen, nothing else.
control SawConnection(in bit<2> way, in bit<32> hash_a, in bit<32> hash_b, in time_us_t now)
                     (register<bit<32>> last_seen0, register<bit<32>> last_seen1, register<bit<32>> last_seen2,
                      register<bit<32>> last_seen3) {
    apply {
        seen_t seen = now[41:10];
        if (way == 0) {
            last_seen0.write((bit<32>)hash_a[CONNECTION_PLACE_BITS - 1:0], seen);
        } else if (way == 1) {
            last_seen1.write((bit<32>)hash_a[31:32 - CONNECTION_PLACE_BITS], seen);
        } else if (way == 2) {
            last_seen2.write((bit<32>)hash_b[CONNECTION_PLACE_BITS - 1:0], seen);
        } else {
            last_seen3.write((bit<32>)hash_b[31:32 - CONNECTION_PLACE_BITS], seen);
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
