//! Causes for which a TLS connection is not made, by the words of drivers and programs. Pure.

/// A cause: the words by which it is known, the field to correct, and what to do.
type Cause = (&'static [&'static str], &'static str, &'static str);

/// The first match is reported: errors of an earlier cause also contain words of later ones.
const CAUSES: &[Cause] = &[
    (
        &[
            "NotValidForName",
            "not valid for name",
            "does not match host name",
            "ostname mismatch",
            "Validation of SSL server certificate failed",
        ],
        "host",
        "the server's certificate is not for this name: give a name that is in the certificate, or make a certificate with this one",
    ),
    (
        &[
            "in PEM",
            "client certificate:",
            "certificate file",
            "PEM lib",
            "no start line",
            "Unable to get certificate",
            "SSL_CTX",
        ],
        "tlsSecretName",
        "ca.crt, tls.crt or tls.key of the Secret cannot be read: put PEM there, as cert-manager does",
    ),
    (
        &["Expired", "has expired", "NotValidYet", "not yet valid"],
        "tlsSecretName",
        "a certificate is not valid now: renew that of the server, or tls.crt of the Secret",
    ),
    (
        &[
            "UnknownIssuer",
            "BadSignature",
            "signature failure",
            "self-signed",
            "self signed",
            "local issuer",
            "verify failed",
            "NOT trusted",
            "not trusted",
        ],
        "tlsSecretName",
        "ca.crt of the Secret is not the authority of the server's certificate: put that one there",
    ),
    (
        &[
            "CertificateRequired",
            "BadCertificate",
            "UnknownCA",
            "alert certificate required",
            "alert bad certificate",
            "unknown ca",
        ],
        "tlsSecretName",
        "the server refuses the client's certificate, or wants one: put tls.crt and tls.key that it trusts into the Secret",
    ),
    (
        &["not support TLS", "not support SSL", "SSL is required"],
        "tlsSecretName",
        "the server offers no TLS: turn it on there, or leave this field out",
    ),
    (
        &["insecure transport"],
        "tlsSecretName",
        "the server takes no connection without TLS: name a Secret with its ca.crt",
    ),
    (
        &["no pg_hba.conf entry"],
        "tlsSecretName",
        "pg_hba.conf of the server has no line for this user and network with this TLS: add one there, or change this field",
    ),
    (
        &["certificate", "SSL error", "SSL connection error", "TLS handshake", "received fatal alert", "TLS/SSL"],
        "tlsSecretName",
        "the server wants TLS otherwise",
    ),
];

/// The field to correct and what to do, if the words are about TLS.
pub fn cause(output: &str) -> Option<(&'static str, &'static str)> {
    let found = CAUSES.iter().find(|(words, ..)| words.iter().any(|word| output.contains(word)));
    found.map(|(_, field, what)| (*field, *what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_own_remedy() {
        for (output, field, words) in [
            ("invalid peer certificate: UnknownIssuer", "tlsSecretName", "not the authority"),
            (
                "ERROR 2026 (HY000): TLS/SSL error: self-signed certificate in certificate chain",
                "tlsSecretName",
                "not the authority",
            ),
            (
                "invalid peer certificate: certificate not valid for name \"db\"; certificate is only valid for DnsName(\"x\")",
                "host",
                "not for this name",
            ),
            (
                "ERROR 2026 (HY000): TLS/SSL error: Validation of SSL server certificate failed",
                "host",
                "not for this name",
            ),
            (
                "certificate file /var/run/secrets/causeway.example.com/postgresql/tls/t/ca.crt: no certificate in PEM",
                "tlsSecretName",
                "cannot be read",
            ),
            ("invalid peer certificate: Expired", "tlsSecretName", "not valid now"),
            ("server does not support TLS", "tlsSecretName", "offers no TLS"),
            ("received fatal alert: CertificateRequired", "tlsSecretName", "tls.crt and tls.key"),
            (
                "no pg_hba.conf entry for host \"10.0.0.1\", user \"u\", database \"d\", no encryption",
                "tlsSecretName",
                "pg_hba.conf of the server has no line",
            ),
            ("ERROR 3159 (08004): Connections using insecure transport are prohibited", "tlsSecretName", "without TLS"),
        ] {
            let (name, what) = cause(output).unwrap();
            assert!(name == field && what.contains(words), "{output}: {name}: {what}");
        }
        assert_eq!(cause("Connection refused"), None);
    }
}
