// SPDX-License-Identifier: Apache-2.0
// TCP resets.
//
// A segment of a connection that is not known (the switch was restarted without its state, or the connection ended) is answered
// with a RST, so that its sender does not wait for its time-out. A service may ask for silence.
//
// Both ends of a connection that is over without an end get a RST: idle for too long, or its device has failed. Services may ask for
// it; without it such a connection is left alone.
//
// The sequence numbers of a connection that is silent are unknown, and a switch cannot send by itself. So the next segment of
// either end is what resets both (its numbers are all that a RST needs): it goes back to its sender as a RST, and a copy of it, which
// comes around once more, is sent to the other end as a RST.

#ifndef BALANCER_RESET_P4
#define BALANCER_RESET_P4

#include "checksum.p4"
#include "connections.p4"
#include "headers.p4"

// The copy's way: this clone session, whose port does not matter, and the fields that it keeps (those of list 1).
const bit<32> RESET_SESSION = 1;
const bit<8> RESET_FIELDS = 1;

// Is the connection of this segment to be reset? `failed` says that its device is. Handshakes are not: they end by themselves.
control Expiry(in headers_t hdr, in metadata_t meta, in bool fragmented, in bool failed, in time_us_t now, in connection_t conn,
               out bool expired) {
    apply {
        seen_t age = now[41:10] - conn.seen;
        bool idle = (conn.options & OPTION_RESET_IDLE) != 0 && conn.idle != HALF_OPEN && age > (seen_t) conn.idle << 6
                    && age < (seen_t)(0 - AHEAD);
        expired = (idle || failed || conn.idle == CONN_EXPIRED) && hdr.tcp.isValid() && !meta.opens && !meta.rst
                  && !fragmented && !meta.again;
    }
}

// Makes a RST of a segment, for its sender (`back`) or its receiver (RFC 9293, 3.10.7.1), to which it goes in another packet if it is
// `tunnelled`: then the frame is longer by the outer header.
control MakeReset(inout headers_t hdr, in metadata_t meta, in bool back, in bool tunnelled) {
    apply {
        bit<32> length = (bit<32>)(meta.l4_len - ((bit<16>)hdr.tcp.data_offset << 2)) + (bit<32>)hdr.tcp.syn + (bit<32>)hdr.tcp.fin;
        if (back) {
            bit<16> port = hdr.tcp.sport;
            hdr.tcp.sport = hdr.tcp.dport;
            hdr.tcp.dport = port;
            if (hdr.tcp.ack_flag == 1) {
                hdr.tcp.seq = hdr.tcp.ack;
                hdr.tcp.ack = 0;
                hdr.tcp.ack_flag = 0;
            } else {
                hdr.tcp.ack = hdr.tcp.seq + length;
                hdr.tcp.seq = 0;
                hdr.tcp.ack_flag = 1;
            }
        }
        hdr.tcp.data_offset = 5;
        hdr.tcp.reserved = 0;
        hdr.tcp.cwr = 0;
        hdr.tcp.ece = 0;
        hdr.tcp.urg = 0;
        hdr.tcp.psh = 0;
        hdr.tcp.rst = 1;
        hdr.tcp.syn = 0;
        hdr.tcp.fin = 0;
        hdr.tcp.window = 0;
        hdr.tcp.urgent = 0;
        // From nothing to what is there: the sum itself.
        bit<32> sum = (bit<32>)PROTO_TCP + 20;
        if (hdr.ipv4.isValid()) {
            if (back) {
                ipv4_t address = hdr.ipv4.src;
                hdr.ipv4.src = hdr.ipv4.dst;
                hdr.ipv4.dst = address;
            }
            hdr.ipv4_options.setInvalid();
            hdr.ipv4.ihl = 5;
            hdr.ipv4.len = 40;
            hdr.ipv4.id = 0;
            hdr.ipv4.reserved = 0;
            hdr.ipv4.dont_fragment = 1;
            hdr.ipv4.ttl = 64;
            bit<32> addresses = changed32(0xffffffff, hdr.ipv4.src) + changed32(0xffffffff, hdr.ipv4.dst);
            hdr.ipv4.checksum = updated_checksum(0xffff, addresses + 0x4500 + (bit<32>)hdr.ipv4.dscp_ecn + 40 + 0x4000 + 0x4006);
            sum = sum + addresses;
            truncate(tunnelled ? 32w74 : 54);
        } else {
            if (back) {
                ipv6_t address = hdr.ipv6.src;
                hdr.ipv6.src = hdr.ipv6.dst;
                hdr.ipv6.dst = address;
            }
            hdr.ipv6_fragment.setInvalid();
            hdr.ipv6.proto = PROTO_TCP;
            hdr.ipv6.len = 20;
            hdr.ipv6.hops = 64;
            sum = sum + changed128(128w0 - 1, hdr.ipv6.src) + changed128(128w0 - 1, hdr.ipv6.dst);
            truncate(tunnelled ? 32w114 : 74);
        }
        bit<16> flags = hdr.tcp.data_offset ++ hdr.tcp.reserved ++ hdr.tcp.cwr ++ hdr.tcp.ece ++ hdr.tcp.urg ++ hdr.tcp.ack_flag
                      ++ hdr.tcp.psh ++ hdr.tcp.rst ++ hdr.tcp.syn ++ hdr.tcp.fin;
        hdr.tcp.checksum = updated_checksum(0xffff, sum + (bit<32>)hdr.tcp.sport + (bit<32>)hdr.tcp.dport
            + changed32(0xffffffff, hdr.tcp.seq) + changed32(0xffffffff, hdr.tcp.ack) + (bit<32>)flags);
    }
}

#endif
