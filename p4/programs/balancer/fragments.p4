// SPDX-License-Identifier: Apache-2.0
// Fragments: the later ones have no ports, so they go where the first one of their datagram went.
//
// The destination of a first fragment is kept at a place that is a hash of the datagram's whole identity (RFC 791, RFC 8200), which is
// stored there in full: a fragment never follows another datagram's. The newest datagram takes the place; of one that lost its own, and
// of one whose first fragment comes late, later fragments are dropped and counted: to their sender it looks like loss.

#ifndef BALANCER_FRAGMENTS_P4
#define BALANCER_FRAGMENTS_P4

#include "headers.p4"

const bit<32> FRAGMENT_PLACES = 4096;
// After that a datagram cannot be complete any more at most receivers, and its number comes again.
const time_us_t FRAGMENT_US = 5000000;

// Where a datagram went.
struct fate_t {
    bool      known;
    service_t service;
    device_t  device;
    bool      translated;
    bool      tunnelled;
    ipv6_t    address; // what its source or destination became
}

// Belongs into an `@atomic` block.
control Fragments(in bool is_first,
                  in ipv6_t source,
                  in ipv6_t destination,
                  in bit<32> id,
                  in bit<8> proto,
                  in time_us_t now,
                  inout fate_t fate) {
    // No cell is wider than 64 bits, so that programs around this one need no larger sections (docs/v1model.md).
    register<bit<64>>(FRAGMENT_PLACES) source_high;
    register<bit<64>>(FRAGMENT_PLACES) source_low;
    register<bit<64>>(FRAGMENT_PLACES) destination_high;
    register<bit<64>>(FRAGMENT_PLACES) destination_low;
    register<bit<64>>(FRAGMENT_PLACES) identity; // number, protocol, service, rest of the device, tunnelled, translated
    register<bit<64>>(FRAGMENT_PLACES) seen;     // time, device
    register<bit<64>>(FRAGMENT_PLACES) address_high;
    register<bit<64>>(FRAGMENT_PLACES) address_low;

    apply {
        bit<32> at;
        hash(at, HashAlgorithm.crc32, 32w0, { source, destination, id, proto }, 64w0x100000000);
        at = at & (FRAGMENT_PLACES - 1);
        if (is_first) {
            source_high.write(at, source[127:64]);
            source_low.write(at, source[63:0]);
            destination_high.write(at, destination[127:64]);
            destination_low.write(at, destination[63:0]);
            identity.write(at, id ++ proto ++ fate.service ++ DEVICE_HIGH(fate.device, 6) ++ (fate.tunnelled ? 1w1 : 1w0)
                ++ (fate.translated ? 1w1 : 1w0));
            seen.write(at, now ++ DEVICE_LOW(fate.device));
            address_high.write(at, fate.address[127:64]);
            address_low.write(at, fate.address[63:0]);
        } else {
            bit<64> s1;
            bit<64> s0;
            bit<64> d1;
            bit<64> d0;
            bit<64> i;
            bit<64> t;
            bit<64> a1;
            bit<64> a0;
            source_high.read(s1, at);
            source_low.read(s0, at);
            destination_high.read(d1, at);
            destination_low.read(d0, at);
            identity.read(i, at);
            seen.read(t, at);
            address_high.read(a1, at);
            address_low.read(a0, at);
            fate.known = s1 ++ s0 == source && d1 ++ d0 == destination && i[63:24] == id ++ proto
                         && now - t[63:16] < FRAGMENT_US;
            fate.service = i[23:8];
            fate.device = WITH_HIGH(t[15:0], i[2:2]);
            fate.tunnelled = i[1:1] == 1;
            fate.translated = i[0:0] == 1;
            fate.address = a1 ++ a0;
        }
    }
}

#endif
