//! What each code of a diagnostic means: a title and a paragraph, for `pointsman p4 explain` and docs/diagnostics.md.

/// A code explained.
#[derive(Clone, Copy, Debug)]
pub struct Explanation {
    /// `P` and four digits.
    pub code: &'static str,
    /// What it is, in a few words.
    pub title: &'static str,
    /// What it means and what to do, one paragraph.
    pub text: &'static str,
}

/// The explanation of a code, as `P0301` or `p0301`.
pub fn explain(code: &str) -> Option<&'static Explanation> {
    ALL.iter().find(|e| e.code.eq_ignore_ascii_case(code))
}

/// All codes as docs/diagnostics.md has them.
pub fn markdown() -> String {
    let mut out = String::from(HEAD);
    for e in ALL {
        out += &format!("\n### {}: {}\n\n{}\n", e.code, e.title, e.text);
    }
    out
}

const HEAD: &str = include_str!("codes.md");

macro_rules! codes {
    ($($code:literal $title:literal $text:literal;)*) => {
        /// Every code, in order.
        pub const ALL: &[Explanation] = &[$(Explanation { code: $code, title: $title, text: $text }),*];
    };
}

codes! {
    "P0101" "A character or escape that P4 does not know"
        "The source contains a character that begins nothing in P4, such as `$` or a single quote, or an escape \
         in a string that is none of P4's. Strings stand in double quotes; there are no character literals. Often \
         such a character came in by copying text from a document.";
    "P0102" "A comment without an end"
        "A comment that begins with `/*` goes to the next `*/`; comments do not nest. Here the file ends first.";
    "P0103" "A malformed integer"
        "Integers are written `10`, `0xff`, `0o17`, `0b1010`, with `_` between digits as you like, and with a \
         width and a sign in front: `8w255`, `4s7` (P4_16 section 6.4.3.2).";
    "P0104" "A string without an end"
        "A string ends on the line where it begins. Two strings side by side are joined, so a long text can go \
         over several lines.";
    "P0110" "A malformed directive"
        "A line that begins with `#` is a directive of the preprocessor, with a fixed form for each. The message \
         shows the form. Unknown directives are skipped with a warning, as p4c does without one.";
    "P0111" "A file that is not found"
        "`#include \"file\"` looks beside the including file, then in the folders of `--include`; `#include \
         <file>` only in those folders and among the files that Pointsman brings along, core.p4 and v1model.p4.";
    "P0112" "Too many or too large includes"
        "Includes may be nested 64 deep, and all files together may have 256 MiB. A file that includes itself \
         needs a guard: `#ifndef NAME`, `#define NAME`, ..., `#endif`.";
    "P0113" "`#error`"
        "The program itself says that it cannot be compiled so, by `#error`. Look at the condition around it: \
         usually a macro is to be given by `-D`.";
    "P0114" "`#warning`"
        "The program itself warns, by `#warning`.";
    "P0115" "A conditional without an end"
        "Each `#if`, `#ifdef` and `#ifndef` needs an `#endif` in the same file.";
    "P0116" "`#else`, `#elif` or `#endif` in the wrong place"
        "These belong to an `#if` in the same file, and `#else` comes last.";
    "P0117" "A malformed condition"
        "What follows `#if` and `#elif` is an expression of integers, `defined(NAME)` and the operators of C. \
         Names that are no macros count as 0.";
    "P0118" "A malformed macro"
        "A macro is defined by `#define NAME text` or `#define NAME(a, b) text`, without a space before the \
         parenthesis. `#` makes a string of a parameter. `##` joins two tokens, and has no \
         effect where they do not make one.";
    "P0119" "A macro that is defined twice"
        "A macro is defined again with another text. `#undef` it first if that is meant.";
    "P0120" "A macro call with the wrong arguments"
        "A macro with parameters is called with as many arguments, in parentheses that are closed.";
    "P0121" "Macros that expand to too much text"
        "Macros that use each other can grow exponentially. Expansion stops after two million steps.";
    "P0199" "Too many problems in directives"
        "After a hundred problems in directives and macros no more are shown. Most follow from the first.";
    "P0201" "A syntax error"
        "Something else was expected here. The message says what, and the label what stands there instead. \
         Grammar: appendix H of P4_16.";
    "P0202" "A missing semicolon"
        "The statement or declaration before needs a `;`.";
    "P0203" "Nested too deeply"
        "Expressions, types, statements and the like may be nested 100 deep or so, which no program written by \
         hand comes near.";
    "P0204" "A missing part"
        "A declaration lacks a part that it must have, such as the `apply` block of a control.";
    "P0205" "Something in the wrong place"
        "The construct is right by itself, but cannot stand here: a function inside a control, a statement at the \
         top level, a transition in the middle of a state.";
    "P0206" "An expression that is no statement"
        "Statements are assignments, calls, conditionals, loops and the like. `a == b;` does nothing, and there \
         is no `a++`.";
    "P0207" "A keyword as a name"
        "Keywords cannot be names. Choose another, such as `state_` for `state`.";
    "P0208" "Brackets that do not match"
        "A bracket is not closed, or one is closed that was not opened. The label points at the other one, as far \
         as it can be told.";
    "P0209" "Ambiguous conditional expressions"
        "Another conditional expression is the third operand of `?:`. It is read as in C, `a ? b : (c ? d : e)`; p4c \
         reads `(a ? b : c) ? d : e`. Parentheses keep both from guessing.";
    "P0210" "A variable outside of a block"
        "There are no global variables in P4: only `const` can stand at the top level. State that lives longer \
         than a packet is kept in externs such as registers.";
    "P0212" "An empty declaration"
        "The list of members, or of states, needs at least one.";
    "P0213" "A malformed table property"
        "A property of a table has another form: `key = { ... }`, `actions = { ... }`, `default_action = \
         a(...);`, `const` only where the property may be constant.";
    "P0299" "Too many syntax errors"
        "Most of them follow from the first, so the rest of the file is not looked at.";
    "P0301" "An unknown name"
        "Nothing that is visible here has this name. Names can be used only behind their declaration (P4_16 \
         section 6.6.1); what is declared inside a block is not visible outside.";
    "P0302" "A name that is declared twice"
        "Two declarations of the same block have the same name. Only functions, extern functions and methods may \
         share one, if they differ in the number or the names of their parameters.";
    "P0303" "A name of the wrong kind"
        "The name is that of a type where a value is needed, or the other way round; or it cannot be called.";
    "P0304" "An unknown member"
        "The type has no field, method, member or property of this name.";
    "P0306" "Recursion"
        "Functions, actions, parsers and controls cannot call or contain themselves, directly or in a circle: a \
         packet passes in a bounded time (P4_16 section 10).";
    "P0307" "No function that fits"
        "Several functions or methods have this name, and none takes this number of arguments, or arguments of \
         these names.";
    "P0308" "Several functions that fit"
        "Several functions or methods of this name take such arguments. Naming the arguments tells them apart \
         (P4_16 section 6.9.2).";
    "P0401" "A value of the wrong type"
        "The value has another type than what it is used for. P4 converts implicitly only `int` to a type with a \
         width, an enum to its representation, and lists to structs and the like (P4_16 section 8.11.2); \
         everything else needs a cast, `(type) value`.";
    "P0402" "An operator that is not defined"
        "The operator does not exist for operands of these types. Both sides of most operators must have the same \
         width and sign; division exists only for values known at compile time.";
    "P0403" "Not a place"
        "What is assigned, or passed as `out` or `inout`, must be a place that can be written: a variable, a \
         field or element of one, or a slice of its bits; no constant and no `in` parameter. Elements of tuples are \
         places here and in p4c, but not in P4_16: that is a warning.";
    "P0404" "Wrong arguments"
        "The call has too many or too few arguments, or arguments for parameters that do not exist. All arguments \
         are given by position or all by name; `_` stands for an `out` argument that is not wanted.";
    "P0405" "Wrong type arguments"
        "A generic type, function or object takes as many types as it has type parameters. They may be left out \
         if the arguments determine them.";
    "P0406" "A type that cannot stand here"
        "Not every type can be a variable, a field, an element or a parameter: `int` and `string` exist at \
         compile time only, headers hold bits only (P4_16 section 7.2.11 has the table).";
    "P0407" "A cast that does not exist"
        "Casts are listed in P4_16 section 8.11.1. A cast changes the width or the sign, not both at once; \
         structs are cast from lists only.";
    "P0408" "A parameter that cannot be"
        "Directions and types of parameters are restricted: constructor parameters have no direction, extern \
         objects are passed without one, blocks are passed to constructors only, and `@optional` stands where an \
         architecture declares something.";
    "P0409" "A wrong or missing `return`"
        "A function with a result returns a value at the end of every path; one without, an action or a control \
         returns none.";
    "P0410" "Something in the wrong context"
        "The statement or expression exists, but not here: `exit` in a function, `switch` and `return` in a \
         parser, `break` outside of a loop, tables at the top level.";
    "P0411" "A wrong index or slice"
        "A slice is written `x[high:low]`, bits counted from 0 at the low end; an index is below the size of what \
         it indexes.";
    "P0412" "A wrong structure expression"
        "A structure expression gives each field once, by name or by position. What is missing needs `...` at the \
         end.";
    "P0413" "A call in the wrong place"
        "Tables and controls are applied in the `apply` block of a control, parsers in states; actions are called \
         by controls and actions; extern methods nowhere at the top level (P4_16 appendix F has the table).";
    "P0414" "An unknown width"
        "`int` values have no width. Here one is needed: write it, as in `8w5`.";
    "P0415" "Something deprecated"
        "Its declaration says `@deprecated`, with what to use instead.";
    "P0416" "A malformed annotation"
        "Annotations that the language or P4Runtime define have a fixed form; a structured annotation, \
         `@name[...]`, is given once.";
    "P0501" "A value that is not known at compile time"
        "Widths, sizes, constants, labels and arguments of constructors must be known at compile time: literals, \
         constants, constructor parameters and expressions of these (P4_16 section 18.1).";
    "P0502" "A number that does not fit"
        "The number has more bits than its type, and the high ones are lost. If that is meant, write a mask or a \
         slice.";
    "P0503" "Undefined arithmetic"
        "Division by zero, division of negative numbers, shifts by a negative amount and absurdly large results \
         have no value.";
    "P0504" "A static assertion that fails"
        "`static_assert(condition)` was given a condition that is false.";
    "P0505" "No `main`"
        "A whole program ends with an instance of the architecture's package that is called `main`. Without it, \
         the declarations can be checked, but nothing can run; so this is a warning of `p4 check` and an error \
         elsewhere.";
    "P0506" "A size that is out of range"
        "Widths, sizes and the like are bounded: a type can have at most 65536 bits, an array as many elements.";
    "P0507" "A wrong instantiation"
        "Objects are made where the specification allows it: externs at the top level and at the head of blocks, \
         parsers and controls inside blocks of their kind or as arguments of a package; types without a body, or \
         without a constructor, cannot be instantiated. An object with abstract methods has an initialiser that \
         implements each of them with the parameters and the result that its declaration gives.";
    "P0508" "A wrong enum"
        "An enum has at least one member. If it has a representation, `enum bit<8> E`, each member has a value \
         that fits it; if not, none has.";
    "P0509" "Two things of one control-plane name"
        "A control plane tells tables, actions, objects and so on apart by their full names. `@name(\"...\")` \
         gives another. Actions of different controls with the same parameters may share a name: then this is a \
         warning, and a controller means the action that its table lists.";
    "P0510" "Too many instances"
        "Each instance is a copy of its code. Programs that make thousands of them by nesting are refused.";
    "P0511" "`main` is no package"
        "`main` is the instance of the architecture's package, such as `V1Switch(...) main;`, and nothing else at \
         the top level may have this name.";
    "P0512" "The first error is not `NoError`"
        "Executors need `NoError` as the first error. Include core.p4, or declare `error { NoError, ... }`.";
    "P0601" "A wrong table property"
        "A table has `actions`, each property once, `default_action` and `entries` behind what they refer to; \
         properties that an architecture knows have values known at compile time.";
    "P0602" "A wrong key"
        "A key field has a type that its match kind can match, a match kind that is declared, and a name for the \
         control plane, which expressions other than fields must be given by `@name`.";
    "P0603" "A wrong action"
        "`actions`, `default_action` and entries name actions of the program; a default action and an entry take \
         one from the list of their table, and repeat arguments that the list has bound as they are there.";
    "P0604" "A wrong entry"
        "An entry gives one set of values for each key field, of a kind that its match kind allows, and an action \
         that entries may have. No two entries match the same.";
    "P0605" "A wrong priority"
        "Entries of tables with ternary, range or optional keys have priorities, written or computed (P4_16 \
         section 14.2.1.4.1); `const entries` have none, their order counts. A warning if priorities are equal, \
         out of order or without effect.";
    "P0606" "A wrong state"
        "Transitions name states of the parser, or `accept` and `reject`, which cannot be declared. Some state \
         leads out of the parser. A warning if a state has no transition: it rejects the packet.";
    "P0607" "No `start`"
        "A parser begins in its state `start`.";
    "P0608" "A wrong `select`"
        "Each case gives one set for each expression that `select` looks at, of its type. A warning if a case \
         comes behind one that matches everything.";
    "P0610" "A wrong `switch`"
        "Labels of a `switch` on `action_run` are actions of the table, other labels are constants of the type \
         that it looks at; no two are equal, and `default` comes last.";
    "P0701" "Something unused"
        "Nothing uses this declaration. Remove it, or begin its name with `_` if it has to stay. Parameters of \
         parsers and controls are not reported, since an architecture may demand them, nor anything in files \
         included as `<...>`. Silenced by `@noWarn(\"unused\")`.";
    "P0702" "A value that may not be set"
        "On some way to this place, nothing set the variable or this part of it. P4_16 leaves its value \
         undefined; Pointsman takes zero, other targets need not. Silenced by `@noWarn(\"uninitialized_use\")`.";
    "P0703" "Something that is never reached"
        "Every way to this statement leaves before it, or no transition leads to this state. Silenced by \
         `@noWarn(\"unreachable\")`.";
    "P0704" "A `select` without `default`"
        "A packet that matches no case is rejected with `error.NoMatch`. `default: reject;` says the same and \
         shows that it is meant. Silenced by `@noWarn(\"no_default\")`.";
    "P0705" "A declaration that hides another"
        "A variable, constant, instance or table further out has the same name, and cannot be used from here on. \
         Silenced by `@noWarn(\"shadow\")`.";
    "P0706" "An `out` parameter that may not be set"
        "On some way to the end nothing set the parameter, or only parts of it. Headers count as set: they come \
         back invalid. Silenced by `@noWarn(\"uninitialized_out_param\")`.";
    "P0707" "A field of an invalid header"
        "On every way here the header is invalid: nothing extracted it and nothing called `setValid()`. Reading \
         its fields gives undefined values, writing them has no effect. Silenced by \
         `@noWarn(\"invalid_header\")`.";
    "P0901" "Not supported yet"
        "The program is right, but this switch cannot run this construct. `p4 check` says so only for programs \
         that are meant to run here, and for files without a `main`, which could become one. docs/language.md \
         lists what there is.";
    "P0902" "Nested too deeply"
        "Statements and expressions may be nested a few hundred deep.";
    "P0903" "Too large to run"
        "The compiled program is beyond a limit of the executors, such as the number of variables of a block.";
    "P0904" "Not formatted"
        "Formatting would have changed more than white space, so the file was left as it is. This is a bug of the \
         formatter: please report it with the file.";
    "P1001" "Not what v1model demands"
        "The program is right P4, but not what v1model or this switch expects of it, such as other parameters of \
         a block, or arguments that an extern cannot take.";
    "P1002" "Another architecture"
        "The program can be checked, but not run: this switch runs programs for v1model, whose `main` is a \
         `V1Switch`.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_order() {
        for pair in ALL.windows(2) {
            assert!(pair[0].code < pair[1].code, "{} {}", pair[0].code, pair[1].code);
        }
        assert_eq!(explain("p0301").map(|e| e.code), Some("P0301"));
        assert!(explain("P9999").is_none());
    }
}
