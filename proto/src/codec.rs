//! How messages are put into bytes: as tonic does it, with buffers of the size of a usual message.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::ProstCodec;

/// First bytes of a buffer; it grows with its message. A question for a size and its answer fit. tonic's 8 KiB are more than the caches of
/// glibc's allocator hold (1,032 bytes), so that each call would search its heap twice.
const BUFFER_BYTES: usize = 1024;
/// Messages of a stream are sent together up to this many bytes: tonic's default.
const YIELD_BYTES: usize = 32 * 1024;

/// Messages `T` to bytes, and bytes to messages `U`.
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
