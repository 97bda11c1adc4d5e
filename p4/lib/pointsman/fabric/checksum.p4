// The checksum of IPv4: controls for the program's `headers_t` and `metadata_t`.

#ifndef POINTSMAN_FABRIC_CHECKSUM_P4
#define POINTSMAN_FABRIC_CHECKSUM_P4

#define FABRIC_IPV4_SUMMED \
    { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.len, hdr.ipv4.id, hdr.ipv4.flags, \
      hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.proto, hdr.ipv4.src, hdr.ipv4.dst }

control FabricVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(), FABRIC_IPV4_SUMMED, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control FabricCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(), FABRIC_IPV4_SUMMED, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

#endif
