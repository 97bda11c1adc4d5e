// Of the VPN gateway: the end of a tunnel.

#ifndef POINTSMAN_TEA_VPN_LEAVE_P4
#define POINTSMAN_TEA_VPN_LEAVE_P4

// Removes the tunnel that the packet came in. A mark of congestion moves to the inner header, or ends a packet that cannot have one (RFC 6040).
control LeaveTunnel(inout headers_t hdr, inout metadata_t meta) {
    apply {
        bit<2> congestion = hdr.ipv6.tos[1:0];
        if (hdr.ipv4.isValid()) {
            congestion = hdr.ipv4.tos[1:0];
        }
        hdr.ipv4.setInvalid();
        hdr.ipv6.setInvalid();
        hdr.tunnel.setInvalid();
        if (hdr.inner4.isValid()) {
            hdr.ethernet.ethertype = IPV4;
            meta.target = VPN_OF_IPV4(hdr.inner4.dst);
            if (congestion == CONGESTED) {
                bit<8> old_tos = hdr.inner4.tos;
                meta.passes = old_tos[1:0] != 0;
                hdr.inner4.tos[1:0] = CONGESTED;
                // RFC 1624.
                hash(hdr.inner4.checksum, HashAlgorithm.csum16, 16w0,
                     { ~hdr.inner4.checksum, ~(hdr.inner4.version_ihl ++ old_tos),
                       hdr.inner4.version_ihl ++ hdr.inner4.tos }, 32w0x10000);
            }
        } else {
            hdr.ethernet.ethertype = IPV6;
            meta.target = VPN_OF_IPV6(hdr.inner6.dst);
            if (congestion == CONGESTED) {
                meta.passes = hdr.inner6.tos[1:0] != 0;
                hdr.inner6.tos[1:0] = CONGESTED;
            }
        }
    }
}

#endif
