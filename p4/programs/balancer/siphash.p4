// SPDX-License-Identifier: Apache-2.0
// HalfSipHash-2-4 with a digest of 64 bits: a keyed hash in words of 32 bits (Aumasson and Bernstein, "SipHash: a fast
// short-input PRF", 2012, and the reference implementation's variant for 32-bit machines).
//
// Straight-line: the messages are 16, 20 or 48 bytes long, as reports are. HalfSipHash reads words with the low byte first, while
// fields of packets have the high byte first; hence `swapped`.

#ifndef BALANCER_SIPHASH_P4
#define BALANCER_SIPHASH_P4

bit<32> swapped(in bit<32> word) {
    return word[7:0] ++ word[15:8] ++ word[23:16] ++ word[31:24];
}

// The digest of `head` and as many of the eight words behind it as `count` says: none, one or eight.
control HalfSipHash(in bit<64> key, in bit<128> head, in bit<256> words, in bit<4> count, out bit<64> tag) {
    bit<32> v0 = 0;
    bit<32> v1 = 0;
    bit<32> v2 = 0;
    bit<32> v3 = 0;

    action sip_round() {
        v0 = v0 + v1;
        v1 = (v1[26:0] ++ v1[31:27]) ^ v0;
        v0 = v0[15:0] ++ v0[31:16];
        v2 = v2 + v3;
        v3 = (v3[23:0] ++ v3[31:24]) ^ v2;
        v0 = v0 + v3;
        v3 = (v3[24:0] ++ v3[31:25]) ^ v0;
        v2 = v2 + v1;
        v1 = (v1[18:0] ++ v1[31:19]) ^ v2;
        v2 = v2[15:0] ++ v2[31:16];
    }

    action sip_word(bit<32> word) {
        v3 = v3 ^ word;
        sip_round();
        sip_round();
        v0 = v0 ^ word;
    }

    action sip_finish() {
        sip_round();
        sip_round();
        sip_round();
        sip_round();
    }

    apply {
        bit<32> k0 = swapped(key[63:32]);
        bit<32> k1 = swapped(key[31:0]);
        v0 = k0;
        // The 0xee says that the digest is to have 64 bits.
        v1 = k1 ^ 0xee;
        v2 = 0x6c796765 ^ k0;
        v3 = 0x74656462 ^ k1;
        sip_word(swapped(head[127:96]));
        sip_word(swapped(head[95:64]));
        sip_word(swapped(head[63:32]));
        sip_word(swapped(head[31:0]));
        // The last word is the length of the message modulo 256, in the high byte.
        bit<32> last = 16 << 24;
        if (count != 0) {
            sip_word(swapped(words[255:224]));
            last = 20 << 24;
            if (count != 1) {
                sip_word(swapped(words[223:192]));
                sip_word(swapped(words[191:160]));
                sip_word(swapped(words[159:128]));
                sip_word(swapped(words[127:96]));
                sip_word(swapped(words[95:64]));
                sip_word(swapped(words[63:32]));
                sip_word(swapped(words[31:0]));
                last = 48 << 24;
            }
        }
        sip_word(last);
        v2 = v2 ^ 0xee;
        sip_finish();
        bit<32> low = swapped(v1 ^ v3);
        v1 = v1 ^ 0xdd;
        sip_finish();
        tag = low ++ swapped(v1 ^ v3);
    }
}

#endif
