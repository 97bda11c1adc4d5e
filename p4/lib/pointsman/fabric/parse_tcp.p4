// Part of a parser: the header of TCP, with what rates.p4 needs of its options. Include it after parse_ip.p4, with FABRIC_TCP defined
// as parse_tcp before. `headers_t` needs `tcp_t tcp`, `word_t[10] options` and `stamps_t stamps`, `metadata_t` needs `rate_t rate`.
//
// Options of a SYN are read word by word in the layouts that hosts use: each begins a word, padded before or behind it. With another one the
// rest stays unread, and the scale of the window is unknown. Other segments are searched for timestamps in the first place only.

state parse_tcp {
    packet.extract(hdr.ports);
    meta.fabric.ports = hdr.ports.src ++ hdr.ports.dst;
    packet.extract(hdr.tcp);
    meta.rate.words = hdr.tcp.offset - 5;
    transition select(hdr.tcp.offset, hdr.tcp.flags[1:1]) {
        (5, 1): parse_end_of_options;
        (6 .. 15, 1): parse_option;
        (8 .. 15, 0): parse_stamps;
        default: accept;
    }
}

state parse_stamps {
    transition select(packet.lookahead<bit<32>>()) {
        0x0101080a: take_stamps;
        default: accept;
    }
}

state take_stamps {
    packet.extract(hdr.stamps);
    transition accept;
}

state parse_option {
    transition select(packet.lookahead<bit<32>>()) {
        // Maximum segment size.
        0x02040000 &&& 0xffff0000: take_word;
        // SACK permitted.
        0x01010402: take_word;
        0x04020101: take_word;
        0x04020000: take_word;
        // The scale of the window.
        0x01030300 &&& 0xffffff00: take_scale;
        0x03030001 &&& 0xffff00ff: take_padded_scale;
        0x03030000 &&& 0xffff00ff: take_padded_scale;
        // Timestamps.
        0x0402080a: parse_long_option;
        0x0101080a: parse_long_option;
        default: accept;
    }
}

state take_word {
    packet.extract(hdr.options.next);
    meta.rate.words = meta.rate.words - 1;
    transition select(meta.rate.words) {
        0: parse_end_of_options;
        default: parse_option;
    }
}

state parse_long_option {
    transition select(meta.rate.words) {
        0 .. 2: accept;
        default: take_long_option;
    }
}

state take_long_option {
    packet.extract(hdr.options.next);
    packet.extract(hdr.options.next);
    meta.rate.words = meta.rate.words - 2;
    transition take_word;
}

state take_scale {
    packet.extract(hdr.options.next);
    meta.rate.scale = hdr.options.last.bytes[7:0];
    transition limit_scale;
}

state take_padded_scale {
    packet.extract(hdr.options.next);
    meta.rate.scale = hdr.options.last.bytes[15:8];
    transition limit_scale;
}

// RFC 7323, section 2.3: a larger scale counts as 14.
state limit_scale {
    meta.rate.known = true;
    meta.rate.scaling = true;
    transition select(meta.rate.scale) {
        0 .. 14: accept;
        default: take_largest_scale;
    }
}

state take_largest_scale {
    meta.rate.scale = 14;
    transition accept;
}

// Without the option windows are not scaled.
state parse_end_of_options {
    meta.rate.known = true;
    transition accept;
}
