// SPDX-License-Identifier: Apache-2.0
// Internet checksums, kept right by the difference: HC' = ~(~HC + ~m + m') (RFC 1624, equation 3).
//
// A difference is a sum of 16-bit words, not yet folded: add as many as you like, then apply them at once.

#ifndef BALANCER_CHECKSUM_P4
#define BALANCER_CHECKSUM_P4

bit<32> changed16(in bit<16> before, in bit<16> after) {
    return (bit<32>)(~before) + (bit<32>)after;
}

// Written out word by word: compilers that put a function's text in the place of each call have less to copy.
bit<32> changed32(in bit<32> before, in bit<32> after) {
    return (bit<32>)(~before[31:16]) + (bit<32>)after[31:16] + (bit<32>)(~before[15:0]) + (bit<32>)after[15:0];
}

bit<32> changed128(in bit<128> before, in bit<128> after) {
    return (((bit<32>)(~before[127:112]) + (bit<32>)after[127:112]) + ((bit<32>)(~before[111:96]) + (bit<32>)after[111:96]))
         + (((bit<32>)(~before[95:80]) + (bit<32>)after[95:80]) + ((bit<32>)(~before[79:64]) + (bit<32>)after[79:64]))
         + (((bit<32>)(~before[63:48]) + (bit<32>)after[63:48]) + ((bit<32>)(~before[47:32]) + (bit<32>)after[47:32]))
         + (((bit<32>)(~before[31:16]) + (bit<32>)after[31:16]) + ((bit<32>)(~before[15:0]) + (bit<32>)after[15:0]));
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
    return checksum == 0 ? 16w0 : (result == 0 ? 16w0xffff : result);
}

#endif
