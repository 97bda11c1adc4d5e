// Part of a parser with the parameters `packet` and `h`: states that find RoCEv2 to the switch, from `ethertype` on. What is for one of the addresses of the value
// set ROCE_ADDRESSES continues in the parser's own state `roce`; anything else is accepted, with nothing extracted.

#ifdef ROCE_IPV6
state ethertype {
    transition select(packet.lookahead<bit<112>>()[15:0]) {
        0x86dd: proto;
        default: accept;
    }
}

state proto {
    transition select(packet.lookahead<bit<168>>()[7:0]) {
        17: udp;
        default: accept;
    }
}

state udp {
    transition select(packet.lookahead<bit<464>>()[15:0]) {
        ROCE_PORT: address;
        default: accept;
    }
}

state address {
    transition select(packet.lookahead<bit<432>>()[127:0]) {
        ROCE_ADDRESSES: roce;
        default: accept;
    }
}
#else
state ethertype {
    transition select(packet.lookahead<bit<112>>()[15:0]) {
        0x0800: proto;
        default: accept;
    }
}

state proto {
    bit<192> front = packet.lookahead<bit<192>>();
    transition select(front[79:72], front[7:0]) {
        (0x45, 17): udp;
        default: accept;
    }
}

state udp {
    bit<304> front = packet.lookahead<bit<304>>();
    transition select(front[15:0]) {
        ROCE_PORT: address;
        default: accept;
    }
}

state address {
    bit<272> front = packet.lookahead<bit<272>>();
    transition select(front[31:0]) {
        ROCE_ADDRESSES: roce;
        default: accept;
    }
}
#endif
