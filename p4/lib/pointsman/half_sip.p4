// Part of a control: the steps of HalfSipHash-2-4, on the state v0 to v3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012,
// and the reference implementation's variant for 32-bit machines). Words are given low byte first.

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
