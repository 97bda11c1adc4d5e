// SPDX-License-Identifier: Apache-2.0
// A load balancer for TCP and UDP over IPv4: the entry of a flow to a virtual address names its server. Flows without one go to the control plane, which adds
// it. The entries are in the memory of servers (docs/tea.md), or with `-D PLAIN` in a table of the switch.

#include <core.p4>
#include <v1model.p4>

#define TEA_KEY_BYTES 16
#define TEA_VALUE_BYTES 8
#include <pointsman/tea.p4>
#include <pointsman/tea/flows.p4>

// Flows to virtual addresses are looked up; other packets are forwarded, those of servers with the virtual address as their source.
control FlowKey(inout headers_t hdr, inout metadata_t meta) {
    action balanced() {
        meta.looks_up = true;
    }

    table virtual {
        key = {
            hdr.ipv4.dst: exact @name("address");
            hdr.ports.dst: exact @name("port");
        }
        actions = { balanced; NoAction; }
        const default_action = NoAction;
        size = 1024;
    }

    apply {
        virtual.apply();
        meta.tea.key = hdr.ipv4.src ++ hdr.ipv4.dst ++ hdr.ports.src ++ hdr.ports.dst ++ 24w0 ++ hdr.ipv4.proto;
    }
}

// A value: 16 bits of 0, the server's port, its address.
control FlowApply(inout headers_t hdr, inout metadata_t meta) {
    FlowTranslate() translate;

    action answered_for(bit<16> port, bit<32> address) {
        meta.tea.value[47:0] = port ++ address;
    }

    // The virtual address and port for which a server answers.
    table servers {
        key = {
            hdr.ipv4.src: exact @name("address");
            hdr.ports.src: exact @name("port");
        }
        actions = { answered_for; NoAction; }
        const default_action = NoAction;
        size = 4096;
    }

    apply {
        bool translates = meta.tea.found;
        if (!meta.looks_up) {
            translates = servers.apply().hit;
        }
        if (translates) {
            translate.apply(hdr, meta.looks_up, meta.tea.value[47:32], meta.tea.value[31:0]);
        }
    }
}

#include <pointsman/tea/flow_switch.p4>
