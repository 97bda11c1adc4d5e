// SPDX-License-Identifier: Apache-2.0
// Translates addresses and ports of IPv4 connections, and with `-D NAT_IPV6` those of IPv6, too, with an entry for each direction of a connection: the entries are in the memory of servers
// (docs/tea.md), or with `-D PLAIN` in a table of the switch. Echoes have entries, too; errors of ICMP and ICMPv6 are translated by those of the packets that they quote.

#include <core.p4>
#include <v1model.p4>

#ifdef NAT_IPV6
#define FLOW_IPV6
#define TEA_KEY_BYTES 40
#define TEA_VALUE_BYTES 20
#else
#define TEA_KEY_BYTES 16
#define TEA_VALUE_BYTES 8
#endif
#define FLOW_ICMP
#include <pointsman/tea.p4>
#include <pointsman/tea/flows.p4>
#include <pointsman/tea/icmp.p4>

control FlowKey(inout headers_t hdr, inout metadata_t meta) {
    FlowIcmpKey() icmp_key;

    apply {
        if (hdr.ports.isValid()) {
            meta.tea.key = FLOW_SOURCE(hdr) ++ FLOW_DESTINATION(hdr) ++ hdr.ports.src ++ hdr.ports.dst ++ 24w0 ++ FLOW_PROTOCOL(hdr);
        } else {
            icmp_key.apply(hdr, meta.tea.key);
        }
        meta.looks_up = true;
    }
}

#define NAT_ADDRESS_BITS (8 * TEA_VALUE_BYTES - 32)

// A value: 1 if the destination is replaced, 0 if the source; the new port, or an echo's new identifier; the new address, which must be of the packet's family.
control FlowApply(inout headers_t hdr, inout metadata_t meta) {
    FlowTranslate() translate;
    FlowTranslateEcho() translate_echo;
    FlowTranslateError() translate_error;

    apply {
        flow_address_t address = meta.tea.value[NAT_ADDRESS_BITS - 1:0];
        bit<16> port = meta.tea.value[NAT_ADDRESS_BITS + 15:NAT_ADDRESS_BITS];
        bool destination = meta.tea.value[NAT_ADDRESS_BITS + 16:NAT_ADDRESS_BITS + 16] == 1;
        if (meta.tea.found) {
            if (!FLOW_FITS(hdr, address)) {
                meta.passes = false;
            } else if (hdr.ports.isValid()) {
                translate.apply(hdr, destination, port, address);
            } else if (hdr.echo.isValid()) {
                translate_echo.apply(hdr, destination, port, address);
            } else {
                translate_error.apply(hdr, destination, port, address);
            }
        }
    }
}

#include <pointsman/tea/flow_switch.p4>
