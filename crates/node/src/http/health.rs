//! `/healthz` and `/readyz`, for supervisors and load balancers: whether a part is alive, and whether it can do its work.

use super::server::{Request, Response};
use std::future::Future;
use std::time::Duration;

/// How long a part that is alive may take to answer.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// Whether a part can do its work, with a note if there is one; otherwise why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It can. The note may be empty.
    Ready(&'static str),
    /// It cannot, for this reason.
    NotReady(String),
}

fn plain(status: u16, text: &str) -> Response {
    Response {
        status,
        content_type: "text/plain; charset=utf-8",
        headers: Vec::new(),
        body: format!("{text}\n"),
    }
}

/// The answer to a request for one of the two paths; `None` for others. `ready` must be answered by the part's own thread or task: if
/// it is not within `patience`, the part is not alive.
pub async fn answer<F>(request: &Request, patience: Duration, ready: impl FnOnce() -> F) -> Option<Response>
where
    F: Future<Output = Readiness>,
{
    let path = request.target.split('?').next().unwrap_or("");
    let asks_readiness = match path {
        "/healthz" => false,
        "/readyz" => true,
        _ => return None,
    };
    if !matches!(request.method.as_str(), "GET" | "HEAD") {
        let headers = vec![("allow", "GET, HEAD".to_string())];
        return Some(Response { headers, ..Response::error(405, "use GET") });
    }
    Some(match tokio::time::timeout(patience, ready()).await {
        Err(_) => plain(503, &format!("no answer within {} s", patience.as_secs_f64())),
        Ok(_) if !asks_readiness => plain(200, "alive"),
        Ok(Readiness::NotReady(why)) => plain(503, &format!("not ready: {why}")),
        Ok(Readiness::Ready("")) => plain(200, "ready"),
        Ok(Readiness::Ready(note)) => plain(200, &format!("ready: {note}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: &str, target: &str, ready: Option<Readiness>) -> Option<(u16, String)> {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let request = Request { method: method.into(), target: target.into(), ..Request::default() };
        let answer = answer(&request, Duration::from_millis(10), || async {
            match ready {
                Some(ready) => ready,
                None => std::future::pending().await,
            }
        });
        tokio.expect("a runtime").block_on(answer).map(|r| (r.status, r.body))
    }

    #[test]
    fn answers() {
        assert_eq!(
            ask("GET", "/readyz", Some(Readiness::Ready("standby"))),
            Some((200, "ready: standby\n".into()))
        );
        let both = |ready: Option<Readiness>| {
            ["/healthz", "/readyz?x"].map(|path| ask("GET", path, ready.clone()).expect("its path"))
        };
        assert_eq!(both(Some(Readiness::Ready(""))), [(200, "alive\n".into()), (200, "ready\n".into())]);
        assert_eq!(
            both(Some(Readiness::NotReady("no switch".into()))),
            [(200, "alive\n".into()), (503, "not ready: no switch\n".into())]
        );
        let late: (u16, String) = (503, "no answer within 0.01 s\n".into());
        assert_eq!(both(None), [late.clone(), late]);
        assert_eq!(ask("GET", "/metrics", Some(Readiness::Ready(""))), None);
        assert_eq!(ask("POST", "/readyz", Some(Readiness::Ready(""))).map(|(status, _)| status), Some(405));
    }
}
