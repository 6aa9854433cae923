//! Verifies signatures of tokens with the library ring, which TLS uses, too. It cannot sign.

use jsonwebtoken::{
    Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind,
    crypto::{CryptoProvider, JwtVerifier, KeyUtils},
    errors::{Error, ErrorKind},
    signature,
};
use ring::signature as ring_signature;

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_algorithm, _key| Err(ErrorKind::InvalidAlgorithm.into()),
    verifier_factory: |algorithm, key| Ok(Box::new(RingVerifier::new(*algorithm, key)?)),
    // needed only to derive key sets from private keys, which is not done here
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes ring the verifier of signatures of this process. May be called repeatedly.
pub(super) fn install() {
    // an error means that an earlier call has installed it
    let _installed = PROVIDER.install_default();
}

/// Checks signatures of one algorithm by one public key.
struct RingVerifier {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl RingVerifier {
    /// Checks that the algorithm fits the kind of key: a public RSA key must never verify an HMAC.
    fn new(algorithm: Algorithm, key: &DecodingKey) -> Result<Self, Error> {
        if key.family() == AlgorithmFamily::Hmac || key.family() != family(algorithm) {
            return Err(ErrorKind::InvalidAlgorithm.into());
        }
        Ok(Self { algorithm, key: key.clone() })
    }
}

fn family(algorithm: Algorithm) -> AlgorithmFamily {
    match algorithm {
        Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512 => AlgorithmFamily::Hmac,
        Algorithm::ES256 | Algorithm::ES384 => AlgorithmFamily::Ec,
        Algorithm::EdDSA => AlgorithmFamily::Ed,
        _ => AlgorithmFamily::Rsa,
    }
}

impl signature::Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let rsa = |parameters: &'static ring_signature::RsaParameters| match self.key.kind() {
            DecodingKeyKind::RsaModulusExponent { n, e } => {
                ring_signature::RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            DecodingKeyKind::SecretOrDer(_) => Err(ring::error::Unspecified),
        };
        let plain = |algorithm: &'static dyn ring_signature::VerificationAlgorithm| {
            let key = self.key.try_get_as_bytes().map_err(|_other_kind| ring::error::Unspecified)?;
            ring_signature::UnparsedPublicKey::new(algorithm, key).verify(message, signature)
        };
        let checked = match self.algorithm {
            Algorithm::RS256 => rsa(&ring_signature::RSA_PKCS1_2048_8192_SHA256),
            Algorithm::RS384 => rsa(&ring_signature::RSA_PKCS1_2048_8192_SHA384),
            Algorithm::RS512 => rsa(&ring_signature::RSA_PKCS1_2048_8192_SHA512),
            Algorithm::PS256 => rsa(&ring_signature::RSA_PSS_2048_8192_SHA256),
            Algorithm::PS384 => rsa(&ring_signature::RSA_PSS_2048_8192_SHA384),
            Algorithm::PS512 => rsa(&ring_signature::RSA_PSS_2048_8192_SHA512),
            Algorithm::ES256 => plain(&ring_signature::ECDSA_P256_SHA256_FIXED),
            Algorithm::ES384 => plain(&ring_signature::ECDSA_P384_SHA384_FIXED),
            Algorithm::EdDSA => plain(&ring_signature::ED25519),
            _ => Err(ring::error::Unspecified),
        };
        checked.map_err(|ring::error::Unspecified| signature::Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
