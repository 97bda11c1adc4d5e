// Part of an ingress control: how busy each port's line is. `metadata_t` needs `load_t load`.
//
// For each port, U is the time in ticks that its line needs for what was sent to it, with a decay: U := U (1 - dt / tau) + time of the packet,
// where dt is the time since the last packet, and at most tau. At a constant rate U is tau times the utilisation. Tau is a power of two, so
//
//     U := U - (U * dt >> shift) + (bytes * pace >> 16)        utilisation in 256ths := U >> (shift - 8)
//
// with 64-bit intermediates. U counts what ingress sends to a port, which may be more than the line carries: the utilisation ends at 256.
// The decay is rounded down: with packets every d ticks, a U below tau / d does not decrease. That is less than 256ths if d is more
// than a hundredth of tau divided by 256, and far below 1 % otherwise.
//
// Times have 32 bits, because a pipeline stage changes 64 bits at once: a line that has been idle for a multiple of 2^32 ticks (4.3 s if they are
// nanoseconds) counts as if its last packet were less than tau ago, until tau has elapsed or a packet is sent to it.

// Time of the last packet, U.
register<bit<64>>(512) loads;

action set_shift(bit<8> shift) {
    meta.load.shift = shift;
}

table load_config {
    actions = { set_shift; }
    default_action = set_shift(19);
    size = 1;
}

action set_pace(bit<32> pace) {
    meta.load.pace = pace;
}

table lines {
    key = { standard_metadata.egress_spec: exact @name("port"); }
    actions = { set_pace; @defaultonly NoAction; }
    default_action = NoAction();
    size = 512;
}

// U of a port now: `meta.load.busy`, and `utilisation`.
action read_load(port_t port) {
    loads.read(meta.load.cell, (bit<32>)port);
    meta.load.now = standard_metadata.ingress_global_timestamp[31:0];
    meta.load.age = meta.load.now - meta.load.cell[63:32];
    meta.load.busy = meta.load.age >> meta.load.shift != 0
        ? 64w0
        : (bit<64>)meta.load.cell[31:0] - ((bit<64>)meta.load.cell[31:0] * (bit<64>)meta.load.age >> meta.load.shift);
    meta.load.utilisation = meta.load.busy >> (meta.load.shift - 8) > 256
        ? 16w256
        : (bit<16>)(meta.load.busy >> (meta.load.shift - 8));
}

// The packet goes to this port.
action add_load(port_t port) {
    read_load(port);
    meta.load.busy = meta.load.busy + ((bit<64>)standard_metadata.packet_length * (bit<64>)meta.load.pace >> 16);
    loads.write((bit<32>)port, meta.load.now ++ (meta.load.busy > 0xffffffff ? 32w0xffffffff : (bit<32>)meta.load.busy));
    meta.load.utilisation = meta.load.busy >> (meta.load.shift - 8) > 256
        ? 16w256
        : (bit<16>)(meta.load.busy >> (meta.load.shift - 8));
}
