// What the tests of the P4Runtime service run on: one table for each thing that a packet must show.
#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("", string)
@p4runtime_translation_mappings({ {"default", 0}, {"blue", 7} })
type bit<4> vrf_t;

@p4runtime_translation("example.org/PortId_String_t", string)
type bit<9> port_name_t;

@p4runtime_translation("example.org/PortId_t", 32)
type bit<9> port_number_t;

header h_t {
    bit<8> kind;
    bit<8> a;
    bit<16> b;
}

@controller_header("packet_in")
header in_t {
    port_name_t port;
    bit<7> pad;
}

@controller_header("packet_out")
header out_t {
    port_name_t port;
    bit<7> pad;
}

struct headers {
    in_t i;
    out_t o;
    h_t h;
}

struct meta {
    vrf_t vrf;
    bit<16> mark;
}

struct learn_t {
    vrf_t vrf;
    port_name_t port;
    bit<8> a;
}

parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t s) {
    value_set<bit<8>>(2) cut;
    state start {
        transition select(s.ingress_port) {
            510: from_cpu;
            default: body;
        }
    }
    state from_cpu {
        p.extract(hdr.o);
        transition body;
    }
    state body {
        p.extract(hdr.h);
        transition select(hdr.h.kind) {
            cut: cut_off;
            default: accept;
        }
    }
    state cut_off {
        hdr.h.b = 0xcccc;
        transition accept;
    }
}

control V(inout headers hdr, inout meta m) { apply {} }

control I(inout headers hdr, inout meta m, inout standard_metadata_t s) {
    action_selector(HashAlgorithm.identity, 16, 16) choices;
    @weights_disallowed @max_group_size(2) @selector_size_semantics("sum_of_members")
    action_selector(HashAlgorithm.identity, 3, 16) adaptive;
    @max_group_size(2) @selector_size_semantics("sum_of_members") @max_member_weight(10)
    action_selector(HashAlgorithm.identity, 3, 16) weighted;
    direct_meter<bit<8>>(MeterType.packets) rate;
    direct_counter(CounterType.packets) hits;
    register<bit<16>>(4) memory;
    register<learn_t>(2) seen;
    meter(2, MeterType.packets) shared_rate;

    action send(port_name_t port) { s.egress_spec = (bit<9>)port; }
    action send_number(port_number_t port) { s.egress_spec = (bit<9>)port; }
    action drop() { mark_to_drop(s); }
    action flood(bit<16> group) { s.mcast_grp = group; }
    action set_vrf(vrf_t vrf) { m.vrf = vrf; }
    action learn() { digest<learn_t>(1, { m.vrf, (port_name_t)s.ingress_port, hdr.h.a }); }

    table vrfs {
        key = { hdr.h.a: exact; }
        actions = { set_vrf; @defaultonly NoAction; }
        default_action = NoAction();
    }
    table routes {
        key = { m.vrf: exact; hdr.h.b: lpm; }
        actions = { send; send_number; flood; drop; }
        default_action = drop();
        size = 16;
    }
    table spread {
        key = { hdr.h.kind: exact; hdr.h.b: selector; }
        actions = { send; drop; NoAction; }
        implementation = choices;
    }
    table adaptive_routes {
        key = { hdr.h.kind: exact; hdr.h.b: selector; }
        actions = { drop; NoAction; }
        implementation = adaptive;
    }
    table weighted_routes {
        key = { hdr.h.kind: exact; hdr.h.b: selector; }
        actions = { drop; NoAction; }
        implementation = weighted;
    }
    table limits {
        key = { hdr.h.kind: ternary; }
        actions = { learn; NoAction; }
        default_action = NoAction();
        meters = rate;
        counters = hits;
        support_timeout = true;
    }
    apply {
        bit<8> color;
        vrfs.apply();
        limits.apply();
        rate.read(color);
        memory.write(0, (bit<16>)color);
        seen.write(0, { m.vrf, (port_name_t)s.ingress_port, hdr.h.a });
        shared_rate.execute_meter(0, color);
        if (!spread.apply().hit) {
            routes.apply();
        }
        adaptive_routes.apply();
        weighted_routes.apply();
        if (hdr.o.isValid()) {
            s.egress_spec = (bit<9>)hdr.o.port;
            hdr.o.setInvalid();
        }
        if (s.egress_spec == 510) {
            hdr.i.setValid();
            hdr.i.port = (port_name_t)s.ingress_port;
        }
    }
}

control E(inout headers hdr, inout meta m, inout standard_metadata_t s) { apply {} }
control C(inout headers hdr, inout meta m) { apply {} }
control D(packet_out p, in headers hdr) {
    apply {
        p.emit(hdr.i);
        p.emit(hdr.h);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
