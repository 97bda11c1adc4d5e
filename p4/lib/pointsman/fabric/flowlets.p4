// Part of an ingress control: a table of flowlets, after routes.p4. `metadata_t` needs `flowlet_t flowlet`.
//
// A flowlet is a run of packets of a flow without a gap of `gap` ticks. The table remembers a number for each, which the program chooses:
//
//     find_flowlet();                       // meta.flowlet: choice, and whether it counts
//     if (!meta.flowlet.live) { ... }       // a new flowlet, or no slot: choose, into meta.flowlet.choice
//     keep_flowlet();
//
// A slot is that of a flow if 16 bits of its hash are equal; 16 others find the slot. A slot whose last packet is older than the gap is
// free. If another flow's flowlet has the slot, `taken` is set, nothing is kept, and the program uses meta.fabric.hash: all packets of the flow
// take one way meanwhile. Times have 32 bits: a flow that was idle for a multiple of 2^32 ticks can find its old number again.

// Time of the last packet, key, choice.
register<bit<64>>(65536) flowlets;

action set_gap(bit<32> gap) {
    meta.flowlet.gap = gap;
}

table flowlet_config {
    actions = { set_gap; }
    default_action = set_gap(0);
    size = 1;
}

action find_flowlet() {
    flowlets.read(meta.flowlet.cell, (bit<32>)meta.fabric.flow[15:0]);
    meta.flowlet.now = standard_metadata.ingress_global_timestamp[31:0];
    meta.flowlet.mine = meta.flowlet.cell[31:16] == meta.fabric.flow[31:16];
    meta.flowlet.fresh = meta.flowlet.now - meta.flowlet.cell[63:32] < meta.flowlet.gap;
    meta.flowlet.live = meta.flowlet.mine && meta.flowlet.fresh;
    meta.flowlet.taken = !meta.flowlet.mine && meta.flowlet.fresh;
    meta.flowlet.choice = meta.flowlet.cell[15:0];
}

action keep_flowlet() {
    flowlets.write((bit<32>)meta.fabric.flow[15:0],
                   meta.flowlet.now ++ meta.fabric.flow[31:16] ++ meta.flowlet.choice);
}
