import { pipeline, type Readable, Transform } from 'node:stream';

/** An object: as large as an event that the local backup takes. */
export const maxObjectBytes = 128 * 1024 * 1024;
/** Any other answer: a page of a list has a thousand keys of a kilobyte at most. */
export const maxAnswerBytes = 16 * 1024 * 1024;

/** More came than anybody may send. Its name is what the client makes of it. */
export class AnswerTooLarge extends Error {
  override readonly name = 'AnswerTooLarge';
}

/** At most so many bytes of a body, whatever its length says. */
export async function readBody(body: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  // Leaving the loop ends the connection that the rest would come over.
  for await (const piece of body) {
    bytes += piece.length;
    if (bytes > maxBytes) throw new AnswerTooLarge();
    pieces.push(piece);
  }
  return Buffer.concat(pieces, bytes);
}

/** The same for who reads the stream to its end by himself. */
export function limitBytes(body: Readable, maxBytes: number): Readable {
  let bytes = 0;
  const limited = new Transform({
    transform(piece: Buffer, _encoding, done) {
      bytes += piece.length;
      if (bytes > maxBytes) done(new AnswerTooLarge());
      else done(null, piece);
    },
  });
  // Ends the connection with the reading, and the reading with the connection.
  pipeline(body, limited, () => {});
  return limited;
}
