// SPDX-License-Identifier: Apache-2.0
// Forwards IPv4 packets between hosts of zones: the entries of source and destination say whether a packet passes, that of its next hop where it leaves. The
// entries are in the memory of servers, in two tables (docs/tea.md), or with `-D PLAIN` in tables of the switch.

#include <core.p4>
#include <v1model.p4>

#define TEA_TABLES
#define TEA_KEY_BYTES 8
#define TEA_VALUE_BYTES 8
#define TEA_NOTE_BYTES 5
#include <pointsman/tea.p4>
#include <pointsman/tea/flows.p4>

// Of each table with -D PLAIN.
#ifndef FLOW_ENTRIES
#define FLOW_ENTRIES 65536
#endif

// Numbers of tables.
const bit<8> HOSTS = 1;
const bit<8> HOPS = 2;

// A host's value: 4 bits of 0, its zone; 2 bits of 0, the DSCP of packets from it; a bit for each zone from which packets pass; the number of its next hop.
#define HOST_ZONE(value) value[59:56]
#define HOST_DSCP(value) value[53:48]
#define HOST_ZONES(value) value[47:32]
#define HOST_HOP(value) value[31:0]

// A next hop's value: 7 bits of 0, its port, its MAC address.
#define HOP_PORT(value) value[56:48]
#define HOP_MAC(value) value[47:0]

control FlowIngress(inout headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    // Packets that their destination does not take.
    counter(1, CounterType.packets) refused;

    action drop() {
        mark_to_drop(standard_metadata);
    }

    // Packets of unknown hosts, or whose next hop is unknown: they leave as they came.
    action to_port(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    table unknown {
        actions = { to_port; drop; }
        default_action = drop;
        size = 1;
    }

#ifdef PLAIN
    action source_entry(tea_value_t value) {
        meta.tea.found = true;
        meta.tea.value = value;
    }

    action destination_entry(tea_value_t value) {
        meta.tea.found2 = true;
        meta.tea.value2 = value;
    }

    table sources {
        key = { hdr.ipv4.src: exact @name("address"); }
        actions = { source_entry; NoAction; }
        const default_action = NoAction;
        size = FLOW_ENTRIES;
    }

    table destinations {
        key = { hdr.ipv4.dst: exact @name("address"); }
        actions = { destination_entry; NoAction; }
        const default_action = NoAction;
        size = FLOW_ENTRIES;
    }

    table hops {
        key = { meta.tea.note[31:0]: exact @name("hop"); }
        actions = { source_entry; NoAction; }
        const default_action = NoAction;
        size = FLOW_ENTRIES;
    }
#else
    TeaArrive() arrive;
    TeaFindAll() find;
    TeaNext() next;
    TeaLoad() load;
#endif

    apply {
#ifdef PLAIN
        bool here = true;
#else
        arrive.apply(hdr.tea, meta.tea, standard_metadata);
        bool here = meta.tea.step == TEA_PROGRAM;
#endif
        if (here && (!hdr.ipv4.isValid() || standard_metadata.checksum_error == 1)) {
            drop();
            here = false;
        }
        bool is_unknown = false;
        bool is_refused = false;
        if (here && meta.tea.round == 0) {
            // Both hosts at once.
#ifdef PLAIN
            sources.apply();
            destinations.apply();
#else
            meta.tea.key = TEA_KEY(HOSTS, 24w0 ++ hdr.ipv4.src);
            meta.tea.key2 = TEA_KEY(HOSTS, 24w0 ++ hdr.ipv4.dst);
            meta.tea.has_key2 = true;
        } else if (here) {
            meta.tea.key = TEA_KEY(HOPS, 24w0 ++ meta.tea.note[31:0]);
        }
        if (here) {
            find.apply(meta.tea, standard_metadata);
            here = meta.tea.step == TEA_PROGRAM;
        }
        if (here && meta.tea.round == 0) {
#endif
            bit<16> zones = HOST_ZONES(meta.tea.value2) >> HOST_ZONE(meta.tea.value);
            if (!meta.tea.found || !meta.tea.found2) {
                is_unknown = true;
            } else if (zones[0:0] == 0) {
                is_refused = true;
                drop();
            } else {
                meta.passes = true;
                meta.tea.note = 2w0 ++ HOST_DSCP(meta.tea.value) ++ HOST_HOP(meta.tea.value2);
            }
            here = meta.passes;
#ifdef PLAIN
            if (here) {
                meta.tea.found = false;
                hops.apply();
            }
#else
            if (here) {
                // What is known by now comes back with the packet, as its note.
                next.apply(meta.tea);
                here = false;
            }
#endif
        }
        if (here) {
            if (meta.tea.found) {
                standard_metadata.egress_spec = HOP_PORT(meta.tea.value);
                hdr.ethernet.dst = HOP_MAC(meta.tea.value);
                hdr.ipv4.version_ihl_tos = hdr.ipv4.version_ihl_tos[15:8] ++ meta.tea.note[37:32] ++ hdr.ipv4.version_ihl_tos[1:0];
            } else {
                is_unknown = true;
            }
        }
        if (is_refused) {
            refused.count(0);
        }
        if (is_unknown) {
            unknown.apply();
        }
#ifndef PLAIN
        if (here || is_unknown) {
            load.apply(standard_metadata);
        }
#endif
    }
}

#define FLOW_OWN_INGRESS
#include <pointsman/tea/flow_switch.p4>
