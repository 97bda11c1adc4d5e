//! A question to gRPC's health service, `grpc.health.v1.Health/Check`, as the gRPC Health Checking Protocol describes it.

use super::health::ProbeError;
use super::orca::{Raw, explained, root};
use prost::Message;
use std::net::SocketAddr;
use std::time::Duration;
use tonic::Request;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;

const METHOD: &str = "/grpc.health.v1.Health/Check";

/// Names of `HealthCheckResponse.ServingStatus`, by number.
const STATES: [&str; 4] = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"];

/// `HealthCheckRequest`.
#[derive(Clone, PartialEq, Message)]
struct Question {
    #[prost(string, tag = "1")]
    service: String,
}

/// `HealthCheckResponse`.
#[derive(Clone, PartialEq, Message)]
struct Answer {
    #[prost(int32, tag = "1")]
    status: i32,
}

async fn ask(to: SocketAddr, service: &str) -> Result<(), ProbeError> {
    let endpoint =
        Endpoint::from_shared(format!("http://{to}")).map_err(|e| ProbeError::Grpc(e.to_string()))?;
    let channel = endpoint.connect().await.map_err(|e| ProbeError::Grpc(root(&e)))?;
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.map_err(|e| ProbeError::Grpc(root(&e)))?;
    let question = Question { service: service.to_string() }.encode_to_vec();
    let answer = client.unary(Request::new(question), PathAndQuery::from_static(METHOD), Raw).await;
    let answer = answer.map_err(|status| ProbeError::Grpc(explained(&status)))?.into_inner();
    let answer = Answer::decode(&answer[..]).map_err(|e| ProbeError::Grpc(e.to_string()))?;
    match usize::try_from(answer.status).ok().and_then(|n| STATES.get(n)) {
        Some(&"SERVING") => Ok(()),
        Some(state) => Err(ProbeError::Grpc(format!("the service is {state}"))),
        None => Err(ProbeError::Grpc(format!("unknown state {}", answer.status))),
    }
}

/// Asks for the state of a service, empty for the server as a whole, without TLS.
pub(super) fn check(to: SocketAddr, service: &str, within: Duration) -> Result<(), ProbeError> {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio.block_on(async {
        tokio::time::timeout(within, ask(to, service)).await.unwrap_or(Err(ProbeError::Late))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::task::{Context, Poll};
    use tonic::Status;
    use tonic::body::Body;
    use tonic::codegen::{BoxFuture, Service, http};
    use tonic::server::{Grpc, NamedService, UnaryService};

    /// Answers with the state of a service by its name, as a number.
    #[derive(Clone)]
    struct Server;

    impl NamedService for Server {
        const NAME: &'static str = "grpc.health.v1.Health";
    }

    impl UnaryService<Vec<u8>> for Server {
        type Response = Vec<u8>;
        type Future = BoxFuture<tonic::Response<Vec<u8>>, Status>;

        fn call(&mut self, request: Request<Vec<u8>>) -> Self::Future {
            Box::pin(async move {
                // Field 1, a string.
                let asked = request.into_inner();
                let status = match asked.as_slice() {
                    [] | [0x0a, 2, b'u', b'p'] => 1,
                    [0x0a, 4, b'd', b'o', b'w', b'n'] => 2,
                    [0x0a, 3, b'o', b'd', b'd'] => 9,
                    _ => return Err(Status::not_found("unknown service")),
                };
                Ok(tonic::Response::new(vec![8, status]))
            })
        }
    }

    impl Service<http::Request<Body>> for Server {
        type Response = http::Response<Body>;
        type Error = Infallible;
        type Future = BoxFuture<http::Response<Body>, Infallible>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: http::Request<Body>) -> Self::Future {
            Box::pin(async move {
                assert_eq!(request.uri().path(), METHOD);
                Ok(Grpc::new(Raw).unary(Server, request).await)
            })
        }
    }

    #[test]
    fn states() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let to = listener.local_addr().expect("an address");
        listener.set_nonblocking(true).expect("a socket");
        let (ended, end) = tokio::sync::oneshot::channel::<()>();
        let server = std::thread::spawn(move || {
            let tokio =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            tokio.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
                let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
                tokio::select! {
                    r = tonic::transport::Server::builder().serve_with_incoming(Server, incoming) => r.expect("it serves"),
                    _ = end => {}
                }
            });
        });
        let ask = |service: &str| check(to, service, Duration::from_secs(60)).map_err(|e| e.to_string());
        assert_eq!(ask(""), Ok(()));
        assert_eq!(ask("up"), Ok(()));
        assert_eq!(ask("down"), Err("gRPC: the service is NOT_SERVING".into()));
        assert_eq!(ask("odd"), Err("gRPC: unknown state 9".into()));
        let missing = ask("none").expect_err("not found");
        assert!(missing.contains("NotFound") && missing.contains("unknown service"), "{missing}");
        drop(ended);
        server.join().expect("no panic");
    }

    #[test]
    fn no_server() {
        // It accepts and says nothing.
        let mute = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let to = mute.local_addr().expect("an address");
        assert!(check(to, "", Duration::from_millis(50)).is_err());
        drop(mute);
        let refused = check(to, "", Duration::from_secs(60)).expect_err("refused").to_string();
        assert!(refused.contains("refused"), "{refused}");
    }
}
