// Part of an ingress control: notices of broken ways, after routes.p4. `headers_t` needs `note_t note` behind `ethernet`, `metadata_t` needs `way_t way`.
//
// A switch that has no next hop with a carrier for a packet from a lower tier sends it back as a notice, with a note between Ethernet and IP. The
// lower switch remembers for `hold` ticks after the last notice, and then until a packet tries again, that the way through this port to this destination is broken, and drops the notice. Packets that would take that way
// start again at the parser, with another number in `meta.way.tries`, and the program chooses another way:
//
//     notice_config.apply(); neighbours.apply();
//     if (hdr.note.isValid()) {       // it is not forwarded
//         if (hdr.note.kind == NOTE_BROKEN && meta.way.from == FROM_ABOVE) { keep_notice(); } else { refuse_note(); }
//         exit;
//     }
//     ...                             // chooses, if meta.way.tries is not 0 otherwise than before: next_try() for a hash
//     recall_ways();
//     if (meta.fabric.forwarded) { check_way(); if (meta.way.broken && meta.way.tries != MOST_TRIES) { try_again(); } }
//     else if (meta.way.from == FROM_BELOW) { send_notice(); }
//
// So a failure two hops away costs the packets of one round trip for each destination and `hold`, without a controller. Destinations share 65,536
// places by hash; one that shares the place of another one avoids its broken ways, too.

// By destination: time of the last notice, and a bit for each port (modulo 32) behind which the way is broken.
register<bit<64>>(65536) broken;
// 0: notices that were taken, 1: notes from hosts or from below, or of another kind.
counter(2, CounterType.packets) notices;

action set_hold(bit<32> hold) {
    meta.way.hold = hold;
}

table notice_config {
    actions = { set_hold; }
    default_action = set_hold(0);
    size = 1;
}

action from_below() {
    meta.way.from = FROM_BELOW;
}

action from_above() {
    meta.way.from = FROM_ABOVE;
}

// The ports to other switches.
table neighbours {
    key = { standard_metadata.ingress_port: exact @name("port"); }
    actions = { from_below; from_above; @defaultonly NoAction; }
    default_action = NoAction();
    size = 512;
}

action find_ways() {
    bit<32> to = hdr.ipv4.isValid() ? hdr.ipv4.dst : (hdr.ipv6.isValid() ? hdr.ipv6.dst[31:0] : 32w0);
    hash(meta.way.place, HashAlgorithm.crc32, 16w0, { to }, 32w65536);
    broken.read(meta.way.cell, (bit<32>)meta.way.place);
    meta.way.now = standard_metadata.ingress_global_timestamp[31:0];
}

action keep_notice() {
    find_ways();
    broken.write((bit<32>)meta.way.place,
                 meta.way.now ++ (meta.way.cell[31:0] | 32w1 << (bit<8>)standard_metadata.ingress_port[4:0]));
    notices.count(0);
}

// What is known of the ways to the destination. When it is older than `hold`, one packet in eight forgets it, and tries them again: a flow that sends
// single packets, always longer than `hold` apart, would otherwise lose all of them.
action recall_ways() {
    find_ways();
    random(meta.way.drawn, 8w0, 8w7);
    bool fresh = meta.way.hold != 0 && (meta.way.drawn != 0 || meta.way.now - meta.way.cell[63:32] < meta.way.hold);
    meta.way.cell = fresh ? meta.way.cell : 64w0;
    broken.write((bit<32>)meta.way.place, meta.way.cell);
}

// Whether the way that was chosen is broken.
action check_way() {
    meta.way.broken = (meta.way.cell[31:0] >> (bit<8>) standard_metadata.egress_spec[4:0])[0:0] == 1;
}

action refuse_note() {
    notices.count(1);
}

// The next one of equal next hops.
action next_try() {
    meta.fabric.hash = meta.fabric.hash + (bit<32>)meta.way.tries;
}

action try_again() {
    meta.way.tries = meta.way.tries + 1;
    resubmit_preserving_field_list(WAY_FIELDS);
}

action send_notice() {
    hdr.note.setValid();
    hdr.note = { NOTE_BROKEN, 0, hdr.ethernet.ethertype };
    mac_t own = hdr.ethernet.dst;
    hdr.ethernet = { hdr.ethernet.src, own, ETHERTYPE_NOTE };
    standard_metadata.egress_spec = standard_metadata.ingress_port;
    truncate(NOTICE_BYTES);
}
