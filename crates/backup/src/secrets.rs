//! Passwords and certificates that are mounted from Secrets. Read again for every connection, never logged.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use super::Error;
use super::age::{Identities, KeyError};

/// A user and its password.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The user; none for the default one.
    pub username: Option<String>,
    pub password: String,
}

/// Prints no password.
impl fmt::Debug for Login {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Login").field("username", &self.username).finish_non_exhaustive()
    }
}

/// Certificates to trust and to present, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificates {
    /// CA certificates in PEM.
    pub trusted: String,
    /// Client certificate and key.
    pub identity: Option<(String, String)>,
}

/// Reads a log-in from its directory.
pub fn login(directory: &Path) -> Result<Login, Error> {
    let password = needed(directory, "password")?;
    let username = read(directory, "username")?.filter(|name| !name.is_empty());
    Ok(Login { username, password })
}

/// Reads secret keys of age from their directory.
pub fn identities(directory: &Path) -> Result<Identities, Error> {
    let text = needed(directory, "identity")?;
    let refused = |mistake: KeyError| Error::Secret {
        path: directory.join("identity"),
        message: format!("key identity: {mistake}"),
    };
    text.parse().map_err(refused)
}

/// Reads certificates from their directory.
pub fn certificates(directory: &Path) -> Result<Certificates, Error> {
    let trusted = needed(directory, "ca.crt")?;
    let identity = match (read(directory, "tls.crt")?, read(directory, "tls.key")?) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        (Some(_), None) => return Err(missing(directory, "tls.key")),
        (None, Some(_)) => return Err(missing(directory, "tls.crt")),
    };
    Ok(Certificates { trusted, identity })
}

fn needed(directory: &Path, name: &str) -> Result<String, Error> {
    read(directory, name)?.filter(|text| !text.is_empty()).ok_or_else(|| missing(directory, name))
}

fn missing(directory: &Path, name: &str) -> Error {
    Error::Secret {
        path: directory.join(name),
        message: format!("key {name} is missing: make the Secret, or add the key"),
    }
}

/// The text of a file without the line end that editors add; none if there is no such file.
fn read(directory: &Path, name: &str) -> Result<Option<String>, Error> {
    match fs::read_to_string(directory.join(name)) {
        Ok(text) => Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::Secret { path: directory.join(name), message: error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_key_is_named_and_a_password_never_shown() {
        let directory = std::env::temp_dir().join(format!("causeway-secrets-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let description = login(&directory).unwrap_err();
        assert_eq!(description.reason(), "SecretMissing");
        assert!(description.to_string().contains("password"), "{description}");
        fs::write(directory.join("password"), "hunter2\n").unwrap();
        let login = login(&directory).unwrap();
        assert_eq!(login, Login { username: None, password: "hunter2".into() });
        assert!(!format!("{login:?}").contains("hunter2"));
        fs::write(directory.join("ca.crt"), "authority").unwrap();
        assert_eq!(certificates(&directory).unwrap().identity, None);
        fs::write(directory.join("tls.crt"), "certificate").unwrap();
        let description = certificates(&directory).err().unwrap().to_string();
        assert!(description.contains("tls.key"), "{description}");
        fs::remove_dir_all(&directory).unwrap();
    }
}
