// The rest of a program that looks up flows: see <pointsman/tea/flows.p4>.

#ifndef POINTSMAN_TEA_FLOW_SWITCH_P4
#define POINTSMAN_TEA_FLOW_SWITCH_P4

// Of -D PLAIN.
#ifndef FLOW_ENTRIES
#define FLOW_ENTRIES 1048576
#endif

control FlowVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        TEA_VERIFY(hdr.tea, meta.tea);
    }
}

control FlowIngress(inout headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
#ifndef PLAIN
    TeaArrive() arrive;
    TeaFind() find;
    TeaLoad() load;
#endif
    FlowKey() key;
    FlowApply() application;

    action forward(bit<9> port, bit<48> mac) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.dst = mac;
    }

    action drop() {
        mark_to_drop(standard_metadata);
    }

    table routes {
        key = { hdr.ipv4.dst: lpm @name("prefix"); }
        actions = { forward; drop; }
        default_action = drop;
        size = 1024;
    }

    // Packets without an entry, such as the first one of a flow: they leave as they came.
    action to_port(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    table unknown {
        actions = { to_port; drop; }
        default_action = drop;
        size = 1;
    }

#ifdef PLAIN
    action entry(tea_value_t value) {
        meta.tea.found = true;
        meta.tea.value = value;
    }

    table entries {
        key = { meta.tea.key: exact @name("key"); }
        actions = { entry; NoAction; }
        const default_action = NoAction;
        size = FLOW_ENTRIES;
    }
#endif

    apply {
#ifdef PLAIN
        bool here = true;
#else
        arrive.apply(hdr.tea, meta.tea, standard_metadata);
        bool here = meta.tea.step == TEA_PROGRAM;
#endif
        if (here) {
            if (!hdr.ports.isValid()) {
                drop();
            } else {
                key.apply(hdr, meta);
                if (meta.looks_up) {
#ifdef PLAIN
                    entries.apply();
#else
                    find.apply(meta.tea, standard_metadata);
#endif
                }
                if (meta.tea.step == TEA_PROGRAM) {
                    meta.passes = true;
                    application.apply(hdr, meta);
                    if (!meta.passes) {
                        drop();
                    } else if (meta.looks_up && !meta.tea.found) {
                        unknown.apply();
                    } else {
                        routes.apply();
                    }
#ifndef PLAIN
                    load.apply(standard_metadata);
#endif
                }
            }
        }
    }
}

control FlowEgress(inout headers_t hdr,
                   inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
#ifndef PLAIN
    TeaDepart() depart;
#endif

    apply {
#ifndef PLAIN
        depart.apply(hdr.tea, meta.tea, standard_metadata);
#endif
    }
}

control FlowCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        TEA_COMPUTE(hdr.tea);
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.version_ihl_tos[11:8] == 5,
                        { hdr.ipv4.version_ihl_tos, hdr.ipv4.len, hdr.ipv4.id, hdr.ipv4.fragment, hdr.ipv4.ttl,
                          hdr.ipv4.proto, hdr.ipv4.src, hdr.ipv4.dst },
                        hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control FlowDeparser(packet_out packet, in headers_t hdr) {
    apply {
        TEA_EMIT(packet, hdr.tea);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ports);
        packet.emit(hdr.tcp);
        packet.emit(hdr.udp);
    }
}

V1Switch(FlowParser(), FlowVerify(), FlowIngress(), FlowEgress(), FlowCompute(), FlowDeparser()) main;

#endif
