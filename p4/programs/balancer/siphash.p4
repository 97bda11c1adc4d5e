// SPDX-License-Identifier: Apache-2.0
// HalfSipHash-2-4 with a digest of 64 bits: a keyed hash in words of 32 bits (Aumasson and Bernstein, "SipHash: a fast
// short-input PRF", 2012, and the reference implementation's variant for 32-bit machines).
//
// Straight-line: the messages are 16, 20 or 48 bytes long, as reports are. HalfSipHash reads words with the low byte first, while
// fields of packets have the high byte first; hence `swapped`.

#ifndef BALANCER_SIPHASH_P4
#define BALANCER_SIPHASH_P4

struct sip_t {
    bit<32> v0;
    bit<32> v1;
    bit<32> v2;
    bit<32> v3;
}

bit<32> swapped(in bit<32> word) {
    return word[7:0] ++ word[15:8] ++ word[23:16] ++ word[31:24];
}

void sip_round(inout sip_t s) {
    s.v0 = s.v0 + s.v1;
    s.v1 = (s.v1[26:0] ++ s.v1[31:27]) ^ s.v0;
    s.v0 = s.v0[15:0] ++ s.v0[31:16];
    s.v2 = s.v2 + s.v3;
    s.v3 = (s.v3[23:0] ++ s.v3[31:24]) ^ s.v2;
    s.v0 = s.v0 + s.v3;
    s.v3 = (s.v3[24:0] ++ s.v3[31:25]) ^ s.v0;
    s.v2 = s.v2 + s.v1;
    s.v1 = (s.v1[18:0] ++ s.v1[31:19]) ^ s.v2;
    s.v2 = s.v2[15:0] ++ s.v2[31:16];
}

void sip_word(inout sip_t s, in bit<32> word) {
    s.v3 = s.v3 ^ word;
    sip_round(s);
    sip_round(s);
    s.v0 = s.v0 ^ word;
}

void sip_finish(inout sip_t s) {
    sip_round(s);
    sip_round(s);
    sip_round(s);
    sip_round(s);
}

// The digest of `head` and as many of the eight words behind it as `count` says: none, one or eight.
control HalfSipHash(in bit<64> key, in bit<128> head, in bit<256> words, in bit<4> count, out bit<64> tag) {
    apply {
        bit<32> k0 = swapped(key[63:32]);
        bit<32> k1 = swapped(key[31:0]);
        // The 0xee says that the digest is to have 64 bits.
        sip_t s = { k0, k1 ^ 0xee, 0x6c796765 ^ k0, 0x74656462 ^ k1 };
        sip_word(s, swapped(head[127:96]));
        sip_word(s, swapped(head[95:64]));
        sip_word(s, swapped(head[63:32]));
        sip_word(s, swapped(head[31:0]));
        // The last word is the length of the message modulo 256, in the high byte.
        bit<32> last = 16 << 24;
        if (count != 0) {
            sip_word(s, swapped(words[255:224]));
            last = 20 << 24;
            if (count != 1) {
                sip_word(s, swapped(words[223:192]));
                sip_word(s, swapped(words[191:160]));
                sip_word(s, swapped(words[159:128]));
                sip_word(s, swapped(words[127:96]));
                sip_word(s, swapped(words[95:64]));
                sip_word(s, swapped(words[63:32]));
                sip_word(s, swapped(words[31:0]));
                last = 48 << 24;
            }
        }
        sip_word(s, last);
        s.v2 = s.v2 ^ 0xee;
        sip_finish(s);
        bit<32> low = swapped(s.v1 ^ s.v3);
        s.v1 = s.v1 ^ 0xdd;
        sip_finish(s);
        tag = low ++ swapped(s.v1 ^ s.v3);
    }
}

#endif
