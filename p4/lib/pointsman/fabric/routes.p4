// Part of an ingress control: next hops, routes, and the hash that chooses among equal next hops. Include it between the braces of a
// control with the parameters `hdr`, `meta` and `standard_metadata`.
//
// Members of a group watch their port, so that the switch leaves out a port without a carrier before any controller knows of it; a
// group without a usable member does nothing, and `meta.fabric.forwarded` stays false.

action_selector(HashAlgorithm.identity, 4096, 32) next_hops;

action drop() {
    mark_to_drop(standard_metadata);
}

action forward(port_t port, mac_t src, mac_t dst, bit<32> mark_after) {
    standard_metadata.egress_spec = port;
    hdr.ethernet.src = src;
    hdr.ethernet.dst = dst;
    meta.fabric.mark_after = mark_after;
    meta.fabric.forwarded = true;
}

// A CRC is linear: a seed alone would only renumber the choices of the switch before this one. The rotation makes switches
// choose by different bits.
action set_seed(bit<32> seed, bit<8> rotation) {
    meta.fabric.seed = seed;
    meta.fabric.rotation = rotation;
}

action rotate() {
    meta.fabric.hash =
        meta.fabric.flow << meta.fabric.rotation | meta.fabric.flow >> (32 - meta.fabric.rotation);
}

// A packet on its way through one more switch.
action start_v4() {
    hash(meta.fabric.flow, HashAlgorithm.crc32, 32w0,
         { hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.proto, meta.fabric.ports, meta.fabric.seed }, 64w0x100000000);
    rotate();
    hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
}

action start_v6() {
    hash(meta.fabric.flow, HashAlgorithm.crc32, 32w0,
         { hdr.ipv6.src, hdr.ipv6.dst, hdr.ipv6.next_header, meta.fabric.ports, meta.fabric.seed }, 64w0x100000000);
    rotate();
    hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
}

table switch_config {
    actions = { set_seed; }
    default_action = set_seed(0, 0);
    size = 1;
}

table routes_v4 {
    key = {
        hdr.ipv4.dst: lpm @name("prefix");
        meta.fabric.hash: selector;
    }
    actions = { forward; drop; }
    implementation = next_hops;
    size = 16384;
}

// Half as many as of IPv4: ternary memory has three times as many bits for each.
table routes_v6 {
    key = {
        hdr.ipv6.dst: lpm @name("prefix");
        meta.fabric.hash: selector;
    }
    actions = { forward; drop; }
    implementation = next_hops;
    size = 8192;
}
