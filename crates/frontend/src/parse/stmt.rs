//! Statements (section 12).

use pointsman_ir::Span;

use super::{Abandon, NameKind, P, Parser};
use crate::ast::{
    Annotation, BinaryOp, Block, Decl, DeclKind, Expr, ExprKind, InstanceDecl, Stmt, StmtKind, SwitchCase,
    TypeExpr, TypeExprKind,
};
use crate::diag::Diagnostic;

/// Compound assignments; `>>=` is two tokens.
const COMPOUND: [(&str, BinaryOp); 11] = [
    ("+=", BinaryOp::Add),
    ("-=", BinaryOp::Sub),
    ("*=", BinaryOp::Mul),
    ("/=", BinaryOp::Div),
    ("%=", BinaryOp::Mod),
    ("|+|=", BinaryOp::SatAdd),
    ("|-|=", BinaryOp::SatSub),
    ("<<=", BinaryOp::Shl),
    ("&=", BinaryOp::BitAnd),
    ("|=", BinaryOp::BitOr),
    ("^=", BinaryOp::BitXor),
];

impl Parser {
    /// `{ ... }`, after its annotations.
    pub(super) fn block(&mut self, annotations: Vec<Annotation>) -> P<Block> {
        let start = annotations.first().map_or(self.peek().span, |a| a.span);
        let stmts = self.scoped(|p| {
            p.nested(|p| {
                let mut stmts = Vec::new();
                p.braced(true, |p| {
                    stmts.push(p.statement()?);
                    Ok(())
                })?;
                Ok(stmts)
            })
        })?;
        Ok(Block { annotations, stmts, span: self.since(start) })
    }

    /// A block with annotations before it.
    pub(super) fn annotated_block(&mut self) -> P<Block> {
        let annotations = self.annotations()?;
        self.block(annotations)
    }

    pub(super) fn statement(&mut self) -> P<Stmt> {
        self.nested(|p| {
            let start = p.peek().span;
            let kind = p.statement_kind()?;
            Ok(Stmt { kind, span: p.since(start) })
        })
    }

    fn statement_kind(&mut self) -> P<StmtKind> {
        let start = self.peek().span;
        let annotations = self.annotations()?;
        if self.at("{") {
            return Ok(StmtKind::Block(self.block(annotations)?));
        }
        if self.at_word("for") {
            return self.for_statement();
        }
        if self.at_word("const") || !annotations.is_empty() || self.at_declaration() {
            let kind = self.local_decl()?;
            return Ok(StmtKind::Decl(Decl { annotations, kind, span: self.since(start) }));
        }
        let t = self.peek();
        if t.is_ident() {
            match &*t.text.clone() {
                "if" => return self.if_statement(),
                "switch" => return self.switch_statement(),
                "return" => {
                    self.bump();
                    let value = if self.at(";") || self.at("}") { None } else { Some(self.expr()?) };
                    self.semicolon("this `return`")?;
                    return Ok(StmtKind::Return(value));
                }
                word @ ("exit" | "break" | "continue") => {
                    self.bump();
                    self.semicolon(&format!("`{word}`"))?;
                    return Ok(match word {
                        "exit" => StmtKind::Exit,
                        "break" => StmtKind::Break,
                        _ => StmtKind::Continue,
                    });
                }
                "else" => {
                    let d = Diagnostic::error("P0201", t.span, "`else` without `if`");
                    self.report(d.help(
                        "only one statement is allowed between `if (...)` and `else`; put several into `{ ... }`",
                    ));
                    return Err(Abandon);
                }
                "transition" => {
                    let d = Diagnostic::error(
                        "P0205",
                        t.span,
                        "`transition` is only allowed at the end of a parser state",
                    );
                    self.report(d.help("declare several states, or choose the next one with `select`"));
                    return Err(Abandon);
                }
                _ => {}
            }
        }
        if self.eat(";") {
            return Ok(StmtKind::Empty);
        }
        let kind = self.simple_statement(true)?;
        let what = match kind {
            StmtKind::Call(_) => "this call",
            StmtKind::Decl(_) => "this declaration",
            _ => "this assignment",
        };
        self.semicolon(what)?;
        Ok(kind)
    }

    /// A constant, variable or instance in a block, with its semicolon.
    fn local_decl(&mut self) -> P<DeclKind> {
        if self.at_word("const") {
            return self.const_decl();
        }
        let ty = self.type_ref()?;
        self.variable_or_instance(ty)
    }

    /// A call or an assignment, without the semicolon; if `instances`, also an instance (which the checker refuses
    /// here with a better message).
    fn simple_statement(&mut self, instances: bool) -> P<StmtKind> {
        let start = self.pos;
        let t = self.peek();
        let foreign = match &*t.text {
            "elseif" | "elsif" | "elif" => "write `else if`",
            "while" | "foreach" => "loops are written with `for`",
            "case" => "labels are only for `switch`, and are written without `case`",
            _ => "",
        };
        if t.is_ident() && !foreign.is_empty() && self.peek_at(1).is("(") && self.lookup(&t.text).is_none() {
            let d = Diagnostic::error("P0201", t.span, format!("there is no `{}` in P4", t.text));
            self.report(d.help(foreign));
            return Err(Abandon);
        }
        let (lhs, _) = match self.postfix(true) {
            Ok(e) => e,
            Err(Abandon) => {
                if self.pos == start && self.last_error == Some(start) {
                    // The message mentions an expression, but more is allowed here.
                    if let Some(d) = self.diags.last_mut() {
                        d.message = d.message.replacen("expected an expression", "expected a statement", 1);
                        d.label = d.label.replacen("expected an expression", "expected a statement", 1);
                    }
                }
                return Err(Abandon);
            }
        };
        let op = if self.at("=") {
            None
        } else if let Some((_, op)) = COMPOUND.iter().find(|(text, _)| self.at(text)) {
            Some(*op)
        } else if self.at(">") && self.peek_at(1).is(">=") && !self.peek_at(1).space_before {
            self.bump();
            Some(BinaryOp::Shr)
        } else if let ExprKind::Call { callee, .. } = &lhs.kind {
            if !is_place(callee) && !matches!(callee.kind, ExprKind::Type(_)) {
                let d = Diagnostic::error("P0206", callee.span, "this cannot be called");
                self.report(d.help("only functions, methods, actions, tables and controls can be called"));
            }
            if instances && self.is_name(0) && !self.peek().line_start {
                return self.instance_from_call(lhs);
            }
            return Ok(StmtKind::Call(lhs));
        } else {
            return Err(self.no_statement(&lhs));
        };
        self.bump();
        if !is_place(&lhs) {
            let d = Diagnostic::error("P0206", lhs.span, "this cannot be assigned to");
            self.report(d.help("the left side of `=` must be a variable, field, stack element or slice"));
        }
        let rhs = self.expr()?;
        Ok(StmtKind::Assign { lhs, op, rhs })
    }

    fn no_statement(&mut self, e: &Expr) -> Abandon {
        let t = self.peek();
        if t.is("==") {
            let d = Diagnostic::error("P0206", t.span, "`==` compares, and the result is unused");
            self.report(d.help("an assignment is written with `=`"));
            return Abandon;
        }
        if t.is("++") || t.is("-") && self.peek_at(1).is("-") {
            let d = Diagnostic::error("P0206", t.span, "there is no increment operator");
            self.report(d.help("write `x = x + 1;` or `x += 1;`"));
            return Abandon;
        }
        if t.is(";") || t.is("}") || t.line_start {
            let d = Diagnostic::error("P0206", e.span, "this expression is not a statement");
            self.report(d.help("call it with `(...)` or assign to it with `=`"));
            return Abandon;
        }
        self.unexpected("`=`, `(` or another assignment")
    }

    /// `T(args) name` was read as a call so far.
    fn instance_from_call(&mut self, call: Expr) -> P<StmtKind> {
        let start = call.span;
        let ExprKind::Call { callee, type_args, args } = call.kind else {
            return Err(self.unexpected("`;`"));
        };
        let ExprKind::Name(path) = callee.kind else { return Err(self.unexpected("`;`")) };
        let kind = match type_args.is_empty() {
            true => TypeExprKind::Named(path),
            false => TypeExprKind::Specialized(path, type_args),
        };
        let ty = TypeExpr { kind, span: callee.span };
        let name = self.name("the name of an instance")?;
        self.declare(&name, NameKind::Other);
        let init = if self.eat("=") { Some(self.instance_body()?) } else { None };
        let kind = DeclKind::Instance(InstanceDecl { ty, args, name, init });
        Ok(StmtKind::Decl(Decl { annotations: Vec::new(), kind, span: self.since(start) }))
    }

    /// `(condition)` of `if` and `switch`.
    fn condition(&mut self, of: &str) -> P<Expr> {
        if !self.at("(") {
            let d = Diagnostic::error("P0201", self.peek().span, format!("expected `(` after `{of}`"));
            self.report(d.help(format!("write `{of} (expression) ...`")));
            return Err(Abandon);
        }
        self.bump();
        let e = self.expr()?;
        if self.at("=") {
            let d = Diagnostic::error("P0201", self.peek().span, "expected `)`, found `=`");
            self.report(d.help("comparison is written with `==`"));
            return Err(Abandon);
        }
        self.expect(")")?;
        Ok(e)
    }

    fn if_statement(&mut self) -> P<StmtKind> {
        self.bump();
        let cond = self.condition("if")?;
        let then = Box::new(self.branch()?);
        let other = match self.eat_word("else") {
            true => Some(Box::new(self.branch()?)),
            false => None,
        };
        Ok(StmtKind::If(cond, then, other))
    }

    /// A statement under `if` or `else`: no declaration (section 12.6).
    fn branch(&mut self) -> P<Stmt> {
        let s = self.statement()?;
        if let StmtKind::Decl(_) = s.kind {
            let d = Diagnostic::error("P0205", s.span, "a declaration cannot be a branch of `if`");
            self.report(d.help("put it into a block: `{ ... }`"));
        }
        Ok(s)
    }

    fn switch_statement(&mut self) -> P<StmtKind> {
        self.bump();
        let on = self.condition("switch")?;
        let mut cases = Vec::new();
        self.braced(false, |p| {
            let span = p.peek().span;
            if p.at_word("case") && !p.peek_at(1).is(":") && !p.peek_at(1).is("(") {
                p.report(
                    Diagnostic::error("P0201", span, "labels are written without `case`")
                        .help("remove `case`"),
                );
                p.bump();
            }
            let label = match p.eat_word("default") {
                true => Expr { kind: ExprKind::Default, span },
                false if p.at("{") => return Err(p.unexpected("a label")),
                false => p.expr()?,
            };
            p.expect(":")?;
            let body = match p.at("{") || p.at("@") {
                true => Some(p.annotated_block()?),
                false => None,
            };
            cases.push(SwitchCase { label, body });
            Ok(())
        })?;
        Ok(StmtKind::Switch { on, cases })
    }

    fn for_statement(&mut self) -> P<StmtKind> {
        self.expect_word("for")?;
        self.expect("(")?;
        self.scoped(|p| {
            let mut init = Vec::new();
            while !p.at(";") {
                let start = p.peek().span;
                let annotations = p.annotations()?;
                if annotations.is_empty() && !p.at_declaration() {
                    if p.is_name(0) && p.peek_at(1).is_word("in") {
                        let d = Diagnostic::error("P0201", start, "the variable of this loop has no type");
                        p.report(d.help("write `for (bit<8> i in ...)`"));
                        return Err(Abandon);
                    }
                    let kind = p.simple_statement(false)?;
                    init.push(Stmt { kind, span: p.since(start) });
                } else {
                    let ty = p.type_ref()?;
                    let name = p.name("the name of a variable")?;
                    if init.is_empty() && p.eat_word("in") {
                        let over = p.expr_or_range(false)?;
                        p.expect(")")?;
                        p.declare(&name, NameKind::Other);
                        let body = Box::new(p.statement()?);
                        return Ok(StmtKind::ForIn { ty: Some(ty), var: name, over, body });
                    }
                    let kind = p.variable(ty, name)?;
                    let decl = Decl { annotations, kind, span: p.since(start) };
                    init.push(Stmt { kind: StmtKind::Decl(decl), span: p.since(start) });
                }
                if !p.eat(",") {
                    break;
                }
            }
            p.expect(";")?;
            let cond = p.expr()?;
            p.expect(";")?;
            let mut update = Vec::new();
            while !p.at(")") {
                let start: Span = p.peek().span;
                let kind = p.simple_statement(false)?;
                update.push(Stmt { kind, span: p.since(start) });
                if !p.eat(",") {
                    break;
                }
            }
            p.expect(")")?;
            let body = Box::new(p.statement()?);
            Ok(StmtKind::For { init, cond, update, body })
        })
    }
}

/// Whether this can be on the left of `=` (section 6.6).
fn is_place(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Name(_) | ExprKind::This => true,
        ExprKind::Member(of, _)
        | ExprKind::Index(of, _)
        | ExprKind::Slice(of, ..)
        | ExprKind::PlusSlice(of, ..) => matches!(of.kind, ExprKind::Type(_)) || is_place(of),
        _ => false,
    }
}
