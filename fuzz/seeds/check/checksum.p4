// SPDX-License-Identifier: Apache-2.0
// Internet checksums, kept right by the difference: HC' = ~(~HC + ~m + m') (RFC 1624, equation 3).
//
// A difference is a sum of 16-bit words, not yet folded: add as many as you like, then apply them at once.

#ifndef BALANCER_CHECKSUM_P4
#define BALANCER_CHECKSUM_P4

bit<32> changed16(in bit<16> before, in bit<16> after) {
    return (bit<32>)(~before) + (bit<32>)after;
}

bit<32> changed32(in bit<32> before, in bit<32> after) {
    return changed16(before[31:16], after[31:16]) + changed16(before[15:0], after[15:0]);
}

bit<32> changed128(in bit<128> before, in bit<128> after) {
    return changed32(before[127:96], after[127:96]) + changed32(before[95:64], after[95:64])
         + changed32(before[63:32], after[63:32]) + changed32(before[31:0], after[31:0]);
}

bit<16> updated_checksum(in bit<16> checksum, in bit<32> change) {
    bit<32> sum = (bit<32>)(~checksum) + change;
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return ~sum[15:0];
}

// UDP: zero means that there is no checksum, and stays; a checksum that comes out as zero is sent as all ones (RFC 768).
bit<16> updated_udp_checksum(in bit<16> checksum, in bit<32> change) {
    bit<16> result = updated_checksum(checksum, change);
    if (checksum == 0) {
        result = 0;
    } else if (result == 0) {
        result = 0xffff;
    }
    return result;
}

#endif
