// SPDX-License-Identifier: Apache-2.0
// A VPN gateway for IPv4 and IPv6. Hosts behind tunnels have an entry, which says where their tunnel ends: packets to them enter the tunnel, and packets of theirs
// leave it if they came by the right one. The tunnels are GRE with a key (RFC 2784, RFC 2890) over IPv4 or IPv6; nothing is encrypted. The entries are in the
// memory of servers (docs/tea.md), or with `-D PLAIN` in a table of the switch.

#include <core.p4>
#include <v1model.p4>

// With `-D VPN_IPV4` hosts and ends of tunnels have IPv4 addresses, and entries 16 bytes in the place of 40.
#ifdef VPN_IPV4
#define VPN_ADDRESS_BITS 32
#define VPN_IS_IPV4(address) true
#define TEA_KEY_BYTES 8
#define TEA_VALUE_BYTES 8
#else
#define VPN_ADDRESS_BITS 128
#define VPN_IS_IPV4(address) ((address)[127:32] == 0xffff)
#define TEA_KEY_BYTES 20
#define TEA_VALUE_BYTES 20
#endif
#include <pointsman/tea.p4>
#include <pointsman/tea/vpn/headers.p4>

// For <pointsman/tea/flow_switch.p4>.
#define FLOW_KNOWN(hdr) (hdr.ipv4.isValid() || hdr.ipv6.isValid())
#define FLOW_TARGET(hdr, meta) meta.target

#include <pointsman/tea/vpn/parser.p4>

// Packets that stay on their link: those to groups, such as reports of multicast listeners, and to or from an address of the link (RFC 4291, section 2.5.6).
#define VPN_STAYS(ip) (ip.isValid() && (ip.dst[127:120] == 0xff || ip.dst[127:118] == 0x3fa || ip.src[127:118] == 0x3fa))

// The entry of a packet is that of the host behind the tunnel: of its target, or of its source if it leaves the tunnel here.
control FlowKey(inout headers_t hdr, inout metadata_t meta) {
    // Packets in tunnels to this address leave them here, and go where they are to.
    action leave() {
        meta.arrives = true;
    }

    // They continue in the tunnel of their target.
    action continue_in_tunnel() {
        meta.arrives = true;
        meta.continues = true;
    }

    // The gateway's addresses.
    table gateways {
        key = { meta.target: exact @name("address"); }
        actions = { leave; continue_in_tunnel; NoAction; }
        const default_action = NoAction;
        size = 64;
    }

    // Packets that come in by this port without a tunnel are of this network.
    action network(bit<32> number) {
        meta.network = number;
        meta.looks_up = true;
    }

    table networks {
        key = { meta.tea.in_port: exact @name("port"); }
        actions = { network; NoAction; }
        const default_action = NoAction;
        size = 512;
    }

    apply {
        if (hdr.ipv4.isValid()) {
            meta.source = VPN_OF_IPV4(hdr.ipv4.src);
            meta.target = VPN_OF_IPV4(hdr.ipv4.dst);
        } else {
            meta.source = VPN_OF_IPV6(hdr.ipv6.src);
            meta.target = VPN_OF_IPV6(hdr.ipv6.dst);
        }
        address_t host = meta.target;
        gateways.apply();
        if (!meta.arrives) {
            networks.apply();
        } else {
            meta.looks_up = hdr.inner4.isValid() || hdr.inner6.isValid();
            meta.network = hdr.tunnel.key;
            if (hdr.inner4.isValid()) {
                host = VPN_OF_IPV4(meta.continues ? hdr.inner4.dst : hdr.inner4.src);
            } else {
                host = VPN_OF_IPV6(meta.continues ? hdr.inner6.dst : hdr.inner6.src);
            }
        }
#ifdef VPN_IPV4
        if (hdr.ipv6.isValid() || hdr.inner6.isValid()) {
            meta.looks_up = false;
        }
#endif
        if (meta.arrives ? VPN_STAYS(hdr.inner6) : VPN_STAYS(hdr.ipv6)) {
            meta.looks_up = false;
        }
        meta.tea.key = meta.network ++ host;
    }
}

#include <pointsman/tea/vpn/leave.p4>
#include <pointsman/tea/vpn/enter.p4>

// A value: the address at which the host's tunnel ends, and the key of packets to it.
control FlowApply(inout headers_t hdr, inout metadata_t meta) {
    LeaveTunnel() leave_tunnel;
    EnterTunnel() enter_tunnel;
    // Packets of no network, that are not in a tunnel to a gateway's address, or that came by another tunnel than that of their source.
    counter(1, CounterType.packets) refused;

    apply {
        bool is_right = meta.tea.found && meta.tea.value[8 * TEA_VALUE_BYTES - 1:32] == meta.source;
        bool leaves = meta.arrives && !meta.continues;
        if (!meta.looks_up || leaves && !is_right) {
            meta.passes = false;
        } else if (meta.arrives && meta.tea.found) {
            leave_tunnel.apply(hdr, meta);
        }
        if (!meta.passes) {
            refused.count(0);
        } else if (meta.tea.found && !leaves) {
            enter_tunnel.apply(hdr, meta);
        }
    }
}

#include <pointsman/tea/vpn/deparser.p4>
#include <pointsman/tea/flow_switch.p4>
