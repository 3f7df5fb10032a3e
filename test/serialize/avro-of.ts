import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/read/load.ts';
import { createEnvelopes } from '../../src/envelope/envelope.ts';
import type { Logger } from '../../src/observe/logger.ts';
import type { ProtectedEnvelope } from '../../src/protect/protect.ts';
import { type AvroSchema, openAvro } from '../../src/serialize/avro/avro.ts';
import type { SchemaRegistry } from '../../src/serialize/avro/schema-registry.ts';
import type { EventValue } from '../../src/serialize/serializer.ts';
import { temporaryFolder } from '../support/folders.ts';
import { silentLog, useLogger } from '../support/log.ts';

let loaded: Config | undefined;
let folder: string | undefined;
let files = 0;

/** A configuration for Avro, with the schemas of typed payloads in files. */
export function avroConfig(
  schemas: Readonly<Record<string, AvroSchema | undefined>> = {},
  serde: Partial<Config['serde']> = {},
  outbox: Partial<Config['outbox']> = {},
): Config {
  const svc = { broker: { topic: 't' }, serde: { type: 'AVRO', schemaRegistryUrl: 'http://registry' } };
  loaded ??= loadConfig({ env: {}, code: { svc } }).config;
  const config = loaded;
  const names = Object.entries(schemas).flatMap(([eventType, schema]) => {
    if (schema === undefined) return [];
    folder ??= temporaryFolder('avro');
    const file = join(folder, `${files++}.avsc`);
    writeFileSync(file, JSON.stringify(schema));
    return [[eventType, [file]]];
  });
  return {
    ...config,
    serde: { ...config.serde, schemas: Object.fromEntries(names), ...serde },
    outbox: { ...config.outbox, ...outbox },
  };
}

interface AvroParts {
  readonly config?: Config;
  readonly registry?: Partial<SchemaRegistry>;
  readonly logger?: Logger;
}

/** Avro over a registry that gives each schema the id 7, unless it is told otherwise. */
export function avroOf({
  config = avroConfig(),
  registry,
  logger = silentLog,
}: AvroParts = {}): ReturnType<typeof openAvro> {
  const seven = {
    ...{ address: 'http://registry', register: async () => 7, lookUp: async () => 7 },
    ...{ isCompatible: async () => true, schemaOf: async () => '' },
  };
  useLogger(logger);
  return openAvro(config, { ...seven, ...registry });
}

const source = { serviceName: 'orders', serviceVersion: null, hostname: null };
const origin = { userId: 'ü', sessionId: null, correlationId: null, clientIp: null, tags: null };
const trace = { traceId: null, spanId: null, parentSpanId: null };
const build = createEnvelopes({ source, readOrigin: () => origin });

/** What `protect()` would hand on. */
export function protectedEvent(payload: unknown, rest: Partial<ProtectedEnvelope> = {}): ProtectedEnvelope {
  const envelope = build('1', { eventType: 'T', severity: 'INFO', payload }, trace, Date.UTC(2026, 10, 24));
  return { ...envelope, sealed: [], ...rest } as object as ProtectedEnvelope;
}

/** The bytes of a record that is sent now. */
export function bytesAt(nowMs: number, value: EventValue): Buffer {
  const publishedAt = value.form.publishedAt(nowMs);
  const bytes = Buffer.alloc(value.length + publishedAt.length);
  value.write(bytes, 0, publishedAt);
  return bytes;
}
