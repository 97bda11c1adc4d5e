//! The layout of formatted text.

use super::format;

#[track_caller]
fn check(text: &str, want: &str) {
    let got = format(text, None).unwrap_or_else(|d| panic!("{}", d.message));
    assert_eq!(got, want, "\n{got}");
    assert_eq!(format(&got, None).as_deref().ok(), Some(want), "formatting again changes it");
}

#[test]
fn blanks() {
    check("const   bit < 8 >  A=8w1 ;", "const   bit<8>  A = 8w1;\n");
    check("const bit < 8 > A=8w1 ;", "const bit<8> A = 8w1;\n");
    check("action a ( ) { x=( bit<8> ) y [ 3 : 0 ]+ - 1 ; }", "action a() { x = (bit<8>)y[3:0] + -1; }\n");
    check("action a(){x=a?b:c;y=!z;w=~v;}", "action a() { x = a ? b : c; y = !z; w = ~v; }\n");
    check("action a(){x=a>>b;y=c< d;z=e>f;}", "action a() { x = a >> b; y = c < d; z = e > f; }\n");
    check(
        "extern r<T,I>{ r ( bit<32> n );T get<U>(in I i); }",
        "extern r<T, I> { r(bit<32> n); T get<U>(in I i); }\n",
    );
    check("register < bit<8> >(4) r;", "register<bit<8>>(4) r;\n");
    check(
        "@name ( \"a\" )@hidden table t{ key={ h.x : exact ; } }",
        "@name(\"a\") @hidden table t { key = { h.x: exact; } }\n",
    );
    check("control c( ) { apply{ } }", "control c() { apply {} }\n");
}

#[test]
fn lines() {
    check(
        "control C(in bit<8> a,\nout bit<8> b)\n{\n\n  apply\n {\n b=a; if(a==1)\n {b=2;\n}\nelse b=3; // three\n}\n\n\n\n}\nstruct s { }",
        "control C(in bit<8> a,\n          out bit<8> b) {\n    apply {\n        b = a;\n        if (a == 1) {\n            b = 2;\n        } else b = 3; // three\n    }\n\n}\nstruct s {}\n"
            .replace("    }\n\n}", "    }\n}")
            .as_str(),
    );
    check("enum e {\n a, // one\n b\n}\n", "enum e {\n    a, // one\n    b\n}\n");
    check(
        "state s {\ntransition select(a,\nb) {\n(1,_):x;\ndefault :accept;\n} }",
        "state s {\n    transition select(a,\n                      b) {\n        (1, _): x;\n        default: accept;\n    }\n}\n",
    );
    check("x f(\na,\nb\n);\n", "x f(\n    a,\n    b\n);\n");
    check("const bit<8> a = 1 +\n2;\n", "const bit<8> a = 1 +\n    2;\n");
    check("switch (x) {\na:\nb: { y(); }\n}", "switch (x) {\n    a:\n    b: { y(); }\n}\n");
    check("@name(\"x\")\n@hidden\naction a() {}", "@name(\"x\")\n@hidden\naction a() {}\n");
}

#[test]
fn comments_and_directives() {
    check(
        "  // one\n\n\n\n/* two\n   * three\n*/\nheader h { bit<8> a; /* four */ }\n",
        "// one\n\n/* two\n * three\n */\nheader h { bit<8> a; /* four */ }\n",
    );
    check(
        "#define A(x)   x +  1\n  #if 1\ncontrol c() {\n#else\ncontrol c(in bit<8> a) {\n  # endif\napply{}\n}",
        "#define A(x)   x +  1\n  #if 1\ncontrol c() {\n#else\ncontrol c(in bit<8> a) {\n  # endif\n    apply {}\n}\n",
    );
    check("action a() { // why\nb(); }\n", "action a() { // why\n    b();\n}\n");
    check("#define X \\\n  1\nconst bit<8> a = X;", "#define X \\\n  1\nconst bit<8> a = X;\n");
    check("#define A(i) \\\n\nconst bit<8> a = A(1);", "#define A(i)\n\nconst bit<8> a = A(1);\n");
    check("#define X 1 \\", "#define X 1\n");
    check("#define X 1 // a /* b\nconst bit<8> a = X;", "#define X 1 // a /* b\nconst bit<8> a = X;\n");
    check("// a \\\n\nconst bit<8> a = 1;", "// a\nconst bit<8> a = 1;\n");
    check("con\\\nst bit<8> a = 1 + \\\n2;", "con\\\nst bit<8> a = 1 +\n    2;\n");
    check("", "");
    check("// only", "// only\n");
}

#[test]
fn what_has_no_end() {
    let code = |text: &str| format(text, None).err().map(|d| d.code);
    assert_eq!(code("a /* b"), Some("P0102"));
    assert_eq!(code("a \"b"), Some("P0104"));
    assert_eq!(code("#if 0\n#endif\na \"b"), Some("P0104"));
    assert_eq!(code("#if 0\n/* \"b\n#endif"), Some("P0102"));
    // No comment is lost, however it is written.
    assert_eq!(code("a = /\\\n* one */ 1;"), Some("P0904"));
}

#[track_caller]
fn check_width(width: usize, text: &str, want: &str) {
    let got = format(text, Some(width)).unwrap_or_else(|d| panic!("{}", d.message));
    assert_eq!(got, want, "\n{got}");
    assert_eq!(format(&got, Some(width)).as_deref().ok(), Some(want), "formatting again changes it");
}

/// Text that `#if` leaves out need not be P4.
#[test]
fn strings_without_an_end() {
    for (text, want) in [
        (
            "#if 0\nit is \"three \n;\n#endif\nconst bit<8> x=1;\n",
            "#if 0\nit is \"three\n    ;\n#endif\nconst bit<8> x = 1;\n",
        ),
        ("#if 0\n\"a\n#endif\nconst string s=\"x\";\n", "#if 0\n\"a\n#endif\nconst string s = \"x\";\n"),
        (
            "#if A\n@name(\"b\n  c\") action a(){}\n#endif\n",
            "#if A\n@name(\"b\n  c\") action a() {}\n#endif\n",
        ),
        ("#if 0\n#else\n  \"\n#endif\n{\n", "#if 0\n#else\n\"\n#endif\n{\n"),
        (
            "@pragma name \"two\nlines\"\nconst bit b=1;\n@pragma  a \"one\"\n",
            "@pragma name \"two\nlines\"\nconst bit b = 1;\n@pragma  a \"one\"\n",
        ),
    ] {
        let once = format(text, None).unwrap_or_else(|d| panic!("{text}: {}", d.message));
        assert_eq!(once, want);
        assert_eq!(format(&once, None).ok(), Some(once), "{text}");
    }
}

/// A statement without braces behind `else` on a line of its own, wherever they are.
#[test]
fn else_in_any_column() {
    for (before, inside) in (0..12).flat_map(|a| (0..12).map(move |b| (" ".repeat(a), " ".repeat(b)))) {
        let text = format!(
            "control c() {{\n    apply {{\n        if (b) {{\n        }}\n{before}else\n{inside}y();\n    }}\n}}\n"
        );
        let once = format(&text, None).unwrap_or_else(|d| panic!("{}", d.message));
        assert_eq!(format(&once, None).ok(), Some(once), "{text}");
    }
}

/// Type arguments in lines of their own, wherever these start: the text is the same from then on.
#[test]
fn type_arguments_in_any_column() {
    for (before, inside) in (0..24).flat_map(|a| (0..24).map(move |b| (" ".repeat(a), " ".repeat(b)))) {
        for (start, end) in [
            ("some.extract(hdr.next<", ">(a, b));"),
            ("f(a, lookahead<", ">(), c);"),
            ("f(lookahead<", ">(x,\n      y), c);"),
            ("register<", ">(4) r;"),
            ("x = { g<", ">(a) };"),
            ("x = b[g<", ">(a):0];"),
        ] {
            let text = format!(
                "control c() {{\n    apply {{\n        {start}\n{inside}bit<8>\n{before}{end}\n    }}\n}}\n"
            );
            for width in [None, Some(40)] {
                let once = format(&text, width).unwrap_or_else(|d| panic!("{}", d.message));
                assert_eq!(format(&once, width).ok().as_ref(), Some(&once), "{text}");
            }
            // `>` comes first in its line, and nothing before it.
            let text = text.replace(&format!("\n{inside}bit"), "bit");
            let once = format(&text, None).unwrap_or_else(|d| panic!("{}", d.message));
            assert_eq!(format(&once, None).ok(), Some(once), "{text}");
        }
    }
    check("a = f(g<bit<8>\n>(c));\n", "a = f(g<bit<8>\n     >(c));\n");
}

#[test]
fn widths() {
    // As many arguments on a line as fit, below the first.
    check_width(
        40,
        "control C(inout headers_t hdr, inout metadata_t meta, in bit<8> x) { apply {} }",
        "control C(inout headers_t hdr,\n          inout metadata_t meta,\n          in bit<8> x) { apply {} }\n",
    );
    check_width(
        40,
        "action a() {\n    f(aaaaaaaa, bbbbbbbb, cccccccc, dddddddd, eeeeeeee);\n}\n",
        "action a() {\n    f(aaaaaaaa, bbbbbbbb, cccccccc,\n      dddddddd, eeeeeeee);\n}\n",
    );
    // Where they would not fit there, a step to the right.
    check_width(
        40,
        "action a() {\n    some_function_of_some_name(first_argument, second_value);\n}\n",
        "action a() {\n    some_function_of_some_name(\n        first_argument, second_value);\n}\n",
    );
    // Expressions outside of brackets first, at the operator that binds least.
    check_width(
        40,
        "action a() {\n    x = first_value + second_value * third + fourth;\n}\n",
        "action a() {\n    x = first_value\n        + second_value * third + fourth;\n}\n",
    );
    check_width(
        40,
        "@name(\"a.very.long.name\") @hidden action a() {}",
        "@name(\"a.very.long.name\")\n@hidden action a() {}\n",
    );
    // An annotation of several lines has its declaration below.
    check_width(
        40,
        "@size[first = 1000, second = 2000, third = 30] action a() {}",
        "@size[first = 1000, second = 2000,\n      third = 30]\naction a() {}\n",
    );
    check_width(
        40,
        "struct s {\n    @hidden @name(\"a.name.of.over.thirty.chars\") bit<8> x;\n}\n",
        "struct s {\n    @hidden\n    @name(\"a.name.of.over.thirty.chars\")\n    bit<8> x;\n}\n",
    );
    // Braces stay behind `=`.
    check_width(
        40,
        "table t { key = { h.first: exact; h.second: exact; } actions = {} }",
        "table t {\n    key = {\n        h.first: exact;\n        h.second: exact;\n    }\n    actions = {}\n}\n",
    );
    // Comments stay where they are, and do not count.
    check_width(
        40,
        "action a() {\n    b(1, 2); // what is said about this statement\n}\n",
        "action a() {\n    b(1, 2); // what is said about this statement\n}\n",
    );
}
