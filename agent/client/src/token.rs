//! The agent's credentials: a token from its CI system, its cluster or the server's operator.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use tonic::{
    Request,
    metadata::{Ascii, MetadataValue},
};

use crate::{
    files::{read_regular, run_with_timeout},
    id_token::IdTokenSource,
};

/// Most bytes of a token, the same limit as on the server.
const TOKEN_BYTES: u64 = 16 * 1024;

/// A token, or the file that contains it. Its text is never printed.
#[derive(Clone, PartialEq, Eq)]
pub enum Token {
    /// The token's text.
    Text(String),
    /// A file with the token. It is read for each request, because another program renews it.
    File(PathBuf),
    /// Where the CI job gets its token, a new one for each connection.
    Issued(IdTokenSource),
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Token"),
            Self::File(path) => write!(f, "Token in {}", path.display()),
            Self::Issued(source) => source.fmt(f),
        }
    }
}

impl Token {
    /// `None` if the CI system gives the job no token.
    async fn authorization_header(&self) -> Result<Option<MetadataValue<Ascii>>, String> {
        let text = match self {
            Self::Text(text) => text.clone(),
            Self::File(path) => {
                read(path).await.map_err(|error| format!("token: cannot read {}: {error}", path.display()))?
            }
            Self::Issued(source) => {
                let given = source.token().await;
                match given.map_err(|error| format!("token: the CI system gives none: {error}"))? {
                    Some(token) => token,
                    None => return Ok(None),
                }
            }
        };
        let token = text.trim();
        if token.is_empty() || token.len() as u64 > TOKEN_BYTES {
            return Err(format!("token: has {} bytes, expected 1 to {TOKEN_BYTES}", token.len()));
        }
        let strange = || "token: holds characters that no token has".to_owned();
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(strange());
        }
        let mut header: MetadataValue<Ascii> =
            format!("Bearer {token}").parse().map_err(|_never| strange())?;
        header.set_sensitive(true);
        Ok(Some(header))
    }
}

async fn read(path: &Path) -> io::Result<String> {
    let path = path.to_owned();
    let bytes = run_with_timeout(move || read_regular(&path, TOKEN_BYTES + 1)).await??;
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Makes a request with the token, if there is one.
/// Errors: the token cannot be read, or is invalid; the error is text for people.
pub async fn with_token<T>(token: Option<&Token>, message: T) -> Result<Request<T>, String> {
    let mut request = Request::new(message);
    if let Some(token) = token
        && let Some(header) = token.authorization_header().await?
    {
        request.metadata_mut().insert("authorization", header);
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn renewed_tokens_are_reread_and_never_shown() {
        let (_dir, path) = plimsoll_support::temporary::file_name("token");
        let token = Token::File(path.clone());
        let sent = async || {
            let request = with_token(Some(&token), ()).await?;
            Ok(request.metadata().get("authorization").unwrap().to_str().unwrap().to_owned())
        };
        let missing: Result<String, String> = sent().await;
        assert!(missing.unwrap_err().starts_with("token: cannot read"));
        for text in ["one", "two"] {
            std::fs::write(&path, format!("{text}\n")).unwrap();
            assert_eq!(sent().await, Ok(format!("Bearer {text}")));
        }
        std::fs::write(&path, "x".repeat(20_000)).unwrap();
        assert!(sent().await.unwrap_err().contains("expected 1 to 16384"));
        let shown = format!("{:?}", with_token(Some(&Token::Text("secret".into())), ()).await.unwrap());
        assert!(!shown.contains("secret"), "{shown}");
        for wrong in ["", "a\nb", "\u{e9}"] {
            assert!(with_token(Some(&Token::Text(wrong.into())), ()).await.is_err(), "{wrong:?}");
        }
    }

    #[tokio::test]
    async fn an_unwritten_token_pipe_does_not_block() {
        let (_dir, path) = plimsoll_support::temporary::file_name("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let problem = with_token(Some(&Token::File(path)), ()).await.unwrap_err();
        assert!(problem.ends_with("it is no regular file"), "{problem}");
    }
}
