// Part of an ingress control: whether a packet is among the first bytes of its flow, after routes.p4. `metadata_t` needs `seen_t seen`.
//
//     class_config.apply();
//     if (meta.seen.first_bytes != 0) { count_bytes(); ... }       // meta.seen.first
//
// 16 bits of a flow's hash find its cell, and flows that share one are counted together. A flow that pauses for longer than `pause` ticks is counted
// from 0 again. Short packets, such as acknowledgments, do not count as bytes. Times have 32 bits.

// By flow: time of its last packet, and bytes so far.
register<bit<64>>(65536) seen;

action set_class(bit<32> first_bytes, bit<32> pause) {
    meta.seen.first_bytes = first_bytes;
    meta.seen.pause = pause;
}

// 0 bytes: nothing is counted.
table class_config {
    actions = { set_class; }
    default_action = set_class(0, 0);
    size = 1;
}

action count_bytes() {
    seen.read(meta.seen.cell, (bit<32>)meta.fabric.flow[15:0]);
    meta.seen.now = standard_metadata.ingress_global_timestamp[31:0];
    meta.seen.bytes = meta.seen.now - meta.seen.cell[63:32] > meta.seen.pause ? 32w0 : meta.seen.cell[31:0];
    meta.seen.first = meta.seen.bytes < meta.seen.first_bytes;
    meta.seen.bytes = standard_metadata.packet_length > 128 && meta.seen.first
        ? meta.seen.bytes + standard_metadata.packet_length
        : meta.seen.bytes;
    seen.write((bit<32>)meta.fabric.flow[15:0], meta.seen.now ++ meta.seen.bytes);
}
