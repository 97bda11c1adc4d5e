// SPDX-License-Identifier: Apache-2.0
// Translates addresses and ports of IPv4 connections, with an entry for each direction of a connection: the entries are in the memory of servers
// (docs/tea.md), or with `-D PLAIN` in a table of the switch.

#include <core.p4>
#include <v1model.p4>

#define TEA_KEY_BYTES 16
#define TEA_VALUE_BYTES 8
#include <pointsman/tea.p4>
#include <pointsman/tea/flows.p4>

control FlowKey(inout headers_t hdr, inout metadata_t meta) {
    apply {
        meta.tea.key = hdr.ipv4.src ++ hdr.ipv4.dst ++ hdr.ports.src ++ hdr.ports.dst ++ 24w0 ++ hdr.ipv4.proto;
        meta.looks_up = true;
    }
}

// A value: 1 if the destination is replaced, 0 if the source; the new port; the new address.
control FlowApply(inout headers_t hdr, inout metadata_t meta) {
    FlowTranslate() translate;

    apply {
        if (meta.tea.found) {
            translate.apply(hdr, meta.tea.value[48:48] == 1, meta.tea.value[47:0]);
        }
    }
}

#include <pointsman/tea/flow_switch.p4>
