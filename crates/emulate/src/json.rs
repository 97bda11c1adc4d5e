//! JSON with the order of the file and without keys that are there twice.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use std::fmt;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    Text(String),
    /// A list.
    List(Vec<Json>),
    /// An object: keys in the order of the file, all different.
    Map(Vec<(String, Json)>),
}

impl Json {
    /// Reads a text.
    ///
    /// # Errors
    /// It is not JSON, or an object has a key twice: with line and column.
    pub fn parse(text: &str) -> Result<Json, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "a truth value",
            Json::Number(_) => "a number",
            Json::Text(_) => "a string",
            Json::List(_) => "a list",
            Json::Map(_) => "an object",
        }
    }
}

impl fmt::Display for Json {
    /// Scalars as in the file, others by their kind.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Bool(b) => write!(f, "{b}"),
            Json::Number(n) => write!(f, "{n}"),
            Json::Text(s) => write!(f, "\"{s}\""),
            Json::Null | Json::List(_) | Json::Map(_) => f.write_str(self.kind()),
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, b: bool) -> Result<Json, E> {
        Ok(Json::Bool(b))
    }

    fn visit_u64<E>(self, n: u64) -> Result<Json, E> {
        Ok(Json::Number(n.into()))
    }

    fn visit_i64<E>(self, n: i64) -> Result<Json, E> {
        Ok(Json::Number(n.into()))
    }

    fn visit_f64<E>(self, n: f64) -> Result<Json, E> {
        Ok(Number::from_f64(n).map_or(Json::Null, Json::Number))
    }

    fn visit_str<E>(self, s: &str) -> Result<Json, E> {
        Ok(Json::Text(s.to_string()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut map: Vec<(String, Json)> = Vec::new();
        let mut keys = std::collections::BTreeSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            if !keys.insert(key.clone()) {
                return Err(A::Error::custom(format!("`{key}` is there twice: remove or rename one")));
            }
            map.push((key, entries.next_value()?));
        }
        Ok(Json::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_doubles() {
        let read = Json::parse(r#"{"b": [1, -2, 2.5, "x", null, true], "a": {}}"#).expect("JSON");
        let Json::Map(map) = &read else { panic!("{read:?}") };
        assert_eq!(map.iter().map(|(k, _)| k.as_str()).collect::<Vec<_>>(), ["b", "a"]);
        let Json::List(list) = &map[0].1 else { panic!("{read:?}") };
        let shown: Vec<String> = list.iter().map(Json::to_string).collect();
        assert_eq!(shown, ["1", "-2", "2.5", "\"x\"", "null", "true"]);
        let twice = Json::parse("{\"h1\": 1,\n \"h1\": 2}").expect_err("twice").to_string();
        assert!(twice.contains("`h1` is there twice") && twice.contains("line 2"), "{twice}");
        assert!(Json::parse(&"[".repeat(100_000)).is_err());
    }
}
