//! Paths of files and their URIs.

use pointsman_wire::text::{percent_decoded, percent_encoded};

/// The path in a `file:` URI, without `.` and `..`. Other URIs, such as `untitled:1`, are taken for names.
pub fn to_path(uri: &str) -> String {
    let Some(rest) = uri.strip_prefix("file://") else { return uri.to_string() };
    // An authority, such as `localhost`, ends with the first slash.
    let path = rest.find('/').map_or("", |i| &rest[i..]);
    // A plus sign is a blank in forms only. What is not percent-encoded text is taken as it is.
    normal(&percent_decoded(&path.replace('+', "%2B")).unwrap_or_else(|| path.to_string()))
}

/// The URI of a path.
pub fn from_path(path: &str) -> String {
    if !path.starts_with('/') {
        return path.to_string();
    }
    let parts: Vec<String> = path.split('/').map(percent_encoded).collect();
    format!("file://{}", parts.join("/"))
}

/// A path without `.` and `..`, so that equal files have equal paths. Links are not followed.
pub fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|p| *p != "..") => {
                parts.pop();
            }
            ".." if path.starts_with('/') => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    if path.starts_with('/') { format!("/{joined}") } else { joined }
}

/// The folder of a path; empty for a name alone.
pub fn folder(path: &str) -> &str {
    path.rfind('/').map_or("", |i| &path[..i.max(1)])
}

/// `name` in a folder.
pub fn join(folder: &str, name: &str) -> String {
    match (folder, name.starts_with('/')) {
        ("", _) | (_, true) => normal(name),
        _ => normal(&format!("{folder}/{name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for path in ["/a/b.p4", "/with blank/é%+.p4", "/"] {
            assert_eq!(to_path(&from_path(path)), path);
        }
        assert_eq!(to_path("file://localhost/a%2Fb/./c/../d.p4"), "/a/b/d.p4");
        assert_eq!(to_path("file:///a+bad%zz%F"), "/a+bad%zz%F");
        assert_eq!(to_path("untitled:Untitled-1"), "untitled:Untitled-1");
        assert_eq!(from_path("untitled:Untitled-1"), "untitled:Untitled-1");
        assert_eq!(to_path("file://"), "");
    }

    #[test]
    fn folders() {
        assert_eq!((folder("/a/b"), folder("/a"), folder("a")), ("/a", "/", ""));
        assert_eq!(join("/a/b", "../c.p4"), "/a/c.p4");
        assert_eq!(join("/a", "/x/y"), "/x/y");
        assert_eq!(join("", "../c.p4"), "../c.p4");
        assert_eq!(normal("/../a"), "/a");
    }
}
