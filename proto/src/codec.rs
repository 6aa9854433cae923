//! Encodes and decodes messages as tonic does, but with buffers of the size of a usual message.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::ProstCodec;

/// Initial bytes of a buffer, which grows with its message. A Predict request fits, and so does its answer. tonic's default of 8 KiB is
/// more than the caches of glibc's allocator hold (1,032 bytes), so each call would search the heap twice.
const BUFFER_BYTES: usize = 1024;
/// Messages of a stream are sent together up to this number of bytes, which is tonic's default.
const YIELD_BYTES: usize = 32 * 1024;

/// Encodes messages of type `T`, and decodes messages of type `U`.
#[derive(Debug)]
pub struct MessageCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for MessageCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for MessageCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = <ProstCodec<T, U> as Codec>::Encoder;
    type Decoder = <ProstCodec<T, U> as Codec>::Decoder;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::new(BUFFER_BYTES, YIELD_BYTES))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<T, U>::raw_decoder(BufferSettings::new(BUFFER_BYTES, YIELD_BYTES))
    }
}
