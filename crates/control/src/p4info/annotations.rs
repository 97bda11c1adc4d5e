//! Annotations in P4Info: the unstructured ones as text, the structured ones as messages, some as separate fields.

use super::error::Flaw;
use crate::proto::p4info::{
    Documentation, Expression, ExpressionList, KeyValuePair, KeyValuePairList, StructuredAnnotation,
    expression, structured_annotation,
};
use num_bigint::BigInt;
use pointsman_ir::{Annotation, AnnotationBody, AnnotationToken, AnnotationValue, Annotations};

/// The annotations of a declaration, sorted into P4Info's fields.
#[derive(Default)]
pub(super) struct Sorted {
    pub text: Vec<String>,
    pub structured: Vec<StructuredAnnotation>,
    pub doc: Option<Documentation>,
}

/// Sorts `annotations`. Those with a special meaning (`@name`, `@id`, documentation) and those in `taken` are not
/// repeated as text.
///
/// # Errors
/// An integer of a structured annotation that is too large for P4Info.
pub(super) fn sort(annotations: &Annotations, taken: &[&str]) -> Result<Sorted, Flaw> {
    let mut sorted = Sorted::default();
    for a in &annotations.0 {
        match &a.body {
            AnnotationBody::List(values) => {
                let expressions = values.iter().map(|v| expression(a, v)).collect::<Result<Vec<_>, _>>()?;
                // `@empty[]` has no body in P4Info (specification, "Structured Annotation Examples").
                let body = (!expressions.is_empty())
                    .then_some(structured_annotation::Body::ExpressionList(ExpressionList { expressions }));
                sorted.structured.push(StructuredAnnotation {
                    name: a.name.clone(),
                    body,
                    source_location: None,
                });
            }
            AnnotationBody::Pairs(pairs) => {
                let pair = |(key, value): &(String, AnnotationValue)| {
                    Ok::<_, Flaw>(KeyValuePair { key: key.clone(), value: Some(expression(a, value)?) })
                };
                let kv_pairs = pairs.iter().map(pair).collect::<Result<_, _>>()?;
                sorted.structured.push(StructuredAnnotation {
                    name: a.name.clone(),
                    body: Some(structured_annotation::Body::KvPairList(KeyValuePairList { kv_pairs })),
                    source_location: None,
                });
            }
            AnnotationBody::Empty | AnnotationBody::Tokens(_) => match a.name.as_str() {
                "name" | "id" => {}
                "brief" => {
                    sorted.doc.get_or_insert_default().brief =
                        annotations.string("brief").unwrap_or("").to_string();
                }
                "description" => {
                    sorted.doc.get_or_insert_default().description =
                        annotations.string("description").unwrap_or("").to_string();
                }
                name if taken.contains(&name) => {}
                _ => sorted.text.push(text(a)),
            },
        }
    }
    Ok(sorted)
}

fn expression(a: &Annotation, value: &AnnotationValue) -> Result<Expression, Flaw> {
    let value = match value {
        AnnotationValue::String(s) => expression::Value::StringValue(s.clone()),
        AnnotationValue::Bool(b) => expression::Value::BoolValue(*b),
        AnnotationValue::Int(i) => expression::Value::Int64Value(
            i64::try_from(i)
                .map_err(|_| Flaw::WideInteger { annotation: a.name.clone(), value: i.clone() })?,
        ),
    };
    Ok(Expression { value: Some(value) })
}

/// An unstructured annotation as the program has it, line ends in strings included, with one space between tokens.
fn text(a: &Annotation) -> String {
    let tokens = match &a.body {
        AnnotationBody::Tokens(tokens) if !tokens.is_empty() => tokens,
        _ => return format!("@{}", a.name),
    };
    let tokens: Vec<String> = tokens
        .iter()
        .map(|t| match t {
            AnnotationToken::String(s) => format!("\"{s}\""),
            AnnotationToken::Int(_, written) => written.clone(),
            AnnotationToken::Other(o) => o.clone(),
        })
        .collect();
    format!("@{}({})", a.name, tokens.join(" "))
}

/// The number in `@id(n)`.
///
/// # Errors
/// The annotation is there, but holds no 32-bit number.
pub(super) fn id(annotations: &Annotations) -> Result<Option<u32>, Flaw> {
    if !annotations.has("id") {
        return Ok(None);
    }
    let number = annotations.int("id").and_then(|i: &BigInt| u32::try_from(i).ok());
    number.map(Some).ok_or_else(|| Flaw::form("id", "one number from 1 to 0xffffffff"))
}

/// The pairs of an unstructured `@name(key = value, ...)`, such as `@pkginfo`.
///
/// # Errors
/// The body is anything else.
pub(super) fn pairs(a: &Annotation) -> Result<Vec<(&str, &AnnotationToken)>, Flaw> {
    let wrong = || Flaw::form(&a.name, "pairs such as name = \"value\", separated by commas");
    let tokens = match &a.body {
        AnnotationBody::Tokens(tokens) => tokens.as_slice(),
        AnnotationBody::Empty => &[],
        _ => return Err(wrong()),
    };
    let comma = AnnotationToken::Other(",".to_string());
    let mut found = Vec::new();
    for pair in tokens.split(|t| *t == comma).filter(|p| !p.is_empty()) {
        match pair {
            [AnnotationToken::Other(key), AnnotationToken::Other(eq), value] if eq == "=" => {
                found.push((key.as_str(), value));
            }
            _ => return Err(wrong()),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn other(s: &str) -> AnnotationToken {
        AnnotationToken::Other(s.to_string())
    }

    fn string(s: &str) -> AnnotationToken {
        AnnotationToken::String(s.to_string())
    }

    fn annotation(name: &str, tokens: Vec<AnnotationToken>) -> Annotation {
        Annotation { name: name.to_string(), body: AnnotationBody::Tokens(tokens) }
    }

    #[test]
    fn as_text() {
        let check = |tokens, expected: &str| assert_eq!(text(&annotation("a", tokens)), expected);
        check(vec![], "@a");
        check(vec![string("unused")], "@a(\"unused\")");
        check(vec![string("q\\\"\\n\n")], "@a(\"q\\\"\\n\n\")");
        let int = AnnotationToken::Int(3.into(), "8w0x3".to_string());
        check(vec![other("x"), other("="), int], "@a(x = 8w0x3)");
    }

    #[test]
    fn documentation_and_ids_are_fields() {
        let a = Annotations(vec![
            annotation("brief", vec![string("short")]),
            annotation("description", vec![string("long")]),
            annotation("id", vec![AnnotationToken::Int(7.into(), "7".into())]),
            annotation("name", vec![string("n")]),
            annotation("mine", vec![]),
            annotation("hers", vec![]),
        ]);
        let sorted = sort(&a, &["hers"]).expect("valid");
        let doc = sorted.doc.expect("both are there");
        assert_eq!((doc.brief.as_str(), doc.description.as_str()), ("short", "long"));
        assert_eq!(sorted.text, ["@mine"]);
        assert_eq!(id(&a), Ok(Some(7)));
        assert!(id(&Annotations(vec![annotation("id", vec![string("x")])])).is_err());
    }

    #[test]
    fn structured() {
        let huge = BigInt::from(u64::MAX);
        let list = |v| Annotations(vec![Annotation { name: "l".into(), body: AnnotationBody::List(v) }]);
        assert!(sort(&list(vec![AnnotationValue::Int(huge)]), &[]).is_err());
        let sorted = sort(&list(vec![AnnotationValue::Bool(true)]), &[]).expect("valid");
        assert_eq!(sorted.structured.len(), 1);
        assert!(sort(&list(vec![]), &[]).expect("valid").structured[0].body.is_none());
    }

    #[test]
    fn key_value_pairs() {
        let a = annotation(
            "pkginfo",
            vec![other("name"), other("="), string("x"), other(","), other("v"), other("="), string("1")],
        );
        let found = pairs(&a).expect("pairs");
        assert_eq!(found.iter().map(|(k, _)| *k).collect::<Vec<_>>(), ["name", "v"]);
        assert!(pairs(&annotation("pkginfo", vec![other("name")])).is_err());
    }
}
