//! Specification of a store and its credentials. Mirrors `S3Store` and `Credentials` of
//! `storlab/model/s3.py`; change both together.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use storlab_base::{Error, Result};

/// Place of the bucket's name in the address of an object.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Addressing {
    /// Path style: endpoint/bucket/key.
    #[default]
    Path,
    /// Virtual-host style: bucket.endpoint/key.
    Virtual,
}

/// Name of a bucket, and how to connect to its store.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct StoreSpec {
    /// Endpoints of the store, `http://host:port` or `https://host:port`, without a path.
    pub endpoints: Vec<String>,
    /// Name of the bucket.
    pub bucket: String,
    /// Region for which requests are signed.
    #[serde(default = "default_region")]
    pub region: String,
    /// Place of the bucket's name in addresses.
    #[serde(default)]
    pub addressing: Addressing,
    /// PEM file of the certificate authorities to trust, instead of the authorities that the system
    /// trusts.
    #[serde(default)]
    pub ca_file: Option<String>,
    /// Whether the server's certificate is verified. If false, any certificate is accepted.
    #[serde(default = "yes")]
    pub verify_tls: bool,
}

fn default_region() -> String {
    "us-east-1".to_owned()
}

fn yes() -> bool {
    true
}

const SECRETS: [&str; 3] = ["access_key", "secret_key", "session_token"];

/// Keys with which requests are signed. The debug output hides them.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Access key ID. Every request contains it.
    pub access_key: String,
    /// Secret key. It never leaves this process.
    pub secret_key: String,
    /// Session token of temporary credentials. Every request contains it.
    pub session_token: Option<String>,
}

impl Credentials {
    /// Read credentials from the dictionary that Python's `Credentials.as_dict()` returns. An empty
    /// one gives None: requests are then not signed.
    ///
    /// # Errors
    /// [`Error::Spec`] that names the missing or unknown field.
    pub fn from_map(secrets: &BTreeMap<String, String>) -> Result<Option<Credentials>> {
        if secrets.is_empty() {
            return Ok(None);
        }
        if let Some(name) = secrets.keys().find(|name| !SECRETS.contains(&name.as_str())) {
            let fix = "use access_key, secret_key and optionally session_token";
            return Err(Error::spec(format!("credentials.{name}"), "is not a known field", fix));
        }
        let need = |name: &str| match secrets.get(name) {
            Some(value) if !value.is_empty() => Ok(value.clone()),
            _ => {
                let field = format!("credentials.{name}");
                Err(Error::spec(
                    field,
                    "is missing",
                    "set both keys, or neither to send unsigned requests",
                ))
            }
        };
        Ok(Some(Credentials {
            access_key: need("access_key")?,
            secret_key: need("secret_key")?,
            session_token: secrets.get("session_token").filter(|t| !t.is_empty()).cloned(),
        }))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(..)")
    }
}
