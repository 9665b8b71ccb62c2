//! How messages are written and read: as protobuf, like everywhere, in buffers that are small at first.
//!
//! *Invariant:* only the size of the buffers differs from what tonic has by itself. That is 8 KiB for each direction of each stream from its
//! beginning on; of a thousand streams most carry a few bytes now and then. A buffer grows with what comes.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::ProstCodec;

/// Bytes of a buffer at first.
const FIRST_BYTES: usize = 1024;

/// After how many bytes of small messages they are sent, as tonic has it.
const SENT_TOGETHER_BYTES: usize = 32 * 1024;

/// The codec of all services.
#[derive(Debug, Clone)]
pub(crate) struct SmallBuffers<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for SmallBuffers<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

fn settings() -> BufferSettings {
    BufferSettings::new(FIRST_BYTES, SENT_TOGETHER_BYTES)
}

impl<T, U> Codec for SmallBuffers<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = <ProstCodec<T, U> as Codec>::Encoder;
    type Decoder = <ProstCodec<T, U> as Codec>::Decoder;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(settings())
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<T, U>::raw_decoder(settings())
    }
}
