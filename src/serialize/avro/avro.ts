// avro/: envelopes as records of Avro, in the wire format of Confluent.

import { SvcError } from '../../ground/errors.ts';
import { readBoundedSync } from '../../ground/files.ts';
import type { ProtectedEnvelope } from '../../protect/protect.ts';
import { jsonForm, payloadJson, readJson, toJson } from '../json.ts';
import { type EventForm, EventValue, type Serializer, schemaHeader } from '../serializer.ts';
import {
  type AvroEvent,
  createEventCodec,
  type EventCodec,
  prefixBytes,
  prefixOf,
  timeText,
} from './event-codec.ts';
import { plainJson, typedJson } from './plain-json.ts';
import type { SchemaIds } from './schema-ids.ts';

export const avroContentType = 'application/avro';

interface AvroSerializerOptions {
  readonly codecOf: (eventType: string) => EventCodec;
  readonly ids: SchemaIds;
  /** `false`: nothing of svc sends the record later (an outbox that a connector reads), so that it cannot wait as JSON. */
  readonly mayWait: boolean;
}

/** Confluent's wire format: a magic byte, the schema's id, and the envelope as a record of Avro. */
export function createAvroSerializer({ codecOf, ids, mayWait }: AvroSerializerOptions): Serializer {
  const forms = new WeakMap<EventCodec, { readonly avro: EventForm; readonly waiting: EventForm }>();

  function formsOf(codec: EventCodec): { readonly avro: EventForm; readonly waiting: EventForm } {
    let found = forms.get(codec);
    if (found === undefined) {
      const waiting = { ...jsonForm, headers: { ...jsonForm.headers, [schemaHeader]: codec.name } };
      found = { avro: avroFormOf(codec), waiting };
      forms.set(codec, found);
    }
    return found;
  }

  return {
    serialize(envelope, record) {
      const { topic } = record;
      const codec = codecOf(envelope.template.eventType);
      // A payload that does not fit is refused, whoever has the id.
      const { head, tail } = codec.encode(eventOf(envelope, codec));
      const id = ids.known(codec, topic);
      if (id !== undefined) return new EventValue(formsOf(codec).avro, prefixOf(id) + head, [tail]);
      ids.ask(codec, topic).catch(() => {});
      if (!mayWait) throw notKnown(codec);
      return toJson(envelope, formsOf(codec).waiting, jsonOf(envelope, codec));
    },
  };
}

function avroFormOf(codec: EventCodec): EventForm {
  return {
    headers: { 'content-type': avroContentType },
    encoding: 'latin1',
    publishedAt: timeText,
    toJson: (value) => codec.decode(value.subarray(prefixBytes)),
  };
}

/** Of a typed payload so that nothing of its types is lost. */
function jsonOf(envelope: ProtectedEnvelope, { isText }: EventCodec): string {
  const { payload, sealed } = envelope;
  return isText ? payloadJson(envelope) : readJson(() => typedJson(payload, sealed));
}

function eventOf(envelope: ProtectedEnvelope, codec: EventCodec): AvroEvent {
  const { eventId, template, origin, trace, occurredAt } = envelope;
  const { userId, sessionId, correlationId, clientIp, tags } = origin;
  return {
    eventId,
    eventType: template.eventType,
    occurredAt: Date.parse(occurredAt),
    severity: template.severity,
    metadata: {
      source: template.source,
      actor: { userId, sessionId },
      trace,
      correlationId,
      clientIp,
      tags: tags ?? {},
    },
    payload: {
      json: () => jsonOf(envelope, codec),
      plain: () => plainJson(envelope.payload, envelope.sealed),
    },
  };
}

/** The end of the metadata and the start of the payload: quotes in the texts before it are escaped, so the first hit is it. */
const payloadAt = '}},"payload":';

/** The record of Avro out of the JSON that waited for the schema's id. Throws an `SvcError` where it is not that. */
export function fromWaiting(codec: EventCodec, id: number, json: Buffer): Buffer {
  const text = json.toString();
  const at = text.indexOf(payloadAt);
  let document: Readonly<Record<string, unknown>>;
  try {
    document = JSON.parse(`${text.slice(0, at + 2)}}`);
  } catch {
    throw new SvcError('SVC_SERIALIZE_SCHEMA_MISFIT', 'what waited for its schema is no envelope');
  }
  const { occurredAt, publishedAt } = document as { occurredAt: string; publishedAt: string };
  const { head, tail } = codec.encode({
    ...(document as unknown as AvroEvent),
    occurredAt: Date.parse(occurredAt),
    // As it was written: a parsed number could lose digits.
    payload: { json: () => text.slice(at + payloadAt.length, -1) },
  });
  return Buffer.from(prefixOf(id) + head + timeText(Date.parse(publishedAt)) + tail, 'latin1');
}

function notKnown({ name }: EventCodec): SvcError {
  return new SvcError(
    'SVC_SERIALIZE_REGISTRY_AWAY',
    `the schema registry has not told the id of ${name} yet, and a connector that reads the outbox cannot wait for it`,
  );
}

/** The parts of a record in Confluent's wire format. Throws `SVC_SERIALIZE_NOT_AVRO` for what is none. */
export function splitRecord(value: Buffer): { readonly id: number; readonly body: Buffer } {
  if (value.length < prefixBytes || value[0] !== 0)
    throw new SvcError(
      'SVC_SERIALIZE_NOT_AVRO',
      'it does not begin with a magic byte 0 and the id of a schema',
    );
  return { id: value.readUInt32BE(1), body: value.subarray(prefixBytes) };
}

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
