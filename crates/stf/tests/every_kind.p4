#include <core.p4>
#include <v1model.p4>
enum bit<8> Kind { A = 1, B = 2 }
header h_t { bit<8> a; bit<32> b; bit<16> c; Kind k; }
struct headers { h_t h; }
struct meta { bit<2> color; bool yes; int<8> n; }
parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t s) {
    value_set<bit<16>>(4) ports;
    state start { p.extract(h.h); transition select(h.h.c) { ports: accept; default: accept; } }
}
control V(inout headers h, inout meta m) { apply { } }
control I(inout headers h, inout meta m, inout standard_metadata_t s) {
    register<bit<48>>(8) stamps;
    register<bool>(4) flags;
    counter(4, CounterType.packets_and_bytes) total;
    meter(4, MeterType.bytes) speed;
    direct_counter(CounterType.packets_and_bytes) hits;
    direct_meter<bit<2>>(MeterType.packets) limit;
    action_selector(HashAlgorithm.crc16, 16, 8) spread;
    action send(bit<9> port) { s.egress_spec = port; }
    action set(bool yes, int<8> n, Kind k) { m.yes = yes; m.n = n; h.h.k = k; }
    action measure(bit<9> port) { limit.read(m.color); s.egress_spec = port; }
    table exactly { key = { h.h.a : exact; h.h.b[15:0] : exact @name("low half"); } actions = { send; set; NoAction; } counters = hits; default_action = NoAction(); }
    table longest { key = { h.h.b : lpm; } actions = { send; NoAction; } default_action = send(1); }
    table loosely { key = { h.h.b : ternary; h.h.c : range; h.h.a : optional; } actions = { send; set; } }
    table sliced { key = { h.h.c[7:0] : exact; } actions = { send; } }
    table chosen { key = { h.h.a : exact; h.h.b : selector; } actions = { send; set; } implementation = spread; }
    table measured { key = { h.h.a : exact; } actions = { measure; NoAction; } meters = limit; support_timeout = true; }
    table given {
        key = { h.h.k : exact; }
        actions = { send; NoAction; }
        entries = { Kind.A : send(1); Kind.B : send(2); }
    }
    table fixed { key = { h.h.a : exact; } actions = { send; NoAction; } const entries = { 1 : send(1); } }
    apply {
        exactly.apply(); longest.apply(); loosely.apply(); sliced.apply(); chosen.apply(); given.apply(); fixed.apply(); measured.apply();
        stamps.write(0, 1); flags.write(0, true); total.count(0); bit<2> c; speed.execute_meter(0, c);
    }
}
control E(inout headers h, inout meta m, inout standard_metadata_t s) { apply { } }
control C(inout headers h, inout meta m) { apply { } }
control D(packet_out p, in headers h) { apply { p.emit(h.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
