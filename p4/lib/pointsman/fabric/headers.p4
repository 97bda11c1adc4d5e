// Headers of the fabric's programs, and what the parts of this library keep for a packet.
//
// A program includes this file, declares `headers_t` with at least the members `ethernet`, `ipv4`, `ipv6` and `ports`, and
// `metadata_t` with at least `fabric_t fabric`, and then includes the other parts, which use these names.

#ifndef POINTSMAN_FABRIC_HEADERS_P4
#define POINTSMAN_FABRIC_HEADERS_P4

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_IPV6 = 0x86dd;
const bit<8> PROTO_TCP = 6;
const bit<8> PROTO_UDP = 17;

// RFC 3168: a sender that understands marks sets ECT(0) or ECT(1), both not 0; a switch marks by CE.
const bit<2> ECN_NOT_ECT = 0;
const bit<2> ECN_CE = 3;

typedef bit<48> mac_t;
typedef bit<9> port_t;

header ethernet_t {
    mac_t   dst;
    mac_t   src;
    bit<16> ethertype;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<6>  dscp;
    bit<2>  ecn;
    bit<16> len;
    bit<16> id;
    bit<3>  flags;
    bit<13> fragment;
    bit<8>  ttl;
    bit<8>  proto;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header ipv6_t {
    bit<4>   version;
    bit<6>   dscp;
    bit<2>   ecn;
    bit<20>  flow_label;
    bit<16>  len;
    bit<8>   next_header;
    bit<8>   hop_limit;
    bit<128> src;
    bit<128> dst;
}

// The part that TCP and UDP have in common.
header ports_t {
    bit<16> src;
    bit<16> dst;
}

// What follows the ports in TCP.
header tcp_t {
    bit<32> seq;
    bit<32> ack;
    // Of the header, in words.
    bit<4>  offset;
    bit<4>  reserved;
    bit<8>  flags;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

// Four bytes of TCP's options.
header word_t {
    bit<32> bytes;
}

// TCP's timestamps with the padding that all hosts put in front of them.
header stamps_t {
    bit<32> kind;
    bit<32> value;
    bit<32> echo;
}

// Of rates.p4 and notices.p4: between Ethernet and IP, from switch to switch only. The first experimental type of IEEE 802.
const bit<16> ETHERTYPE_NOTE = 0x88b5;
const bit<8> NOTE_DONE = 1;
const bit<8> NOTE_REDUCE = 2;
const bit<8> NOTE_INCREASE = 3;
const bit<8> NOTE_BROKEN = 4;
header note_t {
    bit<8>  kind;
    bit<8>  zero;
    // What Ethernet's type was.
    bit<16> ethertype;
}

struct fabric_t {
    // The switch's own, for its hash of flows.
    bit<32> seed;
    bit<8>  rotation;
    // Source and destination port, or 0 without ports.
    bit<32> ports;
    // The hash of the flow.
    bit<32> flow;
    // What chooses within a group of next hops.
    bit<32> hash;
    // Whether a next hop was found.
    bool    forwarded;
    // In ticks of the switch's timestamps: the time in the queue from which on packets are marked, 0 for never.
    bit<32> mark_after;
}

// Of notices.p4.
const bit<2> FROM_BELOW = 1;
const bit<2> FROM_ABOVE = 2;
const bit<8> MOST_TRIES = 7;
// As far as the ports behind all headers.
const bit<32> NOTICE_BYTES = 80;
const bit<8> WAY_FIELDS = 7;
struct way_t {
    // In ticks of the switch's timestamps.
    bit<32> hold;
    bit<32> now;
    // The tier that the packet comes from; 0 is a host.
    bit<2>  from;
    // Of the destination: time and ports of notices.
    bit<16> place;
    bit<64> cell;
    bit<8>  drawn;
    bool    broken;
    // How often the packet started again.
    @field_list(7)
    bit<8>  tries;
}

// Of flowlets.p4.
struct flowlet_t {
    // In ticks of the switch's timestamps.
    bit<32> gap;
    bit<32> now;
    bit<64> cell;
    // The slot is this flow's.
    bool    mine;
    // The slot's last packet is younger than the gap.
    bool    fresh;
    // Both: the flowlet continues with `choice`.
    bool    live;
    // Another flow's flowlet has the slot.
    bool    taken;
    bit<16> choice;
}

// Of load.p4.
struct load_t {
    bit<32> now;
    bit<64> cell;
    bit<32> age;
    bit<64> busy;
    // Ticks for 64 KiB on the line, 0 of ports that are not measured.
    bit<32> pace;
    // The time over which the load is measured is 2 to the power of this, in ticks; at least 8.
    bit<8>  shift;
    // In 256ths of the line's rate, at most 256.
    bit<16> utilisation;
}

// Of rates.p4.
struct rate_t {
    // Of parse_tcp.p4: words of options that are left; of a SYN whether it is known if windows are scaled, whether they are, and the scale.
    bit<4>  words;
    bool    known;
    bool    scaling;
    bit<8>  scale;
    // Of the program: 1 for large flows.
    bit<1>  class;
    // The settings.
    bit<8>  mode;
    bit<32> spacing;
    bit<32> clamp;
    bit<32> hold;
    // Where the packet comes from and goes to.
    bool    from_host;
    bool    to_host;
    // Its class is above its share of the port.
    bool    over;
    // Bytes of data.
    bit<16> payload;
    // The flow in the direction of its acknowledgments.
    bit<32> flow;
    bit<64> cell;
    bool    mine;
    // The packet is near the last one that led to an action.
    bool    near;
    bit<64> last;
    bit<16> window;
    // The packet may lead to a verdict.
    bool    candidate;
    // An acknowledgment made here: its TCP checksum is to be computed.
    bool    made;
    bit<16> tcp_bytes;
}

#endif
