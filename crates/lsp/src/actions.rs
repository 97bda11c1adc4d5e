//! Quick fixes: what diagnostics suggest.

use serde_json::{Value, json};

/// Diagnostics whose place is exactly the name that is unknown.
const NAMES: [&str; 2] = ["P0301", "P0304"];

/// The fixes of the diagnostics that the client has at a place.
pub fn actions(params: &Value) -> Value {
    let uri = params["textDocument"]["uri"].as_str().unwrap_or_default();
    let diagnostics = params["context"]["diagnostics"].as_array();
    diagnostics.into_iter().flatten().filter_map(|d| action(uri, d)).collect()
}

fn action(uri: &str, diagnostic: &Value) -> Option<Value> {
    if !NAMES.contains(&diagnostic["code"].as_str()?) {
        return None;
    }
    let (_, rest) = diagnostic["message"].as_str()?.split_once("did you mean `")?;
    let (name, _) = rest.split_once('`')?;
    // A suggestion such as `error.X` is more than the name.
    let plain = name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
    plain.then(|| {
        json!({
            "title": format!("Replace by `{name}`"),
            "kind": "quickfix",
            "isPreferred": true,
            "diagnostics": [diagnostic],
            "edit": { "changes": { uri: [{ "range": diagnostic["range"], "newText": name }] } },
        })
    })
}
