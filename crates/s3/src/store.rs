//! S3 store, ready for requests: endpoints resolved, TLS configured, signer created.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use http::{HeaderValue, Uri};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use storlab_base::{Error, Result, wall_clock_ns};

use crate::addresses::Addresses;
use crate::request::{self, Call, Origin, Signed};
use crate::sign::Signer;
use crate::spec::{Addressing, Credentials, StoreSpec};
use crate::tls;

/// S3 store, ready for requests: endpoints resolved, TLS configured. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    bucket: String,
    endpoints: Vec<Endpoint>,
    signer: Option<Signer>,
}

/// Endpoint of a store, with what is needed to connect to it.
pub(super) struct Endpoint {
    /// Endpoint as the study writes it, for messages.
    pub(super) name: String,
    origin: Origin,
    pub(super) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    pub(super) addresses: Arc<Addresses>,
}

impl Store {
    /// Resolve the names of the endpoints, and read the certificate authorities.
    ///
    /// Without credentials, requests are not signed.
    ///
    /// # Errors
    /// [`Error::Spec`] if the specification is invalid, [`Error::Io`] if a name cannot be resolved
    /// or a file cannot be read.
    pub fn new(spec: &StoreSpec, credentials: Option<Credentials>) -> Result<Store> {
        check_bucket(spec)?;
        if spec.endpoints.is_empty() {
            return Err(Error::spec(
                "endpoints",
                "is empty",
                "add an endpoint such as http://host:port",
            ));
        }
        if HeaderValue::from_str(&spec.region).is_err() || spec.region.is_empty() {
            let what = format!("{:?} is not a valid region name", spec.region);
            return Err(Error::spec("region", what, "use a name such as us-east-1"));
        }
        let signer = match credentials {
            None => None,
            Some(credentials) => {
                Some(Signer::new(credentials, &spec.region, "s3").ok_or_else(|| {
                    let what = "the access key or session token contains control characters";
                    Error::spec("credentials", what, "check them for a line break at the end")
                })?)
            }
        };
        let mut config = None;
        let mut endpoints = Vec::with_capacity(spec.endpoints.len());
        for (index, name) in spec.endpoints.iter().enumerate() {
            endpoints.push(Endpoint::new(index, name, spec, &mut config)?);
        }
        let bucket = spec.bucket.clone();
        Ok(Store { inner: Arc::new(Inner { bucket, endpoints, signer }) })
    }

    /// Return the number of endpoints of the store.
    pub fn endpoints(&self) -> usize {
        self.inner.endpoints.len()
    }

    /// Return an endpoint as the study writes it, for messages.
    ///
    /// # Panics
    /// If the index `endpoint` is out of range.
    pub fn endpoint_name(&self, endpoint: usize) -> &str {
        &self.inner.endpoints[endpoint].name
    }

    /// Return the name of the bucket.
    pub fn bucket(&self) -> &str {
        &self.inner.bucket
    }

    /// Return whether requests are signed.
    pub fn signs(&self) -> bool {
        self.inner.signer.is_some()
    }

    /// Build a request, signed for the current time. Takes about 1 us.
    ///
    /// # Panics
    /// If the index `endpoint` is out of range.
    pub fn request(&self, endpoint: usize, call: &Call<'_>) -> Signed {
        let origin = &self.inner.endpoints[endpoint].origin;
        let second = wall_clock_ns() / 1_000_000_000;
        request::build(origin, self.inner.signer.as_ref(), second, call)
    }

    /// Replace the addresses of the first endpoint, for tests.
    #[cfg(test)]
    pub(super) fn with_addresses(mut self, addresses: Arc<Addresses>) -> Store {
        let inner = Arc::get_mut(&mut self.inner).expect("not cloned yet");
        inner.endpoints[0].addresses = addresses;
        self
    }

    pub(super) fn endpoint(&self, endpoint: usize) -> &Endpoint {
        &self.inner.endpoints[endpoint]
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.inner.endpoints.iter().map(|e| e.name.as_str()).collect();
        f.debug_struct("Store")
            .field("bucket", &self.inner.bucket)
            .field("endpoints", &names)
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    fn new(
        index: usize,
        name: &str,
        spec: &StoreSpec,
        config: &mut Option<Arc<ClientConfig>>,
    ) -> Result<Endpoint> {
        let field = format!("endpoints[{index}]");
        let (secure, host, port) = parse(name).ok_or_else(|| {
            let what = format!("{name:?} is not an endpoint");
            Error::spec(&field, what, "use http://host:port or https://host:port, without a path")
        })?;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let address = bare.parse::<IpAddr>().ok();
        let (host, path_prefix) = match spec.addressing {
            Addressing::Path => (host.clone(), format!("/{}", spec.bucket)),
            Addressing::Virtual if address.is_some() => {
                let what = format!(
                    "{name} is an IP address, but addressing = \"virtual\" puts the bucket's name \
                     before a host name"
                );
                let fix = "use a host name, or addressing = \"path\"";
                return Err(Error::spec(&field, what, fix));
            }
            Addressing::Virtual => (format!("{}.{host}", spec.bucket), String::new()),
        };
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let tls = if secure {
            let config = match config {
                Some(config) => config.clone(),
                None => config.insert(tls::config(spec)?).clone(),
            };
            let server = ServerName::try_from(bare.to_owned()).map_err(|e| {
                Error::spec(&field, format!("{bare}: {e}"), "use a valid host name")
            })?;
            Some((config, server))
        } else {
            None
        };
        let default_port = if secure { 443 } else { 80 };
        let shown = if port == default_port { host.clone() } else { format!("{host}:{port}") };
        let host = HeaderValue::from_str(&shown)
            .map_err(|e| Error::spec(&field, format!("{shown}: {e}"), "use a valid host name"))?;
        let addresses = addresses(bare, port).map_err(|e| Error::io("resolve", name, 0, e))?;
        let origin = Origin { host, path_prefix };
        Ok(Endpoint { name: name.to_owned(), origin, tls, addresses })
    }
}

/// Split an endpoint into whether it uses TLS, its host (an IPv6 address in brackets) and its port;
/// return `None` if it is invalid.
fn parse(name: &str) -> Option<(bool, String, u16)> {
    let uri: Uri = name.parse().ok()?;
    let secure = match uri.scheme_str()? {
        "http" => false,
        "https" => true,
        _ => return None,
    };
    let authority = uri.authority()?;
    let plain = matches!(uri.path(), "" | "/") && uri.query().is_none();
    let host = authority.host();
    if !plain || authority.as_str().contains('@') || host.is_empty() {
        return None;
    }
    let port = match authority.port() {
        Some(port) => port.as_str().parse().ok().filter(|port| *port > 0)?,
        // An endpoint such as "host:" has an empty port.
        None if authority.as_str().len() > host.len() => return None,
        None if secure => 443,
        None => 80,
    };
    Some((secure, host.to_ascii_lowercase(), port))
}

/// Return the addresses of a host. Names under `localhost` are mapped to this machine (RFC 6761)
/// even if the resolver does not do so, because virtual-host style on the loopback address depends
/// on it.
fn addresses(host: &str, port: u16) -> std::io::Result<Arc<Addresses>> {
    let fixed = |hosts: &[IpAddr]| {
        Addresses::fixed(hosts.iter().map(|&host| SocketAddr::new(host, port)).collect())
    };
    if host.ends_with(".localhost") {
        return Ok(fixed(&[Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]));
    }
    if let Ok(host) = host.parse() {
        return Ok(fixed(&[host]));
    }
    let host = host.to_owned();
    Addresses::of_name(Box::new(move || resolve(&host, port)))
}

/// Resolve a name to its addresses, without duplicates.
fn resolve(host: &str, port: u16) -> std::io::Result<Vec<SocketAddr>> {
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for address in (host, port).to_socket_addrs()? {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        return Err(std::io::Error::other("the name resolves to no address"));
    }
    Ok(addresses)
}

fn check_bucket(spec: &StoreSpec) -> Result<()> {
    let allowed = |byte: u8| {
        byte.is_ascii_alphanumeric()
            || byte == b'-'
            || byte == b'.'
            // Underscores occur in old bucket names and on stores other than AWS, but not in host
            // names.
            || (byte == b'_' && spec.addressing == Addressing::Path)
    };
    let dots = spec.bucket.starts_with('.') || spec.bucket.contains("..");
    if spec.bucket.is_empty() || dots || !spec.bucket.bytes().all(allowed) {
        let what = format!("{:?} is not a valid bucket name", spec.bucket);
        return Err(Error::spec("bucket", what, "use letters, digits, dots and hyphens"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
