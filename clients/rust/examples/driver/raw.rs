//! Any other RPC, by its name.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf as _, BufMut as _, Bytes};
use serde_json::{Value, json};
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Request, Status};

use crate::{Command, Failure};

const MAX_MESSAGE: usize = 64 << 20;

/// Messages as they are on the wire.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self::Encoder {
        Self
    }

    fn decoder(&mut self) -> Self::Decoder {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Self::Item, buffer: &mut EncodeBuf<'_>) -> Result<(), Self::Error> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Self::Error> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

pub(crate) async fn unary(command: &Command) -> Result<Value, Failure> {
    let request = STANDARD.decode(command.text("request")).map_err(Failure::invalid)?;
    let path = format!("/{}", command.text("method"));
    let path: PathAndQuery = path.parse().map_err(Failure::invalid)?;
    let mut grpc = Grpc::new(command.client()?.channel()).max_decoding_message_size(MAX_MESSAGE);
    let is_ready = grpc.ready().await;
    is_ready.map_err(|error| Failure::new(tonic::Code::Unavailable, error.to_string()))?;
    let response = grpc.unary(Request::new(Bytes::from(request)), path, Raw).await?;
    Ok(json!({"response": STANDARD.encode(response.into_inner())}))
}
