//! Numbers of up to thousands of bits: every operator, on operands in headers, in metadata and in local variables,
//! gives the interpreter's result, at widths around those where a number needs one limb more.

use pointsman_engine::Engine;
use pointsman_frontend::source::Loader;
use pointsman_interp::Interp;
use pointsman_ir::Executor;
use pointsman_v1model::{Arrived, Keep, Output, Pipeline, Random, Switch, SwitchConfig, Time};
use std::path::Path;

struct Include;

impl Loader for Include {
    fn include(&self, name: &str, _quoted: bool, _from: &str) -> Option<(String, String)> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4/include").join(name);
        let text = std::fs::read_to_string(&path).ok()?;
        Some((path.display().to_string(), text))
    }
}

/// The statements that make the results, and how wide these are. `w` is the operands' width, `x` another one.
struct Results {
    w: u32,
    random: Random,
    statements: String,
    fields: Vec<u32>,
}

impl Results {
    fn below(&mut self, n: u32) -> u32 {
        self.random.below(u64::from(n)) as u32
    }

    /// An operand, from any location.
    fn a(&mut self) -> &'static str {
        ["hdr.i.a", "meta.a", "la"][self.below(3) as usize]
    }

    fn b(&mut self) -> &'static str {
        ["hdr.i.b", "meta.b", "lb"][self.below(3) as usize]
    }

    fn add(&mut self, width: u32, expression: &str) {
        let n = self.fields.len();
        self.statements.push_str(&format!("        hdr.o.r{n} = {expression};\n"));
        self.fields.push(width);
    }

    fn operators(&mut self) {
        let w = self.w;
        for op in ["+", "-", "*", "&", "|", "^", "|+|", "|-|"] {
            let (a, b) = (self.a(), self.b());
            self.add(w, &format!("{a} {op} {b}"));
        }
        for op in ["+", "*", "|+|", "|-|"] {
            let (a, b) = (self.a(), self.b());
            self.add(w, &format!("(bit<{w}>)((int<{w}>){a} {op} (int<{w}>){b})"));
        }
        for op in ["~", "-"] {
            let a = self.a();
            self.add(w, &format!("{op}{a}"));
        }
        for op in ["==", "!=", "<", "<=", ">", ">="] {
            let (a, b) = (self.a(), self.b());
            self.add(8, &format!("{a} {op} {b} ? 8w1 : 0"));
            self.add(8, &format!("(int<{w}>){a} {op} (int<{w}>){b} ? 8w1 : 0"));
        }
        let (a, b) = (self.a(), self.b());
        self.add(w, &format!("{a}[0:0] == 1 ? {a} : {b} ^ {a}"));
        self.add(w, &format!("{a} + 0x123456789abcdef0123456789abcdef0"));
        self.add(8, &format!("{a} == {} ? 8w1 : 0", self.w - 1));
    }

    fn shifts(&mut self) {
        let w = self.w;
        for by in [0, 1, 8, 63, 64, 65, 127, 128, w - 1, w, self.w / 2] {
            let (a, b) = (self.a(), self.b());
            self.add(w, &format!("{a} << {by}"));
            self.add(w, &format!("{b} >> {by}"));
            self.add(w, &format!("(bit<{w}>)((int<{w}>){b} >> {by})"));
        }
        for by in ["hdr.i.by", "meta.by", "((bit<130>)meta.by)", "((bit<100>)meta.by)", "lb"] {
            let (a, b) = (self.a(), self.b());
            self.add(w, &format!("{a} << {by}"));
            self.add(w, &format!("{b} >> {by}"));
            self.add(w, &format!("(bit<{w}>)((int<{w}>){b} >> {by})"));
        }
        // A narrow number by a wide one.
        let b = self.b();
        self.add(32, &format!("{b}[31:0] << {b}"));
    }

    fn parts(&mut self) {
        let w = self.w;
        for _ in 0..12 {
            let (p, q) = (self.below(w), self.below(w));
            let (hi, lo) = (p.max(q), p.min(q));
            let (a, b) = (self.a(), self.b());
            let part = hi + 1 - lo;
            self.add(part, &format!("{a}[{hi}:{lo}]"));
            self.add(w + part, &format!("{a} ++ {b}[{hi}:{lo}]"));
            self.add(w + part, &format!("{b}[{hi}:{lo}] ++ {a}"));
            // Written in place, each place separately.
            for (place, other) in [("hdr.i.a", a), ("meta.a", b), ("la", b)] {
                self.statements.push_str(&format!("        {place}[{hi}:{lo}] = {b}[{part} - 1:0];\n"));
                self.add(w, &format!("{place} ^ {other}"));
            }
        }
        for at in [0, 63, 64, 127, w / 2].into_iter().filter(|at| *at < w) {
            let a = self.a();
            self.add(1, &format!("{a}[{at}:{at}]"));
            self.add(w - at, &format!("{a}[{} - 1:{at}]", w));
        }
    }

    fn casts(&mut self) {
        let w = self.w;
        for to in [1, 8, 32, 64, 65, 127, 128, 129, 192, 193, 256, w + 1, w + 63, w + 64, w + 70, w / 2] {
            let (a, b) = (self.a(), self.b());
            self.add(to, &format!("(bit<{to}>){a}"));
            if to > 1 {
                self.add(to, &format!("(bit<{to}>)(int<{to}>)(int<{w}>){b}"));
                self.add(w, &format!("(bit<{w}>)(int<{w}>)(int<{to}>)(bit<{to}>){b}"));
            }
            self.add(w, &format!("(bit<{w}>)(bit<{to}>){a}"));
        }
    }
}

fn program(w: u32, seed: u64) -> (String, Results) {
    let mut r = Results { w, random: Random::new(seed), statements: String::new(), fields: vec![] };
    r.operators();
    r.shifts();
    r.casts();
    r.parts();
    r.operators();
    let text = text(&r);
    (text, r)
}

fn text(r: &Results) -> String {
    let w = r.w;
    let pad = |bits: u32| {
        if bits.is_multiple_of(8) { String::new() } else { format!("    bit<{}> pad;\n", 8 - bits % 8) }
    };
    let fields: String = r.fields.iter().enumerate().map(|(n, w)| format!("    bit<{w}> r{n};\n")).collect();
    format!(
        r#"#include <core.p4>
#include <v1model.p4>
header in_t {{
    bit<{w}> a;
    bit<{w}> b;
    bit<16> by;
{pad_in}}}
header out_t {{
{fields}{pad_out}}}
struct headers_t {{ in_t i; out_t o; }}
struct meta_t {{ bit<{w}> a; bit<{w}> b; bit<16> by; }}
parser P(packet_in p, out headers_t hdr, inout meta_t meta, inout standard_metadata_t s) {{
    state start {{ p.extract(hdr.i); transition accept; }}
}}
control Nothing(inout headers_t hdr, inout meta_t meta) {{ apply {{}} }}
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t s) {{
    apply {{
        hdr.o.setValid();
        meta.a = hdr.i.a;
        meta.b = hdr.i.b;
        meta.by = hdr.i.by;
        bit<{w}> la = meta.a;
        bit<{w}> lb = hdr.i.b;
        s.egress_spec = 1;
{statements}    }}
}}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t s) {{ apply {{}} }}
control D(packet_out p, in headers_t hdr) {{ apply {{ p.emit(hdr.o); p.emit(hdr.i); }} }}
V1Switch(P(), Nothing(), I(), E(), Nothing(), D()) main;
"#,
        pad_in = pad(2 * w + 16),
        pad_out = pad(r.fields.iter().sum()),
        statements = r.statements,
    )
}

fn run<E: Executor>(text: &str, packets: &[Vec<u8>]) -> Vec<Output> {
    let compiled = pointsman_frontend::compile("wide.p4", text, &Include, &[]);
    let compiled = compiled.unwrap_or_else(|failure| panic!("{:#?}\n{text}", failure.diagnostics));
    let pipeline = Pipeline::load(compiled.program).unwrap_or_else(|problems| panic!("{problems:?}"));
    let mut switch = Switch::<E>::new(SwitchConfig::default()).unwrap();
    switch.set_pipeline(Time::ZERO, pipeline, Keep::Nothing).unwrap();
    let mut left = Vec::new();
    let mut buffers = packets.to_vec();
    let mut arrived: Vec<Arrived<'_>> =
        buffers.iter_mut().map(|buffer| Arrived { port: 3, buffer, start: 0 }).collect();
    switch.process(Time::ZERO, 16, &mut arrived, &mut left);
    left
}

/// Bytes of numbers that carry far, are next to each other, or are anything.
fn packet(random: &mut Random, w: u32) -> Vec<u8> {
    let bytes = (2 * w + 16).div_ceil(8) as usize;
    let mut packet: Vec<u8> = match random.below(5) {
        0 => vec![0; bytes],
        1 => vec![0xff; bytes],
        _ => (0..bytes).map(|_| random.next_u64() as u8).collect(),
    };
    if random.below(3) == 0 {
        // The second operand is much like the first.
        for bit in 0..w as usize {
            let (from, to) = (bit, bit + w as usize);
            let set = packet[from / 8] >> (7 - from % 8) & 1;
            let place = &mut packet[to / 8];
            *place = *place & !(1 << (7 - to % 8)) | set << (7 - to % 8);
        }
    }
    for _ in 0..random.below(4) {
        let at = random.below(bytes as u64) as usize;
        packet[at] ^= 1 << random.below(8);
    }
    // Shifts by less than the width, mostly.
    let by = if random.below(8) == 0 { random.below(1 << 16) } else { random.below(u64::from(w) + 2) };
    for bit in 0..16 {
        let to = 2 * w as usize + bit;
        let set = (by >> (15 - bit) & 1) as u8;
        packet[to / 8] = packet[to / 8] & !(1 << (7 - to % 8)) | set << (7 - to % 8);
    }
    packet
}

fn check(widths: &[u32]) {
    for &w in widths {
        let (text, results) = program(w, u64::from(w));
        let mut random = Random::new(u64::from(w));
        let packets: Vec<Vec<u8>> = (0..60).map(|_| packet(&mut random, w)).collect();
        let (expected, got) = (run::<Interp>(&text, &packets), run::<Engine>(&text, &packets));
        assert_eq!((expected.len(), got.len()), (packets.len(), packets.len()), "{w} bits");
        for (n, pair) in got.iter().zip(&expected).enumerate() {
            let (Output::Port(_, got), Output::Port(_, expected)) = pair else {
                panic!("{w} bits: {pair:?}")
            };
            let differs = (0..got.len()).find(|i| got[*i] != expected[*i]);
            let Some(byte) = differs else { continue };
            // Bit by bit to the result that it belongs to.
            let (mut end, bit) = (0, 8 * byte as u32 + (got[byte] ^ expected[byte]).leading_zeros());
            let result = results.fields.iter().position(|width| {
                end += width;
                bit < end
            });
            let line =
                result.and_then(|n| results.statements.lines().find(|l| l.contains(&format!(".r{n} ="))));
            panic!("{w} bits, packet {:02x?}: {line:?}\n{text}", packets[n]);
        }
        assert!(got == expected);
    }
}

#[test]
fn widths_of_two_and_three_limbs() {
    check(&[100, 127, 128, 129, 130, 191, 192, 193]);
}

#[test]
fn widths_of_some_limbs() {
    check(&[200, 255, 256, 257, 320, 383, 448, 449]);
}

#[test]
fn widths_around_what_is_held_in_registers() {
    check(&[511, 512, 513, 576, 577, 640]);
}

#[test]
fn widths_of_many_limbs() {
    check(&[1000, 1024, 2047, 2048, 2049]);
}
