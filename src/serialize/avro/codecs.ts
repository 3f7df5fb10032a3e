import { SvcError } from '../../ground/errors.ts';
import { readBoundedSync } from '../../ground/files/folders.ts';
import { createEventCodec, type EventCodec } from './event-codec.ts';

/** As of templates: `publish()` takes any event type. */
const maxKept = 1_000;

/** `fileOf`: where the schema of a typed payload is. The codec of each event type is made once. Throws `SVC_SERIALIZE_SCHEMA` where its file holds none. */
export function createCodecs(
  fileOf: (eventType: string) => string | undefined,
): (eventType: string) => EventCodec {
  const codecs = new Map<string, EventCodec | SvcError>();
  function made(eventType: string): EventCodec | SvcError {
    const file = fileOf(eventType);
    try {
      const payload = file === undefined ? undefined : JSON.parse(readBoundedSync(file).toString());
      return createEventCodec(eventType, payload);
    } catch (error) {
      if (error instanceof SvcError) return error;
      const why = error instanceof Error ? error.message : String(error);
      return new SvcError('SVC_SERIALIZE_SCHEMA', `${file ?? eventType} holds no schema of Avro: ${why}`);
    }
  }
  return (eventType) => {
    let codec = codecs.get(eventType);
    if (codec === undefined) {
      codec = made(eventType);
      if (codecs.size < maxKept) codecs.set(eventType, codec);
    }
    if (codec instanceof SvcError) throw codec;
    return codec;
  };
}
