// Of the VPN gateway: checksums of new headers, and the order in which headers leave.

#ifndef POINTSMAN_TEA_VPN_DEPARSER_P4
#define POINTSMAN_TEA_VPN_DEPARSER_P4

control FlowCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        TEA_COMPUTE(hdr.tea);
        update_checksum(hdr.new4.isValid(),
                        { hdr.new4.version_ihl, hdr.new4.tos, hdr.new4.len, hdr.new4.id, hdr.new4.fragment, hdr.new4.ttl,
                          hdr.new4.proto, hdr.new4.src, hdr.new4.dst },
                        hdr.new4.checksum, HashAlgorithm.csum16);
        update_checksum(hdr.icmp.isValid() && hdr.new4.isValid(),
                        { hdr.icmp.type, hdr.icmp.code, hdr.icmp.mtu, hdr.ipv4, hdr.tunnel, hdr.lead },
                        hdr.icmp.checksum, HashAlgorithm.csum16);
        update_checksum(hdr.icmp.isValid() && hdr.new6.isValid(),
                        { hdr.new6.src, hdr.new6.dst, hdr.new6.len, 8w0, hdr.new6.proto,
                          hdr.icmp.type, hdr.icmp.code, hdr.icmp.mtu, hdr.ipv6, hdr.tunnel, hdr.lead },
                        hdr.icmp.checksum, HashAlgorithm.csum16);
    }
}

control FlowDeparser(packet_out packet, in headers_t hdr) {
    apply {
        TEA_EMIT(packet, hdr.tea);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.new4);
        packet.emit(hdr.new6);
        packet.emit(hdr.new_tunnel);
        packet.emit(hdr.icmp);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.tunnel);
        packet.emit(hdr.inner4);
        packet.emit(hdr.inner6);
        packet.emit(hdr.lead);
    }
}

#endif
