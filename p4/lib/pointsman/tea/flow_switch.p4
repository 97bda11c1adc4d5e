// The rest of a program that looks up packets by TEA, or with `-D PLAIN` in a table of the switch. The program defines, before it includes this file,
//
//     headers_t with `tea` and `ethernet`, metadata_t with `tea`, `looks_up` and `passes`, FlowParser, FlowCompute, FlowDeparser
//     FLOW_KNOWN(hdr)                                                  whether a packet is one that the program knows; others are dropped
//     FLOW_TARGET(hdr, meta)                                           the address by which it is routed
//     FLOW_VERIFY(hdr)                                                 if it computes the checksum of a header that came: verifies it in packets that are no answers
//     control FlowKey(inout headers_t hdr, inout metadata_t meta)      sets meta.tea.key and, if the packet is to be looked up, meta.looks_up
//     control FlowApply(inout headers_t hdr, inout metadata_t meta)    takes meta.tea.found and meta.tea.value, and clears meta.passes if the packet ends
//
// With FLOW_OWN_INGRESS it defines, in the place of what comes behind FlowDeparser, the control FlowIngress.
//
// For TCP and UDP over IPv4, <pointsman/tea/flows.p4> has all but the controls FlowKey and FlowApply.

#ifndef POINTSMAN_TEA_FLOW_SWITCH_P4
#define POINTSMAN_TEA_FLOW_SWITCH_P4

// Of -D PLAIN.
#ifndef FLOW_ENTRIES
#define FLOW_ENTRIES 1048576
#endif

control FlowVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        TEA_VERIFY(hdr.tea, meta.tea);
#ifdef FLOW_VERIFY
        FLOW_VERIFY(hdr);
#endif
    }
}

#ifndef FLOW_OWN_INGRESS
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
        key = { FLOW_TARGET(hdr, meta): lpm @name("prefix"); }
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
        meta.tea.in_port = standard_metadata.ingress_port;
        meta.tea.begun = standard_metadata.ingress_global_timestamp;
#else
        arrive.apply(hdr.tea, meta.tea, standard_metadata);
        bool here = meta.tea.step == TEA_PROGRAM;
#endif
        if (here) {
            if (!FLOW_KNOWN(hdr) || standard_metadata.checksum_error == 1) {
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
#endif

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

V1Switch(FlowParser(), FlowVerify(), FlowIngress(), FlowEgress(), FlowCompute(), FlowDeparser()) main;

#endif
