// Of the VPN gateway (p4/programs/tea-vpn): addresses, headers, and what it knows of a packet. The program defines VPN_ADDRESS_BITS.

#ifndef POINTSMAN_TEA_VPN_HEADERS_P4
#define POINTSMAN_TEA_VPN_HEADERS_P4

// IPv4 addresses are those of ::ffff:0:0/96.
typedef bit<VPN_ADDRESS_BITS> address_t;
#define VPN_OF_IPV4(address) (address_t)(96w0xffff ++ (address))
#define VPN_OF_IPV6(address) (address_t)(address)

const bit<16> IPV4 = 0x0800;
const bit<16> IPV6 = 0x86dd;
const bit<8> GRE = 47;
const bit<8> ICMP = 1;
const bit<8> ICMPV6 = 58;
// GRE with a key, without check value and sequence number.
const bit<16> WITH_KEY = 0x2000;
// Congestion experienced, of the two bits for congestion in the type of service (RFC 3168).
const bit<2> CONGESTED = 3;

const bit<16> ETHERNET_BYTES = 14;
const bit<16> IPV4_BYTES = 20;
const bit<16> IPV6_BYTES = 40;
// Of the headers of GRE and ICMP, and of what an ICMP error has of a packet behind its IP header.
const bit<16> EIGHT_BYTES = 8;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ethertype;
}

header ipv4_t {
    bit<8>  version_ihl;
    bit<8>  tos;
    bit<16> len;
    bit<16> id;
    bit<16> fragment;
    bit<8>  ttl;
    bit<8>  proto;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header ipv6_t {
    bit<4>   version;
    bit<8>   tos;
    bit<20>  flow;
    bit<16>  len;
    bit<8>   proto;
    bit<8>   ttl;
    bit<128> src;
    bit<128> dst;
}

header gre_t {
    bit<16> flags;
    bit<16> proto;
    bit<32> key;
}

// The error that a packet is too long: of ICMP, whose MTU has 16 bits behind 16 of 0, and of ICMPv6.
header icmp_t {
    bit<8>  type;
    bit<8>  code;
    bit<16> checksum;
    bit<32> mtu;
}

// The first bytes behind an IP header, which an error contains.
header lead_t {
    bit<64> bytes;
}

// A packet has an IP header, and behind it perhaps a tunnel with another one. What the gateway puts in front of it is new.
struct headers_t {
    tea_headers_t tea;
    ethernet_t    ethernet;
    ipv4_t        new4;
    ipv6_t        new6;
    gre_t         new_tunnel;
    icmp_t        icmp;
    ipv4_t        ipv4;
    ipv6_t        ipv6;
    gre_t         tunnel;
    ipv4_t        inner4;
    ipv6_t        inner6;
    lead_t        lead;
}

// For <pointsman/tea/flow_switch.p4>: the checksum of the outermost header, of which nothing is left when the packet leaves its tunnel.
#define FLOW_VERIFY(hdr)                                                                                                \
    verify_checksum(!hdr.tea.roce.isValid() && hdr.ipv4.isValid() && hdr.ipv4.version_ihl == 0x45,                       \
                    { hdr.ipv4.version_ihl, hdr.ipv4.tos, hdr.ipv4.len, hdr.ipv4.id, hdr.ipv4.fragment, hdr.ipv4.ttl,    \
                      hdr.ipv4.proto, hdr.ipv4.src, hdr.ipv4.dst },                                                      \
                    hdr.ipv4.checksum, HashAlgorithm.csum16)

struct metadata_t {
    tea_meta_t tea;
    bool       looks_up;
    bool       passes;
    // Where the packet comes from and goes to, by its outermost IP header.
    address_t  source;
    address_t  target;
    // It came to an address of the gateway, and continues in another tunnel.
    bool       arrives;
    bool       continues;
    // The number of its network.
    bit<32>    network;
}

#endif
