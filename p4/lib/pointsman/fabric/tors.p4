// Part of an ingress control: which top-of-rack switch (ToR) a destination is behind, and next hops by ToR and port; after routes.p4.
// `metadata_t` needs `bit<24> tor`, 0 for none, and `port_t hop`.

action set_tor(bit<24> tor) {
    meta.tor = tor;
}

// Destinations behind other ToRs than this one.
table tors_v4 {
    key = { hdr.ipv4.dst: lpm @name("prefix"); }
    actions = { set_tor; @defaultonly NoAction; }
    default_action = NoAction();
    size = 4096;
}

table tors_v6 {
    key = { hdr.ipv6.dst: lpm @name("prefix"); }
    actions = { set_tor; @defaultonly NoAction; }
    default_action = NoAction();
    size = 4096;
}

// The ports on ways to a ToR: groups of one member, which counts only while its port has a carrier.
table hops {
    key = {
        meta.tor: exact @name("tor");
        meta.hop: exact @name("port");
        meta.fabric.hash: selector;
    }
    actions = { forward; drop; }
    implementation = next_hops;
    size = 16384;
}
