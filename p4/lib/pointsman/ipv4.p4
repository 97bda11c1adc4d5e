// Ethernet, IPv4 without its options, and the ports of TCP and UDP: headers of programs that change few of their fields, and the checksum of IPv4.

#ifndef POINTSMAN_IPV4_P4
#define POINTSMAN_IPV4_P4

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ethertype;
}

header ipv4_t {
    bit<16> version_ihl_tos;
    bit<16> len;
    bit<16> id;
    bit<16> fragment;
    bit<8>  ttl;
    bit<8>  proto;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header ports_t {
    bit<16> src;
    bit<16> dst;
}

#define IPV4_SUMMED(ip) { ip.version_ihl_tos, ip.len, ip.id, ip.fragment, ip.ttl, ip.proto, ip.src, ip.dst }

// In the control that verifies checksums: a header without options whose checksum is wrong sets `checksum_error`. A program that computes the checksum drops
// such a packet (RFC 1812, section 5.2.2): it would be right afterwards.
#define IPV4_VERIFY(when, ip)                                                                                            \
    verify_checksum(when && ip.isValid() && ip.version_ihl_tos[11:8] == 5, IPV4_SUMMED(ip), ip.checksum, HashAlgorithm.csum16)

// In the control that computes checksums.
#define IPV4_COMPUTE(ip)                                                                                                 \
    update_checksum(ip.isValid() && ip.version_ihl_tos[11:8] == 5, IPV4_SUMMED(ip), ip.checksum, HashAlgorithm.csum16)

#endif
