//! Which store, and with which keys: `S3Store` and `Credentials` of `storlab/model/s3.py`, change
//! both together.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use storlab_base::{Error, Result};

/// Where the bucket's name stands.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Addressing {
    /// endpoint/bucket/key
    #[default]
    Path,
    /// bucket.endpoint/key
    Virtual,
}

/// A bucket, and how to talk to it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct StoreSpec {
    /// `http://host:port` or `https://host:port`, no path.
    pub endpoints: Vec<String>,
    /// Its name.
    pub bucket: String,
    /// That requests are signed for.
    #[serde(default = "default_region")]
    pub region: String,
    /// Path or virtual-host style.
    #[serde(default)]
    pub addressing: Addressing,
    /// PEM file of the authorities to trust, instead of those of the system.
    #[serde(default)]
    pub ca_file: Option<String>,
    /// False: any certificate will do.
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

/// What signs a request. Its debug form shows nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Public half; part of every request.
    pub access_key: String,
    /// Never leaves this process.
    pub secret_key: String,
    /// Of temporary credentials; part of every request.
    pub session_token: Option<String>,
}

impl Credentials {
    /// From `Credentials.as_dict()` of Python; an empty map is nobody: requests go unsigned.
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
