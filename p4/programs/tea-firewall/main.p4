// SPDX-License-Identifier: Apache-2.0
// A stateful firewall for TCP and UDP over IPv4. Packets from outside pass only if they belong to a connection that has an entry; those from inside without one
// go to the control plane, which adds it. The entries are in the memory of servers (docs/tea.md), or with `-D PLAIN` in a table of the switch.

#include <core.p4>
#include <v1model.p4>

#define TEA_KEY_BYTES 16
#define TEA_VALUE_BYTES 4
#include <pointsman/tea.p4>
#include <pointsman/tea/flows.p4>

// Both directions of a connection have one key: the inner end, then the outer one.
control FlowKey(inout headers_t hdr, inout metadata_t meta) {
    action inside() {
        meta.inside = true;
    }

    action outside() {
        meta.inside = false;
    }

    // Where connections may begin, by the prefix of the source.
    table sides {
        key = { hdr.ipv4.src: lpm @name("prefix"); }
        actions = { inside; outside; }
        default_action = outside;
        size = 1024;
    }

    apply {
        sides.apply();
        bit<96> ends = hdr.ipv4.src ++ hdr.ipv4.dst ++ hdr.ports.src ++ hdr.ports.dst;
        if (!meta.inside) {
            ends = hdr.ipv4.dst ++ hdr.ipv4.src ++ hdr.ports.dst ++ hdr.ports.src;
        }
        meta.tea.key = ends ++ 24w0 ++ hdr.ipv4.proto;
        meta.looks_up = true;
    }
}

// A value: 1 if packets from outside pass; 6 bits for the DSCP of the connection's packets.
control FlowApply(inout headers_t hdr, inout metadata_t meta) {
    // Packets from outside that belong to no open connection.
    counter(1, CounterType.packets) refused;

    apply {
        bool is_open = meta.tea.found && meta.tea.value[31:31] == 1;
        if (!meta.inside && !is_open) {
            refused.count(0);
            meta.passes = false;
        } else if (meta.tea.found) {
            hdr.ipv4.version_ihl_tos = hdr.ipv4.version_ihl_tos[15:8] ++ meta.tea.value[5:0] ++ hdr.ipv4.version_ihl_tos[1:0];
        }
    }
}

#include <pointsman/tea/flow_switch.p4>
