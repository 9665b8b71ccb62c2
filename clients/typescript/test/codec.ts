/** How messages of the contract travel in the driver protocol: Base64 of their binary form. */
import { type DescMessage, fromBinary, type MessageShape, toBinary } from "@bufbuild/protobuf";

/** Reads a message; an absent one is empty. */
export function decode<D extends DescMessage>(schema: D, text: unknown): MessageShape<D> {
  if (text !== undefined && typeof text !== "string") {
    throw new TypeError(`a ${schema.name} in Base64 was expected`);
  }
  return fromBinary(schema, Buffer.from(text ?? "", "base64"));
}

/** Writes a message. */
export function encode<D extends DescMessage>(schema: D, message: MessageShape<D>): string {
  return bytes(toBinary(schema, message));
}

/** Writes bytes. */
export function bytes(data: Uint8Array): string {
  return Buffer.from(data).toString("base64");
}
