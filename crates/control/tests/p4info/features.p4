// Everything that P4Info describes, each at least once.
//
// p4c's P4Info has no organization: it reads the first @pkginfo only, where
// the P4Runtime specification allows several.

#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("example.org/port", 32)
type bit<9> port_id_t;
type bit<48> mac_t;

enum bit<16> ether_type_t {
    ipv4 = 0x0800,
    arp = 0x0806
}

enum color_t {
    red,
    green
}

header ethernet_t {
    mac_t dst;
    mac_t src;
    ether_type_t type;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    int<8> trust;
    bit<24> rest;
    bit<32> src;
    bit<32> dst;
}

// Nothing uses it.
@controller_header("digest_of_packets")
@mine("two
lines \"and\n\" an escape", 8w0x10)
header unused_t {
    port_id_t port;
    bit<7> _pad;
}

@controller_header("packet_in")
header packet_in_t {
    port_id_t ingress_port;
    @id(7) bit<6> reason;
    @hidden bit<1> _unused;
}

@controller_header("packet_out")
header packet_out_t {
    port_id_t egress_port;
    bit<7> _pad;
}

struct headers_t {
    packet_out_t packet_out;
    packet_in_t packet_in;
    ethernet_t ethernet;
    ipv4_t ipv4;
}

struct metadata_t {
    bit<16> hash_input;
    bool flag;
}

struct learn_t {
    mac_t who;
    port_id_t where;
    color_t color;
    bool fresh;
}

struct tag_match_t {
    @match(ternary) bit<16> tag;
    @match(range) @id(9) bit<8> level;
    bit<4> kind;
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    value_set<tag_match_t>(4) tags;
    @id(0x030000aa) value_set<bit<16>>(8) types;

    state start {
        packet.extract(hdr.ethernet);
        transition select((bit<16>) hdr.ethernet.type) {
            types: parse_ipv4;
            0x0800: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.src[15:0], hdr.ipv4.rest[7:0], hdr.ipv4.ihl) {
            tags: accept;
            default: accept;
        }
    }
}

control NoVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control Inner(inout headers_t hdr, inout standard_metadata_t std) {
    register<bit<48>>(16) last_seen;

    action learn() {
        last_seen.write(0, (bit<48>) hdr.ethernet.src);
    }

    table sources {
        key = {
            hdr.ethernet.src: exact;
        }
        actions = {
            learn;
            NoAction;
        }
        size = 512;
    }

    apply {
        sources.apply();
    }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Inner() first;
    @name("again") Inner() second;

    @brief("Packets by port")
    @id(42) counter(512, CounterType.packets) by_port;
    meter(64, MeterType.bytes) by_flow;
    register<int<16>>(8) signed_cells;
    direct_counter(CounterType.packets_and_bytes) route_hits;
    direct_meter<bit<2>>(MeterType.packets) route_rate;
    @max_group_size(16) @selector_size_semantics("sum_of_members") @max_member_weight(4)
    action_selector(HashAlgorithm.crc16, 128, 16) paths;
    action_profile(32) profile;

    action drop() {
        mark_to_drop(std);
    }

    @description("Sends the packet to a port")
    action forward(@id(5) @brief("where to") port_id_t port, mac_t mac, bit<1> urgent) {
        std.egress_spec = (bit<9>) port;
        hdr.ethernet.dst = mac;
    }

    // Controllers see no action that only other actions call.
    action trusted(int<8> trust) {
        hdr.ipv4.trust = trust;
    }

    action mark(int<8> trust, bool flag) {
        trusted(trust);
        meta.flag = flag;
    }

    action only_called(bit<8> unused_argument) {
        meta.flag = unused_argument == 1;
    }

    @purpose["routing", 4, true]
    @limits[low = 1, high = "many"]
    table route {
        key = {
            hdr.ipv4.dst: lpm @name("destination");
        }
        actions = {
            @tableonly forward;
            @defaultonly drop;
        }
        default_action = drop();
        counters = route_hits;
        meters = route_rate;
        size = 4096;
    }

    table filter {
        key = {
            hdr.ipv4.src: ternary;
            hdr.ipv4.rest[15:0]: range @name("length");
            std.ingress_port: optional @id(12);
            hdr.ethernet.type: exact;
            hdr.ipv4.isValid(): exact;
        }
        actions = {
            drop;
            mark;
            NoAction;
        }
        const default_action = mark(8s3, true);
        support_timeout = true;
    }

    table spread {
        key = {
            hdr.ipv4.dst: exact;
            hdr.ipv4.src: selector;
        }
        actions = {
            forward;
            drop;
        }
        implementation = paths;
    }

    table indirect {
        key = {
            hdr.ipv4.dst: exact;
        }
        actions = {
            forward;
            drop;
        }
        implementation = profile;
    }

    @hidden
    table invisible {
        key = {
            meta.flag: exact;
        }
        actions = {
            drop;
            NoAction;
        }
    }

    table constant {
        key = {
            hdr.ipv4.version: exact;
        }
        actions = {
            drop;
            NoAction;
        }
        const entries = {
            4: NoAction();
            5: drop();
        }
    }

    table prefilled {
        key = {
            hdr.ipv4.ihl: exact;
        }
        actions = {
            drop;
            NoAction;
        }
        entries = {
            5: NoAction();
        }
    }

    apply {
        first.apply(hdr, std);
        second.apply(hdr, std);
        only_called(8w1);
        route.apply();
        filter.apply();
        spread.apply();
        indirect.apply();
        invisible.apply();
        constant.apply();
        prefilled.apply();
        by_port.count((bit<32>) std.ingress_port);
        bit<2> flow_color;
        by_flow.execute_meter(0, flow_color);
        signed_cells.write(0, 1);
        digest<learn_t>(1, { hdr.ethernet.src, (port_id_t) std.ingress_port, color_t.red, true });
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { }
}

control NoCompute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

@pkginfo(name="features", version="1.0")
@pkginfo(organization="example.org")
@brief("A program with everything")
@platform_property(multicast_group_table_size=16)
@special_note("kept")
V1Switch(MyParser(), NoVerify(), MyIngress(), MyEgress(), NoCompute(), MyDeparser()) main;
