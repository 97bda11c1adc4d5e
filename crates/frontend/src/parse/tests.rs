//! The shape of trees. Refused programs are in `tests/syntax`.

use crate::ast::*;
use crate::diag::Diagnostic;
use crate::source::Loader;

struct NoFiles;

impl Loader for NoFiles {
    fn include(&self, _: &str, _: bool, _: &str) -> Option<(String, String)> {
        None
    }
}

fn parse(text: &str) -> (Program, Vec<Diagnostic>) {
    let (_, program, diags) = crate::parse_program("test.p4", text, &NoFiles, &[]);
    (program, diags)
}

fn path(p: &Path) -> String {
    format!("{}{}", if p.rooted { "." } else { "" }, p.name.name)
}

fn types(ts: &[TypeExpr]) -> String {
    ts.iter().map(ty).collect::<Vec<_>>().join(", ")
}

fn ty(t: &TypeExpr) -> String {
    match &t.kind {
        TypeExprKind::Bool => "bool".into(),
        TypeExprKind::Error => "error".into(),
        TypeExprKind::MatchKind => "match_kind".into(),
        TypeExprKind::String => "string".into(),
        TypeExprKind::Void => "void".into(),
        TypeExprKind::InfInt => "int".into(),
        TypeExprKind::Bit(e) => format!("bit<{}>", show(e)),
        TypeExprKind::Int(e) => format!("int<{}>", show(e)),
        TypeExprKind::Varbit(e) => format!("varbit<{}>", show(e)),
        TypeExprKind::Named(p) => path(p),
        TypeExprKind::Specialized(p, a) => format!("{}<{}>", path(p), types(a)),
        TypeExprKind::Stack(t, e) => format!("{}[{}]", ty(t), show(e)),
        TypeExprKind::Tuple(a) => format!("tuple<{}>", types(a)),
        TypeExprKind::List(t) => format!("list<{}>", ty(t)),
        TypeExprKind::DontCare => "_".into(),
    }
}

fn list<'a>(es: impl IntoIterator<Item = &'a Expr>) -> String {
    es.into_iter().map(show).collect::<Vec<_>>().join(" ")
}

/// An expression, every operator with its operands in parentheses.
fn show(e: &Expr) -> String {
    match &e.kind {
        ExprKind::Int { value, width: None } => value.to_string(),
        ExprKind::Int { value, width: Some((w, s)) } => format!("{w}{}{value}", if *s { 's' } else { 'w' }),
        ExprKind::Bool(b) => b.to_string(),
        ExprKind::String(s) => format!("{s:?}"),
        ExprKind::This => "this".into(),
        ExprKind::Name(p) => path(p),
        ExprKind::Type(t) => format!("type {}", ty(t)),
        ExprKind::Member(of, m) => format!("(. {} {})", show(of), m.name),
        ExprKind::Index(of, i) => format!("([] {})", list([&**of, i])),
        ExprKind::Slice(of, a, b) => format!("([:] {})", list([&**of, a, b])),
        ExprKind::PlusSlice(of, a, b) => format!("([+:] {})", list([&**of, a, b])),
        ExprKind::List { elems, rest } => format!("{{{}{}}}", list(elems), if *rest { " ..." } else { "" }),
        ExprKind::Struct { fields, rest } => {
            let fields: Vec<String> = fields.iter().map(|(n, e)| format!("{}={}", n.name, show(e))).collect();
            format!("{{{}{}}}", fields.join(" "), if *rest { " ..." } else { "" })
        }
        ExprKind::Invalid => "{#}".into(),
        ExprKind::Dots => "...".into(),
        ExprKind::Unary(op, e) => format!("({op:?} {})", show(e)),
        ExprKind::Binary(op, a, b) => format!("({op:?} {})", list([&**a, b])),
        ExprKind::Mux(c, a, b) => format!("(? {})", list([&**c, a, b])),
        ExprKind::Cast(t, e) => format!("(({}) {})", ty(t), show(e)),
        ExprKind::Call { callee, type_args, args } => {
            let generic =
                if type_args.is_empty() { String::new() } else { format!("<{}>", types(type_args)) };
            let args: Vec<String> = args
                .iter()
                .map(|a| {
                    let name = a.name.as_ref().map_or(String::new(), |n| format!("{}=", n.name));
                    name + &a.value.as_ref().map_or("_".to_string(), show)
                })
                .collect();
            format!("{}{generic}({})", show(callee), args.join(" "))
        }
        ExprKind::Mask(a, b) => format!("(&&& {})", list([&**a, b])),
        ExprKind::Range(a, b) => format!("(.. {})", list([&**a, b])),
        ExprKind::Default => "default".into(),
        ExprKind::DontCare => "_".into(),
    }
}

/// Parses `e` where `T` and `G` are types and `g` is a generic function.
fn check(e: &str, expected: &str) {
    let text = format!("typedef bit<8> T; extern G<A> {{ }} extern A g<A>(); const int c = {e};");
    let (program, diags) = parse(&text);
    assert!(diags.is_empty(), "{e}: {diags:?}");
    match program.decls.last().map(|d| &d.kind) {
        Some(DeclKind::Const(c)) => assert_eq!(show(&c.value), expected, "{e}"),
        other => panic!("{e}: {other:?}"),
    }
}

#[test]
fn operators() {
    check("a + b * c - d", "(Sub (Add a (Mul b c)) d)");
    check(
        "a || b && c == d < e | f ^ g1 & h << i ++ j * k",
        "(Or a (And b (Eq c (Lt d (BitOr e (BitXor f (BitAnd g1 (Shl h (Concat i (Mul j k))))))))))",
    );
    check("a > b >> c", "(Gt a (Shr b c))");
    check("-a.b[3] + !c", "(Add (Neg ([] (. a b) 3)) (Not c))");
    check("~a |+| b |-| +c", "(SatSub (SatAdd (BitNot a) b) (Plus c))");
    check("a % b / c", "(Div (Mod a b) c)");
    check("a ? b : c || d", "(? a b (Or c d))");
    check("a ? b ? c : d : e", "(? a (? b c d) e)");
    check("a[7:4] ++ a[i+:2]", "(Concat ([:] a 7 4) ([+:] a i 2))");
    check("a <= b != c >= d", "(Ne (Le a b) (Ge c d))");
}

#[test]
fn literals() {
    check("8w0xFF", "8w255");
    check("-4s3", "(Neg 4s3)");
    // Escapes stay as written.
    check("\"a\" \"b\\\"\"", "\"ab\\\\\\\"\"");
    check("{1, {2}, ...}", "{1 {2} ...}");
    check("{}", "{}");
    check("{a = 1, b = {#},}", "{a=1 b={#}}");
    check("{a = 1, ...}", "{a=1 ...}");
    check("...", "...");
    check("error.NoError", "(. type error NoError)");
    check(".x.y", "(. .x y)");
}

#[test]
fn types_in_expressions() {
    check("(T) a + b", "(Add ((T) a) b)");
    check("(a) - b", "(Sub a b)");
    check("(T) - b", "((T) (Neg b))");
    check("(unknown) a", "((unknown) a)");
    check("(unknown)(a)", "unknown(a)");
    check("(bit<(4 > 3 ? 8 : 2)>)(a)", "((bit<(? (Gt 4 3) 8 2)>) a)");
    check("(bit<N + 1>) a", "((bit<(Add N 1)>) a)");
    check("(list<tuple<T, G<bit<8>>>>) {}", "((list<tuple<T, G<bit<8>>>>) {})");
    check("(T[2]) a", "((T[2]) a)");
    check("a < b > (c)", "(Gt (Lt a b) c)");
    check("a < T > (c)", "a<T>(c)");
    check("g<x>(c) >> 2", "(Shr g<x>(c) 2)");
    check("p.m<bit<8>>()", "(. p m)<bit<8>>()");
    check("a.b < c", "(Lt (. a b) c)");
    check("G<T>(16, _, n = 3, k = _)", "G<T>(16 _ n=3 k=_)");
    check("T.A", "(. T A)");
}

/// Parses one declaration.
fn decl(text: &str) -> DeclKind {
    let (mut program, diags) = parse(text);
    assert!(diags.is_empty(), "{text}: {diags:?}");
    program.decls.pop().expect("a declaration").kind
}

#[test]
fn statements() {
    let DeclKind::Control(c) = decl(
        "header h { bit<8> x; }
         control c(inout h a, inout h[4] s)(bit<8> n) {
             @name(\"r\") register<bit<8>>(16) r;
             E() e = { bit<8> m(in bit<8> x) { return x; } E() f; };
             apply {
                 bit<8> v = 1;
                 h[2] two; s[1] = two[0]; u<bit<8>> w;
                 a.x += 3; a.x >>= 1; .f<_>(v);
                 if (v == 1) exit; else if (v == 2) { } else return;
                 switch (t.apply().action_run) { x: y: { } default: { } }
                 for (bit<8> i in 1 .. 3) { continue; }
                 for (bit<8> i = 0, v = 2; i < 3; i += 1, v = 3) break;
                 sub.apply(v); gen<bit<8>>.apply(); ;
             }
         }",
    ) else {
        panic!("no control")
    };
    let body = c.body.expect("a body");
    assert_eq!(body.locals.len(), 2);
    assert!(
        matches!(&body.locals[1].kind, DeclKind::Instance(i) if i.init.as_ref().is_some_and(|d| d.len() == 2))
    );
    assert_eq!(c.ctor_params.len(), 1);
    let kinds: Vec<&str> = body
        .apply
        .stmts
        .iter()
        .map(|s| match &s.kind {
            StmtKind::Decl(_) => "decl",
            StmtKind::Assign { op: None, .. } => "=",
            StmtKind::Assign { op: Some(BinaryOp::Shr), .. } => ">>=",
            StmtKind::Assign { op: Some(_), .. } => "op=",
            StmtKind::Call(_) => "call",
            StmtKind::If(..) => "if",
            StmtKind::Switch { cases, .. } if cases[0].body.is_none() && cases.len() == 3 => "switch",
            StmtKind::ForIn { .. } => "for in",
            StmtKind::For { init, update, .. } if init.len() == 2 && update.len() == 2 => "for",
            StmtKind::Empty => ";",
            _ => "?",
        })
        .collect();
    let expected = [
        "decl", "decl", "=", "decl", "op=", ">>=", "call", "if", "switch", "for in", "for", "call", "call",
        ";",
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn parsers_and_tables() {
    let DeclKind::Parser(p) = decl(
        "parser p(packet_in b, out h_t h) {
             value_set<bit<16>>(4) vs;
             state start {
                 b.extract(h);
                 transition select(h.x, h.y) { (1, 2 &&& 3): a; (_, 4 .. 5): a; vs: a; default: reject; }
             }
             state a { transition accept; }
             state b { }
         }",
    ) else {
        panic!("no parser")
    };
    let body = p.body.expect("a body");
    let Some(Transition::Select { on, cases, .. }) = &body.states[0].transition else { panic!("no select") };
    assert_eq!(list(on), "(. h x) (. h y)");
    let keys: Vec<String> = cases.iter().map(|c| list(&c.keys)).collect();
    assert_eq!(keys, ["1 (&&& 2 3)", "_ (.. 4 5)", "vs", "default"]);
    assert!(body.states[2].transition.is_none());

    let DeclKind::Control(c) = decl(
        "control c(inout bit<8> x) {
             table t {
                 key = { x : exact @name(\"x\"); x[3:0] : ternary; }
                 actions = { @tableonly a; .NoAction; b(x); }
                 const default_action = a(1);
                 entries = { const priority = 10 : (1, _) : a(2) @e; (8w1 + 1) &&& 3 : b; }
                 size = 1024;
             }
             apply { }
         }",
    ) else {
        panic!("no control")
    };
    let DeclKind::Table(t) = &c.body.expect("a body").locals[0].kind.clone() else { panic!("no table") };
    let shown: Vec<String> = t
        .properties
        .iter()
        .map(|p| match &p.kind {
            PropertyKind::Key(k) => {
                k.iter().map(|k| show(&k.expr) + ":" + &k.match_kind.name).collect::<Vec<_>>().join(" ")
            }
            PropertyKind::Actions(a) => a.iter().map(|a| path(&a.action)).collect::<Vec<_>>().join(" "),
            PropertyKind::Entries(es) => es
                .iter()
                .map(|e| {
                    format!(
                        "{} {:?} {} {}",
                        e.is_const,
                        e.priority.as_ref().map(show),
                        list(&e.keys),
                        show(&e.action)
                    )
                })
                .collect::<Vec<_>>()
                .join("; "),
            PropertyKind::DefaultAction(e) => show(e),
            PropertyKind::Other(n, e) => format!("{}={}", n.name, show(e)),
        })
        .collect();
    let expected = [
        "x:exact ([:] x 3 0):ternary",
        "a .NoAction b",
        "a(1)",
        "true Some(\"10\") 1 _ a(2); false None (&&& (Add 8w1 1) 3) b",
        "size=1024",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn declarations() {
    assert!(matches!(decl("enum bit<8> E { A = 1, B = 2, }"), DeclKind::Enum(e) if e.members.len() == 2));
    assert!(matches!(decl("error { A, B }"), DeclKind::Error(m) if m.len() == 2));
    assert!(matches!(decl("match_kind { exact, lpm, }"), DeclKind::MatchKind(m) if m.len() == 2));
    assert!(matches!(decl("control c<H>(inout H h);"), DeclKind::Control(c) if c.body.is_none()));
    assert!(matches!(decl("package P<A>(A a = 3);"), DeclKind::Package(p) if p.params[0].default.is_some()));
    assert!(
        matches!(decl("T f<T>(in T t) { return t; }"), DeclKind::Function(f) if f.proto.type_params.len() == 1)
    );
    assert!(matches!(decl("main() x;"), DeclKind::Instance(_)));
    assert!(matches!(decl("type bit<8> t;"), DeclKind::NewType(_)));
    assert_eq!(parse("typedef struct S { bit<8> x; } T; extern E; ;").0.decls.len(), 2);
    let DeclKind::ExternObject(e) = decl("extern E<T> { E(); abstract T m<U>(in U u); @a(1) void n(); }")
    else {
        panic!("no extern")
    };
    let shape: Vec<(bool, bool)> = e.methods.iter().map(|m| (m.is_constructor, m.is_abstract)).collect();
    assert_eq!(shape, [(true, false), (false, true), (false, false)]);
}

#[test]
fn annotations() {
    let (program, diags) = parse(
        "@a @b(x, (\"s\\\"\"), 8w3 ' ) @c[1, 2,] @d[k = 1, l = \"x\"] @default()
         @pragma e f 3
         const int c = 1;",
    );
    assert!(diags.is_empty(), "{diags:?}");
    let shown: Vec<String> = program.decls[0]
        .annotations
        .iter()
        .map(|a| {
            let body = match &a.body {
                AnnotationBody::Empty => "-".to_string(),
                AnnotationBody::Tokens(t) => format!("{}", t.len()),
                AnnotationBody::List(es) => list(es),
                AnnotationBody::Pairs(p) => {
                    p.iter().map(|(k, e)| format!("{}={}", k.name, show(e))).collect()
                }
            };
            format!("{} {body}", a.name.name)
        })
        .collect();
    assert_eq!(shown, ["a -", "b 8", "c 1 2", "d k=1l=\"x\"", "default 0", "e 2"]);
}

/// Deep or long input is refused or read, on the stack of an ordinary thread, and in reasonable time.
#[test]
fn depth() {
    let n = 20_000;
    let refused = [
        format!("const int c = {}1{};", "(".repeat(n), ")".repeat(n)),
        format!("const int c = {}1;", "-".repeat(n)),
        format!("const int c = {}1;", "1 + ".repeat(n)),
        format!("const int c = a{};", ".b".repeat(n)),
        format!("const int c = {}1;", "(bit<8>) ".repeat(n)),
        format!("const {} c = 1;", "tuple<".repeat(n)),
        format!("const bit{} c = 1;", "[1]".repeat(n)),
        format!("void f() {}", "{".repeat(n)),
        format!("void f() {{ {} ; }}", "if (true) ; else ".repeat(n)),
        format!("const int c = {}1{};", "a[".repeat(n), "]".repeat(n)),
        format!("const int c = {}1;", "true ? ".repeat(n)),
        format!("E() e = {}", "{ E() e = ".repeat(n)),
        format!("const bool c = {}1;", "a < bit<(".repeat(n)),
        format!("typedef int T; const bool c = {}1;", "(T[".repeat(n)),
        format!("const bool c = {}1;", "(u[".repeat(n)),
        format!("const bool c = {}1;", "a<bit<8>[".repeat(n)),
    ];
    for text in refused {
        let (_, diags) = parse(&text);
        let head: String = text.chars().take(40).collect();
        assert!(diags.iter().any(|d| d.code == "P0203"), "{head}: {:?}", diags.first());
    }
    let (_, diags) = parse(&format!("const int c = {{ {} }};", "1, ".repeat(n)));
    assert!(diags.is_empty(), "{:?}", diags.first());
    let (_, diags) = parse(&"const int c = ;\n".repeat(1000));
    assert_eq!((diags.len(), diags.last().map(|d| d.code)), (101, Some("P0299")));
}
