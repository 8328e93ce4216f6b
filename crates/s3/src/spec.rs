//! Specification of a store and its credentials. It mirrors `S3Store` and `Credentials` of
//! `storlab/model/s3.py`; change both together.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use storlab_base::{Error, Result};

/// Position of the bucket's name in the address.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Addressing {
    /// Path style: endpoint/bucket/key.
    #[default]
    Path,
    /// Virtual-host style: bucket.endpoint/key.
    Virtual,
}

/// Bucket and how to connect to it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct StoreSpec {
    /// Base addresses, `http://host:port` or `https://host:port`, without a path.
    pub endpoints: Vec<String>,
    /// Name of the bucket.
    pub bucket: String,
    /// Region that requests are signed for.
    #[serde(default = "default_region")]
    pub region: String,
    /// Path style or virtual-host style.
    #[serde(default)]
    pub addressing: Addressing,
    /// PEM file of the certificate authorities to trust, instead of those of the system.
    #[serde(default)]
    pub ca_file: Option<String>,
    /// Whether the server's certificate is verified; if false, any certificate is accepted.
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

/// Keys that sign requests. The debug output hides them.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Access key ID; part of every request.
    pub access_key: String,
    /// Secret key; it never leaves this process.
    pub secret_key: String,
    /// Session token of temporary credentials; part of every request.
    pub session_token: Option<String>,
}

impl Credentials {
    /// Read the dictionary of Python's `Credentials.as_dict()`. An empty map returns None: requests
    /// are not signed.
    ///
    /// # Errors
    /// [`Error::Spec`] naming the field that is missing or unknown.
    pub fn from_map(secrets: &BTreeMap<String, String>) -> Result<Option<Credentials>> {
        if secrets.is_empty() {
            return Ok(None);
        }
        if let Some(name) = secrets.keys().find(|name| !SECRETS.contains(&name.as_str())) {
            let fix = "give access_key, secret_key and, where there is one, session_token";
            return Err(Error::spec(format!("credentials.{name}"), "is not known", fix));
        }
        let need = |name: &str| match secrets.get(name) {
            Some(value) if !value.is_empty() => Ok(value.clone()),
            _ => {
                let field = format!("credentials.{name}");
                Err(Error::spec(field, "is missing", "give both keys, or none for no signature"))
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
