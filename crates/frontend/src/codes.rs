//! The meaning of each diagnostic code: a title and a paragraph, for `pointsman p4 explain` and docs/diagnostics.md.

/// A code explained.
#[derive(Clone, Copy, Debug)]
pub struct Explanation {
    /// `P` and four digits.
    pub code: &'static str,
    /// The mistake in a few words.
    pub title: &'static str,
    /// The meaning and the remedy, one paragraph.
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
    "P0101" "An unknown character or escape"
        "The source contains a character that P4 does not use, such as `$` or a single quote, or an unknown escape \
         in a string. Strings are written in double quotes; there are no character literals. Such characters often come from text copied out of a document.";
    "P0102" "An unterminated comment"
        "A comment that begins with `/*` ends at the next `*/`; comments do not nest. Here the file ends first.";
    "P0103" "A malformed integer"
        "Integers are written `10`, `0xff`, `0o17`, `0b1010`, optionally with `_` between digits, and with a \
         width and a sign in front: `8w255`, `4s7` (P4_16 section 6.4.3.2).";
    "P0104" "An unterminated string"
        "A string ends on the line where it begins. Adjacent strings are joined, so a long text can span several \
         lines.";
    "P0110" "A malformed directive"
        "A line that begins with `#` is a preprocessor directive with a fixed form. The message shows the \
         form. Unknown directives are skipped with a warning, as p4c does without one.";
    "P0111" "A file that is not found"
        "`#include \"file\"` searches the including file's folder, then the folders of `--include`; `#include \
         <file>` only those folders and the files that come with Pointsman, core.p4 and v1model.p4.";
    "P0112" "Includes too many or too large"
        "Includes may be nested 64 deep, and all files together may have 256 MiB. A file that includes itself \
         needs a guard: `#ifndef NAME`, `#define NAME`, ..., `#endif`.";
    "P0113" "`#error`"
        "The program refuses to be compiled this way, by `#error`. Check the condition around it: usually a \
         macro must be defined with `-D`.";
    "P0114" "`#warning`"
        "The program contains a `#warning`.";
    "P0115" "An unterminated conditional"
        "Each `#if`, `#ifdef` and `#ifndef` needs an `#endif` in the same file.";
    "P0116" "`#else`, `#elif` or `#endif` in the wrong place"
        "These belong to an `#if` in the same file, and `#else` comes last.";
    "P0117" "A malformed condition"
        "`#if` and `#elif` take an expression of integers, `defined(NAME)` and the operators of C. Names that \
         are not macros count as 0.";
    "P0118" "A malformed macro"
        "A macro is defined by `#define NAME text` or `#define NAME(a, b) text`, without a space before the \
         parenthesis. `#` turns a parameter into a string. `##` joins two tokens, and has \
         no effect if the result is not a token.";
    "P0119" "A macro defined twice"
        "A macro is defined again with another text. If this is intended, `#undef` it first.";
    "P0120" "A macro call with the wrong arguments"
        "A macro must be called with as many arguments as it has parameters, in closed parentheses.";
    "P0121" "Macros that expand to too much text"
        "Macros that use each other can grow exponentially. Expansion stops after two million steps.";
    "P0199" "Too many problems in directives"
        "At most a hundred problems in directives and macros are shown. Most follow from the first.";
    "P0201" "A syntax error"
        "Something else was expected here. The message names it, and the label shows what was found. Grammar: \
         appendix H of P4_16.";
    "P0202" "A missing semicolon"
        "The preceding statement or declaration needs a `;`.";
    "P0203" "Nested too deeply"
        "Expressions, types, statements and the like may be nested about 100 deep, far more than programs written \
         by hand need.";
    "P0204" "A missing part"
        "A declaration lacks a required part, such as the `apply` block of a control.";
    "P0205" "A misplaced construct"
        "The construct is valid, but not allowed here: a function inside a control, a statement at the \
         top level, a transition in the middle of a state.";
    "P0206" "An expression used as a statement"
        "Statements are assignments, calls, conditionals, loops and the like. `a == b;` does nothing, and there \
         is no `a++`.";
    "P0207" "A keyword as a name"
        "Keywords cannot be names. Choose another name, such as `state_` for `state`.";
    "P0208" "Mismatched brackets"
        "A bracket is not closed, or was never opened. The label points at the other one if it is \
         known.";
    "P0209" "Ambiguous conditional expressions"
        "Another conditional expression is the third operand of `?:`. It is read as in C, `a ? b : (c ? d : e)`; p4c \
         reads `(a ? b : c) ? d : e`. Add parentheses to make the meaning clear.";
    "P0210" "A variable outside any block"
        "There are no global variables in P4: only `const` is allowed at the top level. State that outlives a \
         packet is kept in externs such as registers.";
    "P0212" "An empty declaration"
        "The list of members, or of states, needs at least one.";
    "P0213" "A malformed table property"
        "Table properties have these forms: `key = { ... }`, `actions = { ... }`, `default_action = \
         a(...);`, `const` only where the property may be constant.";
    "P0299" "Too many syntax errors"
        "Most of them follow from the first, so the rest of the file is not checked.";
    "P0301" "An unknown name"
        "No visible declaration has this name, or it comes later: the message says at which line. Names can be used only after their declaration (P4_16 section \
         6.6.1); declarations inside a block are not visible outside.";
    "P0302" "A name declared twice"
        "Two declarations in the same block have the same name. Only functions, extern functions and methods may \
         share one, if they differ in the number or the names of their parameters.";
    "P0303" "A name of the wrong kind"
        "The name is that of a type where a value is needed, or vice versa; or it cannot be called.";
    "P0304" "An unknown member"
        "The type has no field, method, member or property of this name.";
    "P0306" "Recursion"
        "Functions, actions, parsers and controls cannot call or contain themselves, directly or indirectly: \
         every packet must be processed in bounded time (P4_16 section 10).";
    "P0307" "No matching function"
        "Several functions or methods have this name, but none takes this number of arguments, or arguments with \
         these names.";
    "P0308" "Several matching functions"
        "Several functions or methods of this name take such arguments. Name the arguments to distinguish them \
         (P4_16 section 6.9.2).";
    "P0401" "A value of the wrong type"
        "The value's type does not fit its use. P4 converts implicitly only `int` to a type with a \
         width, an enum to its representation, and lists to structs and the like (P4_16 section 8.11.2); \
         everything else needs a cast, `(type) value`.";
    "P0402" "An undefined operator"
        "The operator does not exist for operands of these types. Both sides of most operators must have the same \
         width and sign; division exists only for values known at compile time.";
    "P0403" "Not an l-value"
        "The target of an assignment, and an `out` or `inout` argument, must be a writable l-value: a variable, \
         a field or element of one, or a slice of its bits; not a constant or an `in` parameter. Elements of tuples are l-values here and in p4c, but not in P4_16: that is a warning.";
    "P0404" "Wrong arguments"
        "The call has too many or too few arguments, or arguments for parameters that do not exist. All arguments \
         are given by position or all by name; `_` discards an `out` argument.";
    "P0405" "Wrong type arguments"
        "A generic type, function or object takes as many types as it has type parameters. They may be omitted \
         if the arguments determine them.";
    "P0406" "A type not allowed here"
        "Not every type can be a variable, a field, an element or a parameter: `int` and `string` exist at \
         compile time only, headers hold bits only (P4_16 section 7.2.11 has the table).";
    "P0407" "An invalid cast"
        "Casts are listed in P4_16 section 8.11.1. A cast changes the width or the sign, not both at once; \
         structs are cast from lists only.";
    "P0408" "An invalid parameter"
        "Directions and types of parameters are restricted: constructor parameters have no direction, extern \
         objects are passed without one, blocks are passed to constructors only, and `@optional` is only for an \
         architecture's declarations.";
    "P0409" "A wrong or missing `return`"
        "A function with a result returns a value at the end of every path; a function without a result, an action \
         or a control returns none.";
    "P0410" "Something in the wrong context"
        "The statement or expression is not allowed here: `exit` in a function, `switch` and `return` in a \
         parser, `break` outside a loop, tables at the top level.";
    "P0411" "A wrong index or slice"
        "A slice is written `x[high:low]`, with bit 0 at the low end; an index must be below the size of the stack \
         or tuple.";
    "P0412" "A wrong structure expression"
        "A structure expression gives each field once, by name or by position. If some are missing, it must end \
         with `...`.";
    "P0413" "A call in the wrong place"
        "Tables and controls are applied in the `apply` block of a control, parsers in states; actions are called \
         by controls and actions; extern methods never at the top level (P4_16 appendix F has the table).";
    "P0414" "An unknown width"
        "`int` values have no width, but one is needed here: write it, as in `8w5`.";
    "P0415" "A deprecated declaration"
        "Its declaration has `@deprecated`, which names a replacement.";
    "P0416" "A malformed annotation"
        "Annotations defined by the language or P4Runtime have a fixed form; `@name`, and a structured annotation, \
         `@x[...]`, may be given only once.";
    "P0501" "A value not known at compile time"
        "Widths, sizes, constants, labels and arguments of constructors must be known at compile time: literals, \
         constants, constructor parameters and expressions of these (P4_16 section 18.1).";
    "P0502" "A number that does not fit"
        "The number has more bits than its type, and the high ones are lost. If this is intended, write a mask or \
         a slice.";
    "P0503" "Undefined arithmetic"
        "Division by zero, division of negative numbers, shifts by a negative amount and absurdly large results \
         have no value.";
    "P0504" "A failed static assertion"
        "The condition of `static_assert(condition)` is false.";
    "P0505" "No `main`"
        "A complete program ends with an instance of the architecture's package called `main`. Without it, the \
         declarations can be checked but not run; this is a warning in `p4 check` and an error elsewhere.";
    "P0506" "A size out of range"
        "Widths, sizes and the like are bounded: a type can have at most 65536 bits, an array at most 65536 elements.";
    "P0507" "A wrong instantiation"
        "Objects can be instantiated only where the specification allows it: externs at the top level and at the head of blocks, \
         parsers and controls inside blocks of their kind or as arguments of a package; types without a body, or \
         without a constructor, cannot be instantiated. An object with abstract methods has an initialiser that \
         implements each of them with the parameters and result of its declaration.";
    "P0508" "A wrong enum"
        "An enum has at least one member. If it has a representation, `enum bit<8> E`, each member has a value \
         that fits it; otherwise none has.";
    "P0509" "A duplicate control-plane name"
        "A control plane identifies tables, actions, objects and so on by their full names. `@name(\"...\")` \
         gives another name. Actions of different controls with the same parameters may share a name, and so may two \
         keys of a table: then this is a warning. The table determines which action is meant; such keys are \
         identified by their ids.";
    "P0510" "Too many instances"
        "Each instance is a copy of its code. Programs that nest blocks into thousands of instances are rejected.";
    "P0511" "`main` is not a package"
        "`main` is the instance of the architecture's package, such as `V1Switch(...) main;`, and nothing else at \
         the top level may have this name.";
    "P0512" "The first error is not `NoError`"
        "Executors need `NoError` as the first error. Include core.p4, or declare `error { NoError, ... }`.";
    "P0601" "A wrong table property"
        "A table has `actions`, each property once, `default_action` and `entries` after the properties they \
         refer to; properties defined by an architecture have values known at compile time.";
    "P0602" "A wrong key"
        "A key field needs a type that its match kind supports, a declared match kind, and a control-plane name. \
         Expressions other than fields get their name by `@name`.";
    "P0603" "A wrong action"
        "`actions`, `default_action` and entries name actions of the program. A default action or an entry uses \
         an action from its table's list, and repeats arguments bound there unchanged.";
    "P0604" "A wrong entry"
        "An entry gives one set of values for each key field, of a form that the match kind allows, and an action \
         allowed in entries. No two entries may match the same values.";
    "P0605" "A wrong priority"
        "Entries of tables with ternary, range or optional keys have priorities, written or computed (P4_16 \
         section 14.2.1.4.1); `const entries` have none, since their order decides. A warning if priorities are equal, \
         out of order or without effect.";
    "P0606" "A wrong state"
        "Transitions name states of the parser, or `accept` and `reject`, which cannot be declared. At least \
         one state must leave the parser. A warning if a state has no transition: it rejects the packet.";
    "P0607" "No `start`"
        "A parser begins in its state `start`.";
    "P0608" "A wrong `select`"
        "Each case gives one set for each expression of the `select`, of its type. A warning if a case \
         follows one that matches everything.";
    "P0610" "A wrong `switch`"
        "Labels of a `switch` on `action_run` are actions of the table, other labels are constants of the type \
         of its expression; no two may be equal, and `default` comes last.";
    "P0611" "An effect that happens again"
        "A control with `@restarts`, such as the look-up of a library for tables or state on servers, may send the packet back to the start of the program. \
         What the program executes before it is then executed again. Headers and metadata begin again with the packet; registers, counters, meters, digests, \
         clones and random numbers do not, nor do direct counters and meters of tables. Move the effect behind the control, or to a path on which the control is not \
         applied. If it may happen more than once, or the conditions on the path exclude that, mark it: a block `@repeatable { ... }`, or `@repeatable` in front of an action, function, table, control or extern \
         function. Extern functions and methods with `@pure` or `@noSideEffects` are no effects, nor are methods of objects that the architecture passes with the packet, such as `packet_in`.";
    "P0701" "An unused declaration"
        "Nothing uses this declaration. Remove it, or begin its name with `_` to keep it. Parameters of parsers \
         and controls are not reported, since an architecture may require them, nor is anything in files \
         included as `<...>`. Silenced by `@noWarn(\"unused\")`.";
    "P0702" "A value that may not be set"
        "On some path to this point, the variable or this part of it is not set. P4_16 leaves its value \
         undefined; Pointsman uses zero, other targets need not. Silenced by `@noWarn(\"uninitialized_use\")`.";
    "P0703" "Unreachable code"
        "Every path leaves before this statement, or no transition leads to this state. Silenced by \
         `@noWarn(\"unreachable\")`.";
    "P0704" "A `select` without `default`"
        "A packet that matches no case is rejected with `error.NoMatch`. `default: reject;` does the same and \
         shows that this is intended. Silenced by `@noWarn(\"no_default\")`.";
    "P0705" "A declaration that hides another"
        "A variable, constant, instance or table in an outer scope has the same name and cannot be used from here on. \
         Silenced by `@noWarn(\"shadow\")`.";
    "P0706" "An `out` parameter that may not be set"
        "On some path to the end, the parameter or part of it is not set. Headers count as set: they are returned \
         invalid. Silenced by `@noWarn(\"uninitialized_out_param\")`.";
    "P0707" "A field of an invalid header"
        "On every path to this point the header is invalid: it was not extracted and `setValid()` was not called. The paths are those of P0709. Reading \
         its fields gives undefined values, writing them has no effect. Silenced by \
         `@noWarn(\"invalid_header\")`.";
    "P0708" "A state that repeats for ever"
        "The parser state goes to itself without extracting, advancing or changing anything, so the same transition is taken again and \
         again. Silenced by `@noWarn(\"endless_loop\")`.";
    "P0709" "A field of a header that may be invalid"
        "On some path to this point the header is invalid, so the field that is read has an undefined value. The paths are those through the parser, \
         the blocks after it, and what they call. Read the field only where `isValid()` of the header was checked, or of a header that is \
         always extracted together with it. The warning comes once for a header on a path, and not where another condition may imply that the header is \
         valid: one on a value that the parser chose its way by, or that was assigned before. Which elements of stacks and members of unions are valid is not followed: P0707 reports those that nothing in the program makes valid. Silenced by `@noWarn(\"invalid_header\")`.";
    "P0710" "An index that may be too large"
        "The index of an element of a header stack, register, counter or meter can be larger than the last one, and no condition on the paths to this point bounds \
         it. What such an access does depends on the target: here it reads zeros and writes nothing. Compare the index with the size before, take \
         its low bits, or limit it where it is computed: masks, slices, `%`, the `max` of `hash` and the labels of `select` and `switch` count. Data of actions are the control \
         plane's, which is expected to know the size, and what a register keeps was checked when it was written. A constant index that is too large is reported for registers, \
         counters and meters; for stacks it is an error. Silenced by `@noWarn(\"index_out_of_range\")`.";
    "P0901" "Not supported yet"
        "The program is valid, but this switch cannot run this construct. `p4 check` reports this only for \
         programs for this switch, and for files without a `main`. docs/language.md lists the supported constructs.";
    "P0902" "Nested too deeply"
        "Statements and expressions may be nested a few hundred deep.";
    "P0903" "Too large to run"
        "The compiled program exceeds a limit of the executors, such as the number of variables of a block.";
    "P0904" "Not formatted"
        "Formatting would have changed more than white space, so the file was left unchanged. This is a bug of the \
         formatter: please report it with the file.";
    "P1001" "Not allowed by v1model"
        "The program is valid P4, but violates a rule of v1model or this switch, such as the parameters of a block, \
         the arguments of an extern or an annotation for controllers (`@id`, `@pkginfo`, `@platform_property`).";
    "P1002" "Another architecture"
        "The program can be checked, but not run: this switch runs programs for v1model, whose `main` is a \
         `V1Switch`.";
    "P1003" "P4_14"
        "The text is P4_14, the language before P4_16. p4c translates it: `p4c --std p4-14 --pp new.p4 old.p4`. \
         p4c comes from https://github.com/p4lang/p4c, for Debian and Ubuntu also as packages of the p4lang project.";
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
