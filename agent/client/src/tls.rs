//! Texts for people that say what is wrong with a server's certificate, and what to change.

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

const NO_CERTIFICATE: &str =
    "the server asks for a client certificate: name one with --client-cert FILE and --client-key FILE";

/// Explains a TLS error of which only the text is left. With TLS 1.3 a server asks for the agent's certificate after the handshake, and
/// HTTP/2 keeps only the text of an error that breaks a connection then.
pub(crate) fn words_of_text(words: String) -> String {
    if words.ends_with("alert: CertificateRequired") { NO_CERTIFICATE.to_owned() } else { words }
}

/// Explains an error of the TLS handshake.
pub(crate) fn tls_error_words(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(certificate) => certificate_error_words(certificate),
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "the server speaks no TLS there: use http://, or its TLS port".to_owned()
        }
        Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
            "the server speaks no HTTP/2 there: use its gRPC port".to_owned()
        }
        Error::AlertReceived(AlertDescription::CertificateRequired) => NO_CERTIFICATE.to_owned(),
        other => format!("TLS: {other}"),
    }
}

fn certificate_error_words(error: &CertificateError) -> String {
    match error {
        // BAD_SIGNATURE: another CA with the same name signed the certificate
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "no trusted CA has signed the server's certificate: name its CA with --ca FILE or PLIMSOLL_CA"
                .to_owned()
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let presented = presented.join(", ");
            let expected = expected.to_str();
            format!(
                "the server's certificate is for {presented}, not for {expected}: use its name in the address"
            )
        }
        CertificateError::NotValidForName => {
            "the server's certificate is for another name: use that name in the address".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the server's certificate has expired, or the clock of this machine is wrong".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet, or the clock of this machine is wrong".to_owned()
        }
        other => format!("the server's certificate is not accepted: {other}"),
    }
}
