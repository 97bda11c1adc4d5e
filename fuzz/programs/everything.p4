// What the other programs do not use: stacks, unions, varbit, lookahead, value sets, every kind of clone and of extra
// pass, multicast, meters, hashes, checksums, digests, truncation, asserts.

#include <core.p4>
#include <v1model.p4>

error { BadOption, BadTag }

header command_t {
    bit<4>  what;
    bit<4>  argument;
    bit<8>  session;
    bit<16> value;
}

header tag_t {
    bit<1>  last;
    bit<7>  label;
    bit<8>  ttl;
}

header option_t {
    bit<8>         kind;
    bit<8>         length;
    varbit<2040>   data;
}

header short_t { bit<16> x; }
header long_t  { bit<48> y; int<16> z; }
header_union body_t {
    short_t short;
    long_t  long;
}

header odd_t {
    bit<3>   a;
    int<13>  b;
    bit<65>  c;
    bit<7>   d;
}

header sums_t {
    bit<16> csum;
    bit<32> crc32;
    bit<16> crc16;
    bit<16> xored;
    bit<64> ident;
    bit<32> chance;
    bit<8>  colours;
}

struct headers_t {
    command_t command;
    tag_t[4]  tags;
    option_t  option;
    body_t[2] bodies;
    odd_t     odd;
    sums_t    sums;
}

struct metadata_t {
    @field_list(1, 2)
    bit<8>  passes;
    @field_list(2)
    bit<16> kept;
    bit<8>  scratch;
    bool    seen;
    bit<2>  colour;
}

struct note_t {
    bit<8>  passes;
    bit<9>  port;
    bit<65> wide;
}

parser Tags(packet_in packet, inout tag_t[4] tags) {
    state start {
        packet.extract(tags.next);
        verify(tags.last.ttl != 0, error.BadTag);
        transition select(tags.last.last, tags.last.label) {
            (1, _): accept;
            (0, 100 .. 120): reject;
            (0, 0x40 &&& 0x60): skip;
            default: start;
        }
    }
    state skip {
        packet.advance(((bit<32>)tags[tags.lastIndex].label & 15) << 1);
        transition start;
    }
}

parser MainParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    value_set<bit<8>>(4) kinds;
    Tags() read_tags;

    state start {
        meta.passes = meta.passes + 1;
        packet.extract(hdr.command);
        transition select(packet.lookahead<bit<8>>()) {
            0: none;
            0x80 &&& 0x80: tags;
            1 .. 9: option;
            kinds: odd;
            default: bodies;
        }
    }
    state none { transition accept; }
    state tags {
        read_tags.apply(packet, hdr.tags);
        transition bodies;
    }
    state option {
        bit<16> both = packet.lookahead<bit<16>>();
        verify(both[7:0] >= 2, error.BadOption);
        packet.extract(hdr.option, ((bit<32>)both[7:0] - 2) << 3);
        transition bodies;
    }
    state bodies {
        transition select(packet.lookahead<bit<4>>(), std.ingress_port) {
            (0, _): first_short;
            (1, 0 .. 3): first_long;
            default: odd;
        }
    }
    state first_short {
        packet.extract(hdr.bodies.next.short);
        transition second;
    }
    state first_long {
        packet.extract(hdr.bodies.next.long);
        transition second;
    }
    state second {
        packet.extract(hdr.bodies.next.short);
        transition select(hdr.bodies.last.short.x) {
            0xffff: second;
            default: odd;
        }
    }
    state odd {
        packet.extract(hdr.odd);
        transition accept;
    }
}

control VerifySums(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.sums.isValid(), { hdr.command.value, hdr.odd.c, 7w0 }, hdr.sums.csum, HashAlgorithm.csum16);
        verify_checksum_with_payload(hdr.option.isValid(), { hdr.option.data }, hdr.command.value, HashAlgorithm.csum16);
    }
}

control Pipe(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<65>>(8) wide;
    register<bit<8>>(4) small;
    counter(16, CounterType.packets_and_bytes) seen;
    meter(4, MeterType.bytes) rate;
    direct_meter<bit<2>>(MeterType.packets) pace;
    direct_counter(CounterType.packets) hits;

    action to_port(bit<9> port) {
        pace.read(meta.colour);
        hits.count();
        std.egress_spec = port;
    }
    action to_group(bit<16> group) {
        pace.read(meta.colour);
        std.mcast_grp = group;
    }
    action set_tag(in bit<8> ttl, bit<7> label) {
        hdr.tags[0].ttl = ttl;
        hdr.tags[0].label = label;
    }
    action drop() { mark_to_drop(std); }

    table forward {
        key = { hdr.command.argument: exact; hdr.tags[0].label: ternary; }
        actions = { to_port; to_group; drop; }
        default_action = to_port(1);
        meters = pace;
        counters = hits;
        support_timeout = true;
    }
    table relabel {
        key = { hdr.tags[0].isValid(): exact; hdr.command.value: range; hdr.odd.c: lpm; }
        actions = { set_tag(hdr.tags[0].ttl - 1); NoAction; }
        default_action = NoAction();
        entries = {
            (true, 0 .. 100, _): set_tag(5);
            (true, 50 .. 200, 0x1_0000_0000_0000_0000 &&& 0x1_0000_0000_0000_0000): set_tag(6);
        }
    }

    apply {
        bit<32> cell = (bit<32>)hdr.command.argument;
        seen.count(cell);
        rate.execute_meter(cell, meta.colour);
        bit<65> old;
        wide.read(old, cell);
        wide.write(cell, old + hdr.odd.c);
        switch (forward.apply().action_run) {
            to_port:
            to_group: { meta.scratch = 1; }
            drop: { return; }
        }
        if (relabel.apply().hit) {
            meta.seen = true;
        }
        for (bit<4> i in 0 .. hdr.command.argument) {
            if (i == 9) { break; }
            if (i[0:0] == 1) { continue; }
            meta.scratch = meta.scratch |+| 40;
        }
        if (hdr.command.isValid()) {
            switch (hdr.command.what) {
                1: { clone(CloneType.I2E, (bit<32>)hdr.command.session); }
                2: { clone_preserving_field_list(CloneType.I2E, (bit<32>)hdr.command.session, 2); }
                3: { if (meta.passes < 4) { resubmit_preserving_field_list(1); } }
                4: { digest<note_t>(1, { meta.passes, std.ingress_port, hdr.odd.c }); }
                5: { truncate((bit<32>)hdr.command.value); }
                6: { hdr.tags.push_front(1); hdr.tags[0] = { 1, 3, 9 }; }
                7: { hdr.tags.pop_front(2); }
                8: { hdr.bodies[0].long.setValid(); hdr.bodies[0].long = { 5, -3 }; }
                9: { assert(hdr.command.value != 7); assume(hdr.command.session != 9); }
                10: { std.priority = hdr.command.argument[2:0]; }
                11: { exit; }
                12: { std.mcast_grp = (bit<16>)hdr.command.session; }
                13: { log_msg("value {} of {}", { hdr.command.value, hdr.odd.b }); }
                14: { random(hdr.sums.chance, 3, (bit<32>)hdr.command.value); }
                default: {}
            }
            hdr.sums.setValid();
            hdr.sums.colours = meta.scratch;
            hash(hdr.sums.crc32, HashAlgorithm.crc32, 32w0, { hdr.odd.c, hdr.odd.b, hdr.odd.d, 3w1 }, 32w0xffff);
            hash(hdr.sums.crc16, HashAlgorithm.crc16, 16w1, { hdr.command.value, hdr.command.session }, (bit<32>)hdr.command.argument);
            hash(hdr.sums.ident, HashAlgorithm.identity, 64w0, { hdr.command.value, old }, 64w1000);
            hash(hdr.sums.xored, HashAlgorithm.xor16, 16w0, { hdr.option.data }, 32w0x10000);
        }
    }
}

control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (std.instance_type == 0) {
            switch (hdr.command.what) {
                1: { clone(CloneType.E2E, (bit<32>)hdr.command.session); }
                2: { clone_preserving_field_list(CloneType.E2E, (bit<32>)hdr.command.session, 1); }
                5: { if (meta.passes < 6) { recirculate_preserving_field_list(2); } }
                12: { if (std.egress_rid == 3) { mark_to_drop(std); } }
            }
        }
        meta.kept = meta.kept + 1;
    }
}

control Sums(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.sums.isValid(), { hdr.command.value, hdr.sums.crc32 }, hdr.sums.csum, HashAlgorithm.csum16);
        update_checksum_with_payload(hdr.odd.isValid(), { hdr.odd.a, hdr.odd.b }, hdr.sums.crc16, HashAlgorithm.csum16);
    }
}

control Emit(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(MainParser(), VerifySums(), Pipe(), Out(), Sums(), Emit()) main;
