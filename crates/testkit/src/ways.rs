//! Random programs whose packets leave the ordinary way through the switch: resubmitted, recirculated, cloned, sent to groups,
//! truncated and dropped, with metadata that is kept or not, and with sums over headers of any shape.
//!
//! [`program`] writes one as text. There is no second evaluation of it: executors, and ways of giving packets to a switch, are held
//! against each other.

use crate::random::Random;
use std::fmt::Write;

/// Groups and sessions that programs name: 1 to this, and one more that does not exist.
pub const GROUPS: u32 = 3;

/// Fields of the metadata that hold numbers, and their widths.
const NUMBERS: [(&str, u32); 7] = [
    ("m.step", 8),
    ("m.port", 9),
    ("m.inner.time", 48),
    ("m.inner.wide", 128),
    ("m.inner.wider", 200),
    ("m.inner.word", 32),
    ("m.sum", 32),
];

/// The same of the headers.
const FIELDS: [(&str, u32); 8] = [
    ("h.k.a", 8),
    ("h.k.b", 8),
    ("h.k.c", 16),
    ("h.o.x", 4),
    ("h.o.y", 12),
    ("h.o.w", 40),
    ("h.v.len", 8),
    ("h.s[1].n", 24),
];

/// What a program can only read.
const GIVEN: [(&str, u32); 7] = [
    ("s.instance_type", 32),
    ("s.ingress_port", 9),
    ("s.egress_rid", 16),
    ("s.egress_spec", 9),
    ("s.checksum_error", 1),
    ("s.ingress_global_timestamp", 48),
    ("s.mcast_grp", 16),
];

const ALGORITHMS: [&str; 7] = ["crc32", "crc16", "csum16", "xor16", "identity", "crc32_custom", "random"];

/// Parts of data that may be hashed.
const PARTS: [&str; 14] = [
    "h.k",
    "h.o",
    "h.v",
    "h.v.rest",
    "h.s",
    "h.u",
    "h.k.c",
    "h.o.x",
    "m.inner.wide",
    "m.inner.wider",
    "m.kept",
    "m.inner.time",
    "8w7",
    "m.flag",
];

struct Maker {
    random: Random,
    text: String,
    /// Data with all that the deparser emits.
    depth: usize,
}

macro_rules! put {
    ($to:expr, $($text:tt)*) => {
        let _ = writeln!($to.text, $($text)*);
    };
}

/// The program of a seed.
pub fn program(seed: u64) -> String {
    let mut maker = Maker { random: Random::new(seed), text: String::new(), depth: 0 };
    maker.types();
    maker.parser();
    maker.checksums("V", "verify_checksum");
    maker.ingress();
    maker.egress();
    maker.checksums("C", "update_checksum");
    maker.deparser();
    maker.text
}

/// A packet for such a program.
pub fn packet(random: &mut Random) -> Vec<u8> {
    let bytes = random.below(60);
    let mut packet = random.bytes(bytes);
    // The length of a varbit.
    if let Some(length) = packet.get_mut(4).filter(|_| !random.one_in(8)) {
        *length %= 24;
    }
    packet
}

impl Maker {
    fn list(&mut self) -> String {
        match self.random.below(4) {
            0 => String::new(),
            1 => "@field_list(1) ".into(),
            2 => "@field_list(2) ".into(),
            _ => "@field_list(1, 2) ".into(),
        }
    }

    fn types(&mut self) {
        put!(self, "#include <core.p4>\n#include <v1model.p4>");
        put!(self, "header k_t {{ bit<8> a; bit<8> b; bit<16> c; }}");
        put!(self, "header o_t {{ bit<4> x; bit<12> y; bit<40> w; }}");
        let tail = if self.random.one_in(2) { "bit<16> tail;" } else { "" };
        put!(self, "header v_t {{ bit<8> len; varbit<256> rest; {tail} }}");
        put!(self, "header l_t {{ bit<24> n; }}\nheader a_t {{ bit<16> x; }}\nheader b_t {{ bit<40> y; }}");
        put!(self, "header_union u_t {{ a_t a; b_t b; }}");
        put!(self, "struct headers_t {{ k_t k; o_t o; v_t v; l_t[3] s; u_t u; }}");
        put!(self, "struct inner_t {{");
        for (width, name) in [(48, "time"), (128, "wide"), (200, "wider"), (32, "word")] {
            let list = self.list();
            put!(self, "    {list}bit<{width}> {name};");
        }
        put!(self, "}}\nstruct metadata_t {{");
        for field in
            ["bit<8> step", "bit<9> port", "bool flag", "inner_t inner", "o_t kept", "error e", "bit<32> sum"]
        {
            let list = self.list();
            put!(self, "    {list}{field};");
        }
        put!(self, "}}");
    }

    fn parser(&mut self) {
        put!(
            self,
            "parser P(packet_in p, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {{"
        );
        put!(self, "    state start {{ p.extract(h.k);");
        if self.random.one_in(2) {
            self.assign();
        }
        let kept = if self.random.one_in(2) { "m.step[1:0]" } else { "m.port[1:0]" };
        put!(
            self,
            "        transition select(h.k.a[1:0], {kept}) {{ (1, _): other; (2, 1): stack; (2, _): varbits; (3, 0): union; default: accept; }} }}"
        );
        put!(
            self,
            "    state other {{ p.extract(h.o); m.kept = h.o; transition select(h.o.x) {{ 1: varbits; 2: stack; 3: reject; default: accept; }} }}"
        );
        put!(
            self,
            "    state varbits {{ p.extract(h.v, (bit<32>)p.lookahead<bit<8>>() << 3); transition accept; }}"
        );
        put!(
            self,
            "    state stack {{ p.extract(h.s.next); transition select(h.s.last.n[23:22]) {{ 0: stack; 1: union; default: accept; }} }}"
        );
        put!(self, "    state union {{ p.extract(h.u.b); transition accept; }}\n}}");
    }

    /// An expression of this width.
    fn number(&mut self, width: u32) -> String {
        let of = match self.random.below(4) {
            0 => return format!("{width}w{}", self.random.below(1 << width.min(8))),
            1 => *self.random.choose(&NUMBERS),
            2 => *self.random.choose(&FIELDS),
            _ => *self.random.choose(&GIVEN),
        };
        format!("(bit<{width}>){}", of.0)
    }

    fn condition(&mut self) -> String {
        let mask = 1 << self.random.below(8);
        match self.random.below(6) {
            0 => format!("h.k.b & {mask} != 0"),
            1 => format!("h.k.a & {mask} == 0"),
            2 => format!("m.step & {mask} != 0"),
            3 => "s.instance_type == 0".into(),
            4 => "h.v.isValid()".into(),
            _ => "m.flag".into(),
        }
    }

    /// Data of a sum.
    fn data(&mut self) -> String {
        let parts: Vec<&str> = (0..1 + self.random.below(4)).map(|_| *self.random.choose(&PARTS)).collect();
        format!("{{ {} }}", parts.join(", "))
    }

    fn assign(&mut self) {
        let fields = if self.random.one_in(2) { &NUMBERS[..] } else { &FIELDS[..] };
        let (to, width) = *self.random.choose(fields);
        let from = self.number(width);
        put!(self, "        {to} = {from};");
    }

    /// A statement that both ingress and egress may have.
    fn statement(&mut self) {
        match self.random.below(12) {
            0..4 => self.assign(),
            4 => {
                let (data, algorithm) = (self.data(), *self.random.choose(&ALGORITHMS));
                let max = *self.random.choose(&["64w0x100000000", "64w0", "64w77"]);
                put!(self, "        hash(m.sum, HashAlgorithm.{algorithm}, 32w3, {data}, {max});");
            }
            5 => {
                let header = *self.random.choose(&["h.o", "h.v", "h.s[0]", "h.s[2]", "h.u.a", "m.kept"]);
                let how = *self.random.choose(&["setValid", "setInvalid"]);
                put!(self, "        {header}.{how}();");
            }
            6 => {
                put!(self, "        h.o = m.kept;");
            }
            7 => {
                let value = self.number(32);
                put!(
                    self,
                    "        seen.read(m.inner.word, 3); seen.write({}, {value});",
                    self.random.below(4)
                );
            }
            8 => {
                put!(self, "        passed.count((bit<32>)h.k.a & 7);");
            }
            9 => {
                let how = *self.random.choose(&["push_front(1)", "pop_front(1)"]);
                put!(self, "        h.s.{how};");
            }
            10 => {
                let bytes = self.random.below(30);
                put!(self, "        truncate({bytes});");
            }
            _ if self.depth < 2 => {
                let condition = self.condition();
                put!(self, "        if ({condition}) {{");
                self.depth += 1;
                (0..1 + self.random.below(3)).for_each(|_| self.statement());
                self.depth -= 1;
                put!(self, "        }}");
            }
            _ => {
                put!(self, "        m.flag = !m.flag;");
            }
        }
    }

    /// A request, under conditions that make it rare enough.
    fn request(&mut self, of: &[&str]) {
        let (condition, bit) = (self.condition(), self.random.below(8));
        let request = self.random.choose(of).to_string();
        let session = 1 + self.random.below(GROUPS as usize + 1);
        let list = 1 + self.random.below(2);
        let request = request.replace('S', &session.to_string()).replace('L', &list.to_string());
        put!(self, "        if ({condition} && h.k.c[{bit}:{bit}] == 1) {{ {request} }}");
    }

    fn objects(&mut self) {
        put!(self, "    register<bit<32>>(4) seen;\n    counter(8, CounterType.packets_and_bytes) passed;");
    }

    fn ingress(&mut self) {
        put!(self, "control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {{");
        self.objects();
        put!(
            self,
            "    action to(bit<9> port, bit<8> step) {{ s.egress_spec = port; m.step = m.step + step; }}"
        );
        put!(
            self,
            "    action group(bit<16> n) {{ s.mcast_grp = n; }}\n    action drop() {{ mark_to_drop(s); }}"
        );
        put!(
            self,
            "    table t {{ key = {{ h.k.b: exact; }} actions = {{ to; group; drop; }} default_action = to(2, 1); const entries = {{"
        );
        for n in 0..24 {
            let action = match self.random.below(5) {
                0 => format!("group({})", 1 + self.random.below(GROUPS as usize + 1)),
                1 => "drop()".into(),
                _ => format!("to({}, {})", self.random.below(6), self.random.below(3)),
            };
            put!(self, "        {}: {action};", 10 * n);
        }
        put!(self, "    }} }}\n    apply {{\n        t.apply();");
        for _ in 0..3 + self.random.below(6) {
            if self.random.one_in(3) {
                self.request(&[
                    "resubmit_preserving_field_list(L); ",
                    "if (s.instance_type == 0) { resubmit_preserving_field_list(L); }",
                    "clone_preserving_field_list(CloneType.I2E, S, L);",
                    "clone(CloneType.I2E, S);",
                    "s.mcast_grp = S;",
                    "h.k.c = h.k.c >> 1; resubmit_preserving_field_list(L);",
                ]);
            } else {
                self.statement();
            }
        }
        put!(self, "    }}\n}}");
    }

    fn egress(&mut self) {
        put!(self, "control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {{");
        self.objects();
        put!(self, "    apply {{");
        for _ in 0..2 + self.random.below(6) {
            if self.random.one_in(3) {
                self.request(&[
                    "h.k.c = h.k.c >> 1; recirculate_preserving_field_list(L);",
                    "h.k.c = 0; recirculate_preserving_field_list(L);",
                    "if (s.instance_type == 0) { clone_preserving_field_list(CloneType.E2E, S, L); }",
                    "if (s.egress_rid == 1) { clone(CloneType.E2E, S); h.k.c = 0; }",
                    "mark_to_drop(s);",
                    "h.k.a = s.packet_length[7:0];",
                ]);
            } else {
                self.statement();
            }
        }
        put!(self, "        h.k.a = h.k.a ^ (bit<8>)s.egress_rid ^ (bit<8>)s.instance_type;");
        put!(
            self,
            "        h.k.b = h.k.b ^ m.step ^ (bit<8>)m.inner.wide ^ (bit<8>)s.enq_qdepth;\n    }}\n}}"
        );
    }

    fn checksums(&mut self, name: &str, function: &str) {
        put!(self, "control {name}(inout headers_t h, inout metadata_t m) {{\n    apply {{");
        for _ in 0..self.random.below(3) {
            let (condition, data) =
                (*self.random.choose(&["h.k.isValid()", "h.o.isValid()", "m.flag", "true"]), self.data());
            let algorithm = *self.random.choose(&ALGORITHMS[..6]);
            let payload = if self.random.one_in(2) { "_with_payload" } else { "" };
            let to = *self.random.choose(&["m.sum", "h.k.c", "m.inner.word"]);
            put!(self, "        {function}{payload}({condition}, {data}, {to}, HashAlgorithm.{algorithm});");
        }
        put!(self, "    }}\n}}");
    }

    fn deparser(&mut self) {
        let all = match self.random.below(4) {
            0 => vec!["h.v", "h.k", "h.s", "h.o", "h.u"],
            1 => vec!["h.k", "h.o", "h.s"],
            _ => vec!["h"],
        };
        put!(self, "control D(packet_out p, in headers_t h) {{\n    apply {{");
        for header in all {
            put!(self, "        p.emit({header});");
        }
        put!(self, "    }}\n}}\nV1Switch(P(), V(), I(), E(), C(), D()) main;");
    }
}
