// RoCEv2 between switch and servers (docs/roce.md), over IPv4 or, with `-D ROCE_IPV6`, over IPv6: headers, and what check values and checksums cover.
// For the libraries that use servers' memory.

#ifndef POINTSMAN_ROCE_HEADERS_P4
#define POINTSMAN_ROCE_HEADERS_P4

#ifdef ROCE_IPV6
typedef bit<128> roce_address_t;
// Ethernet, IPv6, UDP, InfiniBand's base header.
header roce_t {
    bit<48>  mac_dst;
    bit<48>  mac_src;
    bit<16>  ethertype;
    bit<4>   version;
    bit<28>  class_flow;
    bit<16>  len;
    bit<8>   proto;
    bit<8>   ttl;
    bit<128> src;
    bit<128> dst;
    bit<16>  sport;
    bit<16>  dport;
    bit<16>  udp_len;
    bit<16>  udp_checksum;
    bit<8>   opcode;
    bit<8>   padding;
    bit<16>  partition;
    bit<8>   marks;
    bit<24>  pair;
    bit<8>   ask;
    bit<24>  psn;
}

// Bytes of IP's header and those in front.
#define ROCE_IP_BYTES 54

// What the check value covers, with ones in the place of fields that routers change, up to the base header.
#define ROCE_COVERED(r)                                                                                                  \
    64w0xffffffffffffffff, r.version, 28w0xfffffff, r.len, r.proto, 8w0xff, r.src, r.dst, r.sport, r.dport, r.udp_len,   \
        16w0xffff, r.opcode, r.padding, r.partition, 8w0xff, r.pair, r.ask, r.psn

// The same for UDP's checksum, which IPv6 needs.
#define ROCE_SUMMED(r)                                                                                              \
    r.src, r.dst, 16w0, r.udp_len, 24w0, r.proto, r.sport, r.dport, r.udp_len, r.opcode, r.padding, r.partition,    \
        r.marks, r.pair, r.ask, r.psn

// In the control that computes checksums: IPv6 has none.
#define ROCE_COMPUTE(h)

#define ROCE_SET_IP(r, length)           \
    r.ethertype = 0x86dd;               \
    r.version = 6;                      \
    r.class_flow = 0;                   \
    r.len = length - ROCE_IP_BYTES

#else
typedef bit<32> roce_address_t;
// Ethernet, IPv4 without options, UDP, InfiniBand's base header.
header roce_t {
    bit<48> mac_dst;
    bit<48> mac_src;
    bit<16> ethertype;
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
    bit<16> sport;
    bit<16> dport;
    bit<16> udp_len;
    bit<16> udp_checksum;
    bit<8>  opcode;
    bit<8>  padding;
    bit<16> partition;
    bit<8>  marks;
    bit<24> pair;
    bit<8>  ask;
    bit<24> psn;
}

// Bytes of IP's header and those in front.
#define ROCE_IP_BYTES 34

// What the check value covers, with ones in the place of fields that routers change, up to the base header.
#define ROCE_COVERED(r)                                                                                             \
    64w0xffffffffffffffff, r.version_ihl, 8w0xff, r.len, r.id, r.fragment, 8w0xff, r.proto, 16w0xffff, r.src,       \
        r.dst, r.sport, r.dport, r.udp_len, 16w0xffff, r.opcode, r.padding, r.partition, 8w0xff, r.pair, r.ask, r.psn

// In the control that computes checksums.
#define ROCE_COMPUTE(h)                                                                                        \
    update_checksum(h.roce.isValid(),                                                                           \
                    { h.roce.version_ihl, h.roce.tos, h.roce.len, h.roce.id, h.roce.fragment, h.roce.ttl,       \
                      h.roce.proto, h.roce.src, h.roce.dst },                                                   \
                    h.roce.checksum, HashAlgorithm.csum16)

#define ROCE_SET_IP(r, length)           \
    r.ethertype = 0x0800;               \
    r.version_ihl = 0x45;               \
    r.tos = 0;                          \
    r.len = length - 14;                \
    r.id = 0;                           \
    r.fragment = 0x4000
#endif

// With UDP and the base header.
#define ROCE_BYTES (ROCE_IP_BYTES + 20)

// The rest of a READ or WRITE request's headers.
header roce_remote_t {
    bit<64> address;
    bit<32> key;
    bit<32> bytes;
}

// The rest of an atomic request's headers.
header roce_atomic_t {
    bit<64> address;
    bit<32> key;
    bit<64> number;
    bit<64> compare;
}

// Of answers.
header roce_syndrome_t {
    bit<8>  syndrome;
    bit<24> messages;
}

// Of answers to atomic requests: the number that was in the memory.
header roce_original_t {
    bit<64> number;
}

// They make data a multiple of four bytes.
header roce_fill1_t {
    bit<8> zero;
}

header roce_fill2_t {
    bit<16> zero;
}

// iCRC, least significant byte first.
header roce_check_t {
    bit<32> value;
}

const bit<16> ROCE_PORT = 4791;

const bit<8> ROCE_WRITE = 10;
const bit<8> ROCE_READ = 12;
const bit<8> ROCE_READ_ANSWER = 16;
const bit<8> ROCE_ACK = 17;
const bit<8> ROCE_ATOMIC_ACK = 18;
const bit<8> ROCE_FETCH_ADD = 20;

const bit<8> ROCE_NAK_SEQUENCE = 0x60;

// The CRC-32 of anything that ends with its own CRC-32, the least significant byte first.
const bit<32> ROCE_RESIDUE = 0x2144df1c;

// Sets the fields of a packet to a queue pair of so many bytes, all but opcode, `ask` and number: MAC addresses and IP addresses, own first; the port that it
// comes from; the queue pair.
#define ROCE_SET(r, length, mac, peer_mac, address, peer_address, port, number) \
    r.mac_dst = peer_mac;                       \
    r.mac_src = mac;                            \
    ROCE_SET_IP(r, length);                     \
    r.ttl = 64;                                 \
    r.proto = 17;                               \
    r.src = address;                            \
    r.dst = peer_address;                       \
    r.sport = port;                             \
    r.dport = ROCE_PORT;                        \
    r.udp_len = length - ROCE_IP_BYTES;         \
    r.udp_checksum = 0;                         \
    r.padding = 0;                              \
    r.partition = 0xffff;                       \
    r.marks = 0;                                \
    r.pair = number

// Sets the check value of a packet whose other fields are set, and what UDP's checksum needs: DATA is a macro that names the headers between `roce` and `check`.
#define ROCE_SET_CHECK(h, DATA)                                                                                     \
    bit<32> sum;                                                                                                    \
    hash(sum, HashAlgorithm.crc32, 32w0, { ROCE_COVERED(h.roce), DATA(h) }, 64w0x100000000);                        \
    h.check.setValid();                                                                                             \
    h.check.value = sum[7:0] ++ sum[15:8] ++ sum[23:16] ++ sum[31:24];                                              \
    ROCE_SET_SUM(h, DATA)

// The check value does not depend on UDP's checksum. IPv4 needs none.
#ifdef ROCE_IPV6
#define ROCE_SET_SUM(h, DATA)                                                                                       \
    hash(h.roce.udp_checksum, HashAlgorithm.csum16, 16w0, { ROCE_SUMMED(h.roce), DATA(h), h.check }, 32w0x10000);   \
    if (h.roce.udp_checksum == 0) {                                                                                 \
        h.roce.udp_checksum = 0xffff;                                                                               \
    }
#else
#define ROCE_SET_SUM(h, DATA)
#endif

#endif
