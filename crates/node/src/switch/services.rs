//! The gRPC services on a switch's port.

use super::{gnmi, grpc, trace};
use pointsman_control::proto::gnmi::g_nmi_server::GNmiServer;
use pointsman_control::proto::p4rt::p4_runtime_server::P4RuntimeServer;
use pointsman_control::proto::trace::trace_server::TraceServer;
use std::convert::Infallible;
use std::future::ready;
use std::task::{Context, Poll};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::NamedService;

/// Hands each request to the service that its path names.
#[derive(Clone)]
pub struct Services {
    pub p4runtime: P4RuntimeServer<grpc::Service>,
    pub gnmi: GNmiServer<gnmi::Service>,
    pub trace: TraceServer<trace::Service>,
}

impl Service<http::Request<Body>> for Services {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // All are always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        const P4RUNTIME: &str = P4RuntimeServer::<grpc::Service>::NAME;
        const GNMI: &str = GNmiServer::<gnmi::Service>::NAME;
        const TRACE: &str = TraceServer::<trace::Service>::NAME;
        match request.uri().path().split('/').nth(1) {
            Some(P4RUNTIME) => self.p4runtime.call(request),
            Some(GNMI) => self.gnmi.call(request),
            Some(TRACE) => self.trace.call(request),
            _ => {
                let status = Status::unimplemented(format!(
                    "unknown service in {}: this port serves {P4RUNTIME}, {GNMI} and {TRACE}",
                    request.uri().path()
                ));
                Box::pin(ready(Ok(status.into_http())))
            }
        }
    }
}
