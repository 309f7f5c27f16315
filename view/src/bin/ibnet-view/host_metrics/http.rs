//! GET requests to Prometheus, with TLS and authentication if necessary.

use std::time::Duration;

use ibnet::http_client::{Access, Client, ClientError, Fault, without_user};
use ibnet_analysis::host_metrics::{HostMetricsError, Server};

/// Max time for a whole request.
const WHOLE: Duration = Duration::from_secs(300);

/// A server with the API of Prometheus.
pub(crate) struct HttpServer(Client);

impl HttpServer {
    pub(crate) fn new(url: &str, access: &Access) -> Result<Self, HostMetricsError> {
        let shown = without_user(url);
        let wrong = |why: &str| HostMetricsError::Url {
            url: shown.clone(),
            why: why.to_owned(),
        };
        let authority = url
            .split_once("://")
            .and_then(|(_, rest)| rest.split(['/', '?']).next());
        let user = authority.and_then(|authority| authority.rsplit_once('@'));
        if user.is_some_and(|(user, _)| user.contains(':')) {
            return Err(wrong(
                "it has a password, which other users of this machine can see; use --host-metrics-password-file",
            ));
        }
        if url.contains('?') {
            return Err(wrong("it has a query after `?`"));
        }
        Client::new(url, access, WHOLE)
            .map(Self)
            .map_err(|error| failed(error, shown, access))
    }
}

fn failed(
    ClientError { fault, why }: ClientError,
    url: String,
    access: &Access,
) -> HostMetricsError {
    match fault {
        Fault::Url => HostMetricsError::Url { url, why },
        Fault::Authority => {
            let path = access.ca_file.as_deref().unwrap_or_else(|| "".as_ref());
            HostMetricsError::Authority {
                path: path.display().to_string(),
                why,
            }
        }
        Fault::Unreachable => HostMetricsError::Unreachable { url, why },
        Fault::Tls => HostMetricsError::Tls { url, why },
        Fault::Response => HostMetricsError::Response { url, why },
    }
}

impl Server for HttpServer {
    fn url(&self) -> &str {
        self.0.url()
    }

    fn get(
        &self,
        path: &str,
        parameters: &[(&str, &str)],
    ) -> Result<(u16, Vec<u8>), HostMetricsError> {
        self.0
            .get(path, parameters)
            .map_err(|error| failed(error, self.url().to_owned(), &Access::default()))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::thread;

    use tokio::net::TcpSocket;

    use super::*;

    #[test]
    fn password_in_the_address_is_refused_and_not_shown() {
        for url in [
            "http://u:secret@h:9090",
            "http://h/?a=b",
            "http://",
            "not a url",
        ] {
            let error = HttpServer::new(url, &Access::default())
                .err()
                .unwrap()
                .to_string();
            assert!(
                error.contains("cannot use") && !error.contains("secret@"),
                "{error}"
            );
        }
    }

    #[test]
    fn request_has_the_token_and_its_response_is_returned() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let request = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap())
                .lines()
                .map(Result::unwrap)
                .take_while(|line| !line.is_empty())
                .collect::<Vec<_>>();
            // Redirects are not followed: the password is for this server only.
            let head =
                "HTTP/1.1 302 X\r\nLocation: /b\r\nContent-Length: 2\r\nConnection: close\r\n\r\n";
            stream.write_all(format!("{head}{{}}").as_bytes()).unwrap();
            lines.join("\n")
        });
        let access = Access {
            secret: Some("token".to_owned()),
            ca_file: None,
        };
        let server = HttpServer::new(&url, &access).unwrap();
        let parameters = [("query", "{a=\"b\"}[610s]"), ("match[]", "x")];
        let (status, body) = server.get("/api", &parameters).unwrap();
        assert_eq!((status, &*body), (302, &b"{}"[..]));
        let request = request.join().unwrap();
        assert!(
            request
                .starts_with("GET /api?query=%7Ba%3D%22b%22%7D%5B610s%5D&match%5B%5D=x HTTP/1.1")
                && request.contains("authorization: Bearer token"),
            "{request}"
        );
    }

    #[test]
    fn refused_connection_has_a_message() {
        // The port belongs to this socket, which does not listen.
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let url = format!("http://{}", socket.local_addr().unwrap());
        let server = HttpServer::new(&url, &Access::default()).unwrap();
        let error = server.get("/api", &[]).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!(
                "cannot reach Prometheus at {url}: Connection refused"
            )),
            "{error}"
        );
    }
}
