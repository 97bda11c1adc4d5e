// SPDX-License-Identifier: Apache-2.0
// What the balancer reads and writes: packet headers, and what it knows about a packet.

#ifndef BALANCER_HEADERS_P4
#define BALANCER_HEADERS_P4

#include "devices.p4"

#ifdef BALANCER_STORE
#define REDPLANE_KEY_WORDS 10
#define REDPLANE_VALUE_WORDS 1
#include <pointsman/redplane/fixed.p4>
// But where the store's device of a connection is looked at, to say whether a new connection may have it.
#define UNLESS_CHECKED && !meta.checks
#else
#define UNLESS_CHECKED
#endif

#ifdef BALANCER_TEA
#ifdef BALANCER_STORE
#error "BALANCER_TEA and BALANCER_STORE are not possible together"
#endif
// A connection in servers' memory (settled.p4): client, its port, service; and what the table keeps of it.
#define TEA_KEY_BYTES 20
#define TEA_VALUE_BYTES 4
// 510 is the controller's.
#define TEA_LOOP 507
#include <pointsman/tea.p4>
#endif

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_ARP = 0x0806;
const bit<16> ETHERTYPE_IPV6 = 0x86dd;
const bit<16> ETHERTYPE_REPORT = 0x88b5; // for local experiments (IEEE 802)

const bit<8> PROTO_ICMP = 1;
const bit<8> PROTO_TCP = 6;
const bit<8> PROTO_UDP = 17;
const bit<8> PROTO_PROBE = 42;
const bit<8> PROTO_FRAGMENT = 44;
const bit<8> PROTO_ICMPV6 = 58;

// Ports are 9 bits wide in v1model. 511 drops; the controller sits behind this one.
const bit<9> CPU_PORT = 510;
// Nothing is behind this one: packets that have done what they came for go there, so that they do not count as dropped.
const bit<9> CONSUME_PORT = 509;

// Load reports come in UDP datagrams to this port of any local address.
const bit<16> REPORT_PORT = 9876;
const bit<8> REPORT_PLAIN = 1;
const bit<8> REPORT_SIGNED = 2;

// They come in frames of their own, too. What is signed there is never what is signed in a datagram: its first byte differs.
const bit<8> FRAME_REPORT_PLAIN = 17;
const bit<8> FRAME_REPORT_SIGNED = 18;
const bit<8> FRAME_REPORT_BUSY = 1;     // flag: it can take no new connections
const bit<8> FRAME_REPORT_FAILED = 4;   // flag: as METRICS_FAILED
const bit<8> FRAME_REPORT_HIGH = 8;     // flag: of sixteen devices, one of the second half

// What the words behind a report are (bits of `metrics`).
const bit<16> METRICS_LOAD = 1;     // one word: load of every device in the mask
const bit<16> METRICS_LOADS = 2;    // eight words: load of the device in each of eight slots
const bit<16> METRICS_FAILED = 8;   // the devices in the mask failed their health check
// Bits 8 to 15 are a latency: how the agent's device answered lately. 0: not known. Else the code of a time; the controller decodes it.

typedef bit<48> mac_t;
typedef bit<32> ipv4_t;
typedef bit<128> ipv6_t;
typedef bit<48> time_us_t;

// A service is a (VIP, protocol, port).
typedef bit<16> service_t;

@controller_header("packet_in")
header packet_in_t {
    bit<16> ingress_port;
}

@controller_header("packet_out")
header packet_out_t {
    bit<16> egress_port;
}

#ifdef BALANCER_TEA
// What the controller says about a connection (settled.p4), behind packet_out_t with this port.
const bit<16> SETTLED_PORT = 0xfffd;

header settled_t {
    bit<8>   kind;
    bit<8>   number; // the answer has it, too
    bit<16>  ticks;
    ipv6_t   client;
    bit<16>  client_port;
    bit<16>  service;
    bit<32>  word;
}
#endif

header ethernet_t {
    mac_t   dst;
    mac_t   src;
    bit<16> ethertype;
}

// ARP for IPv4 over Ethernet (RFC 826).
header arp_t {
    bit<16> htype;
    bit<16> ptype;
    bit<8>  hlen;
    bit<8>  plen;
    bit<16> oper;
    mac_t   sha;
    ipv4_t  spa;
    mac_t   tha;
    ipv4_t  tpa;
}

header ipv4_base_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  dscp_ecn;
    bit<16> len;
    bit<16> id;
    bit<1>  reserved;
    bit<1>  dont_fragment;
    bit<1>  more_fragments;
    bit<13> fragment;
    bit<8>  ttl;
    bit<8>  proto;
    bit<16> checksum;
    ipv4_t  src;
    ipv4_t  dst;
}

header ipv4_options_t {
    varbit<320> data;
}

header ipv6_base_t {
    bit<4>  version;
    bit<8>  traffic_class;
    bit<20> flow;
    bit<16> len;
    bit<8>  proto;
    bit<8>  hops;
    ipv6_t  src;
    ipv6_t  dst;
}

// Fragment header of IPv6 (RFC 8200, 4.5).
header ipv6_fragment_t {
    bit<8>  next;
    bit<8>  reserved;
    bit<13> offset;
    bit<2>  reserved2;
    bit<1>  more;
    bit<32> id;
}

// ICMP and ICMPv6: the first eight bytes are alike (RFC 792, RFC 4443).
header icmp_t {
    bit<8>  kind;
    bit<8>  code;
    bit<16> checksum;
    bit<32> rest;
}

// Target and link-layer address option of a neighbour solicitation or advertisement (RFC 4861).
header nd_t {
    ipv6_t  target;
    bit<8>  option;
    bit<8>  option_len;
    mac_t   mac;
}

header tcp_t {
    bit<16> sport;
    bit<16> dport;
    bit<32> seq;
    bit<32> ack;
    bit<4>  data_offset;
    bit<4>  reserved;
    bit<1>  cwr;
    bit<1>  ece;
    bit<1>  urg;
    bit<1>  ack_flag;
    bit<1>  psh;
    bit<1>  rst;
    bit<1>  syn;
    bit<1>  fin;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

header udp_t {
    bit<16> sport;
    bit<16> dport;
    bit<16> len;
    bit<16> checksum;
}

// The first eight bytes of the transport header that an ICMP error quotes. For UDP `rest` is length and checksum.
header quoted_t {
    bit<16> sport;
    bit<16> dport;
    bit<32> rest;
}

// A load report. `server` is 13 bits, and of sixteen devices one above them for the second half. `length` counts the whole report in words of four bytes. The load of a device is one word: compute, memory,
// network, queue, eight bits each (per cent of what there is, and a number of requests). Reports are looked at, not extracted, so
// that they are payload to the checksum, and are forwarded unchanged if they are not for us.
header report_t {
    bit<8>  version;
    bit<8>  length;
    bit<16> server;
    bit<8>  mask;      // devices that this report speaks of
    bit<8>  available; // those of them that can take new connections
    bit<16> metrics;
}

// One without digest; metrics follow, and a switch that does not know them skips them.
header plain_report_t {
    bit<64> head;
    bit<32> sequence; // sender's milliseconds: older reports that arrive late are recognised
}

// One with a digest of all other bytes; metrics follow.
header signed_report_t {
    bit<64> head;
    bit<8>  key;      // which of the agent's keys, from 1
    bit<56> sequence; // sender's microseconds since 1970: a number is accepted once, and none that is lower than one before
    bit<64> digest;
}

// A load report in a frame of its own, after P4Hauler's: the device and its load, eight bits each, right behind the Ethernet
// header. The digest is of the bytes before it.
header frame_report_t {
    bit<8>  version;
    bit<8>  flags;
    bit<16> device; // server ++ low bits of the slot
    bit<8>  compute;
    bit<8>  memory;
    bit<8>  network;
    bit<8>  queue;
    bit<8>  key;
    bit<56> sequence;
    bit<64> digest;
}

// A probe, IP protocol 42: free capacity of a machine in tenths, 0 to 10. Number 15 says that it is a wide one.
header probe_t {
    bit<4>  id;
    bit<4>  cpu;
    bit<4>  memory;
    bit<4>  link;
}

// A wide probe: free capacity in per cent.
header wide_probe_t {
    bit<4>  is_wide; // 15
    bit<4>  version; // 1
    bit<8>  id;
    bit<8>  cpu;
    bit<8>  memory;
    bit<8>  link;
    bit<24> reserved;
    bit<32> sequence; // as in reports without digest
}

const bit<2> PROBE_NONE = 0;
const bit<2> PROBE_NARROW = 1;
const bit<2> PROBE_WIDE = 2;

struct headers_t {
#ifdef BALANCER_STORE
    redplane_outer_t store_outer;
    redplane_t       store;
#endif
    packet_in_t      packet_in;
    packet_out_t     packet_out;
#ifdef BALANCER_TEA
    tea_headers_t    tea;
    settled_t        settled; // not emitted
#endif
    ethernet_t       ethernet;
    arp_t            arp;
    ipv4_base_t      ipv4;
    ipv4_options_t   ipv4_options;
    ipv6_base_t      ipv6;
    ipv6_fragment_t  ipv6_fragment;
    icmp_t           icmp;
    icmp_t           icmpv6;
    nd_t             nd;
    ipv4_base_t      quoted_ipv4;
    ipv6_base_t      quoted_ipv6;
    quoted_t         quoted;
    tcp_t            tcp;
    udp_t            udp;
    // Looked at only; see report_t.
    report_t         report;
    plain_report_t   plain_report;
    signed_report_t  signed_report;
    frame_report_t   frame_report;
    // In front of `ipv4` or `ipv6`, on the way to a device.
    ipv4_base_t      outer_ipv4;
    ipv6_base_t      outer_ipv6;
}

// Which connection a packet belongs to, seen from the client: the VIP, its protocol and port are what `service` names,
// so these three are the full 5-tuple. IPv4 addresses are the low 32 bits.
struct flow_t {
    service_t service;
    ipv6_t    client;
    bit<16>   client_port;
}

// What is known of a service or connection while a packet is handled.
struct metadata_t {
    flow_t    flow;
    bit<32>   hash_a;      // two independent hashes of the flow
    bit<32>   hash_b;
    bit<8>    policy;
    bit<1>    epoch;       // which of two generations of slots, rings and priorities is in force
    bit<16>   slots_mask;
    bit<18>   idle;        // how long connections may stay unseen: idle_t in connections.p4
    server_t  server;
    device_t  device;
    bool      opens;       // may create a connection: SYN or datagram
    bool      fin;
    bool      rst;
    bit<8>    drop_reason;
    bit<16>   l4_len;
    bit<256>  words;       // of a report: the load of the device in each of eight slots
    bit<2>    probe;       // PROBE_*
    bit<8>    probe_id;
    bit<8>    probe_cpu;   // free, in tenths or per cent
    bit<8>    probe_memory;
    bit<8>    probe_link;
    bit<32>   probe_sequence;
    @field_list(1)
    bool      again;       // a copy that comes around to reset the other end (reset.p4)
    @field_list(1)
    bit<9>    came_in;     // the port where the packet came in, and when: a copy would have others
    @field_list(1)
    time_us_t came_at;
#ifdef BALANCER_TEA
    tea_meta_t tea;
    @field_list(1)
    tea_value_t again_word; // what is kept of the copy's connection
#endif
#ifdef BALANCER_STORE
    redplane_fixed_t store;
    bool      asks_known;  // its connection is not known: the store may know it
    bool      checks;      // the store's device is not the chosen one: may a new connection have it?
    bool      usable;      // it may
    @field_list(1)
    bool      foreign;     // a datagram that looked like an answer of the store, and is none
    @field_list(1)
    bool      extends;     // a copy that comes around to become a request (store.p4), which says:
    @field_list(1)
    bit<8>    extend_flags;
    @field_list(1)
    bit<18>   extend_idle;
    @field_list(1)
    service_t extend_service;
    @field_list(1)
    redplane_key_t extend_key;
    @field_list(1)
    redplane_value_t extend_value;
#endif
}

// Why a packet was dropped: index into the counter `drops`.
const bit<8> DROP_NONE = 0;
const bit<8> DROP_MALFORMED = 1;          // headers or packet cut short, or inconsistent
const bit<8> DROP_CHECKSUM = 2;           // of the IPv4 header, or of a datagram to the port of reports
const bit<8> DROP_UNKNOWN_MAC = 3;        // for a station that no table knows
const bit<8> DROP_NO_ROUTE = 4;           // for an address that no table knows
const bit<8> DROP_TTL = 5;                // time to live exceeded
const bit<8> DROP_VIP_NO_SERVICE = 6;     // for a VIP, but no service there
const bit<8> DROP_FRAGMENT = 7;           // fragment for a VIP whose first one was not seen before it
const bit<8> DROP_NO_CONNECTION = 8;      // TCP segment in the middle of a connection that is not known: its sender gets a RST
const bit<8> DROP_TABLE_FULL = 9;         // new connection, but every place for it holds a live one
const bit<8> DROP_NO_SERVER = 10;         // service without servers
const bit<8> DROP_NO_DEVICE = 11;         // server without devices
const bit<8> DROP_REPORT_MALFORMED = 12;  // wrong version or length
const bit<8> DROP_REPORT_SOURCE = 13;     // not from where that device lives
const bit<8> DROP_REPORT_STALE = 14;      // overtaken by a newer one
const bit<8> DROP_ICMP_UNMATCHED = 15;    // ICMP error about no known connection
const bit<8> DROP_ARP = 16;               // ARP or neighbour discovery for no address here
const bit<8> DROP_ETHERTYPE = 17;         // for us, but neither ARP nor IP
const bit<8> DROP_ADDRESS = 18;           // source address that no host has: broadcast, multicast, loopback, link-local or zero
const bit<8> DROP_PACKET_OUT = 19;        // from the controller, for a port that cannot be
const bit<8> DROP_REPORT_UNSIGNED = 20;   // without digest, but its agent's must have one
const bit<8> DROP_REPORT_KEY = 21;        // with the number of a key that the switch does not have
const bit<8> DROP_REPORT_DIGEST = 22;     // its digest does not match the key
const bit<8> DROP_REPORT_REPLAYED = 23;   // not newer than one that was accepted
const bit<8> DROP_RATE = 24;              // new connection, but its service gets more of them than it may
const bit<8> DROP_IDLE = 25;              // connection idle for too long: both ends get a RST
const bit<8> DROP_DEVICE_FAILED = 26;     // device of the connection failed: both ends get a RST
const bit<8> DROP_SPOOFED = 27;           // source address of ours, or of a device and not from its port
const bit<8> REPORT_ACCEPTED = 32;        // not a drop: a report or probe that was accepted

#endif
