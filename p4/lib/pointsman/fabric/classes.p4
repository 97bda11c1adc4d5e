// Part of an ingress control: whether a packet is among the first bytes of its flow, after routes.p4. `metadata_t` needs `bool is_first`.
//
//     switch (class_config.apply().action_run) {       // by default nothing is counted
//         set_class: { ... }                           // meta.is_first
//     }
//
// 16 bits of a flow's hash find its cell, and flows that share one are counted together. Short packets, such as acknowledgments, do not count as
// bytes. Times have 32 bits.

// By flow: time of its last packet, and bytes so far.
register<bit<64>>(65536) seen;

// The first bytes are so many; a flow that pauses for longer than `pause` ticks is counted from 0 again.
action set_class(bit<32> first_bytes, bit<32> pause) {
    bit<64> cell;
    seen.read(cell, (bit<32>)meta.fabric.flow[15:0]);
    bit<32> now = standard_metadata.ingress_global_timestamp[31:0];
    bit<32> bytes = now - cell[63:32] > pause ? 32w0 : cell[31:0];
    meta.is_first = bytes < first_bytes;
    bytes = standard_metadata.packet_length > 128 && meta.is_first ? bytes + standard_metadata.packet_length : bytes;
    seen.write((bit<32>)meta.fabric.flow[15:0], now ++ bytes);
}

table class_config {
    actions = { set_class; NoAction; }
    default_action = NoAction();
    size = 1;
}
