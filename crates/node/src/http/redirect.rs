//! Redirections to the controller that leads: a standby answers a change with the leader's address, and the client sends the same
//! request there, with its token.

use hyper::Uri;
use hyper::http::uri::InvalidUri;
use std::fmt;
use std::net::IpAddr;

/// The status of HTTP that keeps method and body.
pub const STATUS: u16 = 307;

/// So many redirections of one request are followed: the leader may change in between.
pub const HOPS: usize = 2;

/// Why a redirection is not followed. A token must not leave the way that its user has chosen.
#[derive(Debug)]
pub enum Astray {
    /// The address is not a URL.
    Url(InvalidUri),
    /// It is not that of a controller.
    Base,
    /// It changes from `https://` to `http://`, or back.
    Scheme,
    /// Path or query differ from those that were asked for.
    Target,
    /// It leads from this machine to another one in the clear, or from another machine to this one.
    Loopback,
}

impl fmt::Display for Astray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Astray::Url(e) => write!(f, "invalid URL: {e}")?,
            Astray::Base => f.write_str("no client reaches a controller there")?,
            Astray::Scheme => f.write_str("one of the two is `https://`, and the other one is not")?,
            Astray::Target => f.write_str("it is not the same request")?,
            Astray::Loopback => f.write_str("one of the two is only on its own machine")?,
        }
        f.write_str("; name the URL of the controller that leads")
    }
}

fn ip(uri: &Uri) -> Option<IpAddr> {
    uri.host()?.trim_matches(['[', ']']).parse().ok()
}

/// Whether it names a host that others may reach, over HTTP, without a user.
fn is_place(uri: &Uri) -> bool {
    let named = uri.authority().is_some_and(|a| {
        let ends = a.as_str() == a.host() || a.port_u16().is_some();
        ends && !a.host().is_empty() && !a.as_str().contains('@')
    });
    matches!(uri.scheme_str(), Some("http" | "https"))
        && named
        && !ip(uri).is_some_and(|ip| ip.is_unspecified())
}

/// A controller's URL without a slash at its end, if clients can reach a controller at such a URL.
pub fn base(url: &str) -> Option<&str> {
    let uri: Uri = url.parse().ok()?;
    (is_place(&uri) && uri.path_and_query().is_none_or(|p| p == "/")).then(|| url.trim_end_matches('/'))
}

/// Whether the host is the machine itself.
fn is_loopback(uri: &Uri) -> bool {
    uri.host() == Some("localhost") || ip(uri).is_some_and(|ip| ip.is_loopback())
}

/// Where a request to `from` is sent when it is redirected to `to`.
///
/// # Errors
/// It is not sent there. Over TLS another host must show a certificate that the client trusts, so the redirection may lead to any host;
/// in the clear it may not lead off this machine.
pub fn next(from: &str, to: &str) -> Result<String, Astray> {
    let (asked, new): (Uri, Uri) = (from.parse().map_err(Astray::Url)?, to.parse().map_err(Astray::Url)?);
    if !is_place(&new) {
        return Err(Astray::Base);
    }
    if asked.scheme_str() != new.scheme_str() {
        return Err(Astray::Scheme);
    }
    if asked.path_and_query() != new.path_and_query() {
        return Err(Astray::Target);
    }
    let clear = new.scheme_str() == Some("http");
    match (is_loopback(&asked), is_loopback(&new)) {
        (false, true) => Err(Astray::Loopback),
        (true, false) if clear => Err(Astray::Loopback),
        _ => Ok(to.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_controllers() {
        for (url, expected) in [
            ("http://10.0.0.1:9560", Some("http://10.0.0.1:9560")),
            ("https://c1.example:9560/", Some("https://c1.example:9560")),
            ("http://[fd00::1]:9560", Some("http://[fd00::1]:9560")),
            ("http://0.0.0.0:9560", None),
            ("http://[::]:9560", None),
            ("http://10.0.0.1:9560/v1", None),
            ("http://10.0.0.1:9560/?x", None),
            ("http://me@10.0.0.1:9560", None),
            ("http://10.0.0.1:x", None),
            ("http://:9560", None),
            ("ftp://10.0.0.1", None),
            ("javascript:alert(1)", None),
            ("/console", None),
            ("", None),
        ] {
            assert_eq!(base(url), expected, "{url}");
        }
    }

    #[test]
    fn a_token_keeps_its_way() {
        let is =
            |from: &str, to: &str| next(&format!("{from}/v1/x?wait_ms=1"), &format!("{to}/v1/x?wait_ms=1"));
        for (from, to) in [
            ("http://127.0.0.1:1", "http://127.0.0.1:2"),
            ("http://localhost:1", "http://[::1]:2"),
            ("http://10.0.0.1:1", "http://10.0.0.2:1"),
            ("https://10.0.0.1:1", "https://c2.example"),
            ("https://127.0.0.1:1", "https://10.0.0.2:1"),
        ] {
            assert_eq!(is(from, to).ok(), Some(format!("{to}/v1/x?wait_ms=1")), "{from} {to}");
        }
        for (from, to, part) in [
            ("https://10.0.0.1:1", "http://10.0.0.2:1", "https://"),
            ("http://10.0.0.1:1", "https://10.0.0.2:1", "https://"),
            ("http://127.0.0.1:1", "http://10.0.0.2:1", "own machine"),
            ("http://10.0.0.1:1", "http://127.0.0.1:1", "own machine"),
            ("https://10.0.0.1:1", "https://127.0.0.1:1", "own machine"),
            ("http://10.0.0.1:1", "http://u:p@10.0.0.2:1", "no client"),
            ("http://10.0.0.1:1", "http://0.0.0.0:1", "no client"),
            ("http://10.0.0.1:1", "", "no client"),
            ("http://10.0.0.1:1", "file://10.0.0.2", "no client"),
        ] {
            let why = is(from, to).expect_err(to).to_string();
            assert!(why.contains(part) && why.contains("name the URL"), "{from} {to}: {why}");
        }
        let other = ["http://10.0.0.2/v1/x", "http://10.0.0.2/v1/y?wait_ms=1", "http://10.0.0.2"];
        for to in other {
            let why = next("http://10.0.0.1/v1/x?wait_ms=1", to).expect_err(to);
            assert!(matches!(why, Astray::Target), "{to}: {why}");
        }
        assert!(matches!(next("http://10.0.0.1/", "http://10.0.0.2 /"), Err(Astray::Url(_))));
    }
}
