// wire/: what svc changes in kafkajs: how its own records are written, when requests are sent, codecs, metadata.

import type { Message } from 'kafkajs';
import { shared } from '../../../ground/lifecycle.ts';
import type { Logger } from '../../../observe/logger.ts';
import type { BrokerRecord } from '../../../publish/broker.ts';
import { produceBody } from '../../kafka/records/produce-request.ts';
import {
  type Compression,
  encodeCompressedBatch,
  encodeRecordBatch,
} from '../../kafka/records/record-batch.ts';
import { knownVersion, sayUnknown, versionOfKafkajs } from '../known-kafkajs.ts';
import { frameRoom, type KafkajsEncoder, patchEncoder, RequestFrame } from './request-frame.ts';

/** Records that travel through kafkajs as one message, and are encoded by svc when the request is written. */
export interface Load {
  readonly records: readonly BrokerRecord[];
  readonly compression: Compression | undefined;
  /** Called right before they are written to a connected broker. */
  readonly onEncode: () => void;
}

/** Across copies of this package: whoever patched kafkajs has to know the messages of the others. */
const loadOf: unique symbol = Symbol.for('svc.kafkajs.load');

type Carrier = Message & { readonly [loadOf]?: Load };

/** What of kafkajs' class for one broker is used here. */
interface KafkajsBroker {
  produce(options: ProduceOptions): Promise<unknown>;
  lookupRequest(apiKey: number, definition: unknown): (options: ProduceOptions) => Protocol;
  [send: symbol]: (protocol: Protocol) => Promise<unknown>;
}

interface ProduceOptions {
  readonly acks: number;
  readonly timeout: number;
  readonly topicData: readonly {
    readonly topic: string;
    readonly partitions: readonly { readonly partition: number; readonly messages: readonly Carrier[] }[];
  }[];
}

interface Protocol {
  readonly request: { readonly apiVersion: number; encode(): Promise<unknown> };
}

const produceKey = 0;

/**
 * kafkajs makes a buffer of half a kilobyte for every header and every record, copies each batch six times, and groups the
 * messages of a send in quadratic time. Here one message carries a whole batch through it, to the one place where its bytes
 * are needed: the same bytes, for a fifth of the work. Resolves with `false`, and says so, where this kafkajs is not the known one.
 */
export async function patchProduce(
  logger?: Logger,
  parts: () => Promise<Parts> = installed,
): Promise<boolean> {
  let version: string | undefined;
  try {
    const found = await parts();
    version = found.version;
    const { prototype, requests, encoder } = found;
    if (version !== knownVersion) throw new Error('another version');
    if (typeof prototype.produce !== 'function' || typeof encoder.writeEncoder !== 'function')
      throw new Error('other methods');
    const patched = shared('kafkajs-brokers', () => new WeakSet<object>());
    if (patched.has(prototype)) return true;
    const send = Object.getOwnPropertySymbols(prototype).find(({ description }) =>
      description?.endsWith('sendRequest'),
    );
    if (send === undefined || requests.Produce === undefined) throw new Error('another way to send');
    patchEncoder(encoder);
    patch(prototype, send, requests.Produce);
    patched.add(prototype);
    return true;
  } catch {
    sayUnknown(logger, version, 'each record goes through it by itself, which takes more CPU and memory');
    return false;
  }
}

/** What of the kafkajs that is installed is changed here. */
interface Parts {
  readonly version: string | undefined;
  readonly prototype: KafkajsBroker;
  readonly requests: { readonly Produce: unknown };
  readonly encoder: KafkajsEncoder;
}

async function installed(): Promise<Parts> {
  const [version, prototype, requests, encoder] = await Promise.all([
    versionOfKafkajs(),
    brokerPrototype(),
    allRequests(),
    encoderPrototype(),
  ]);
  return { version, prototype, requests, encoder };
}

/** kafkajs throws a TypeError when it encodes this: a carrier that lost its load is never stored as a record. */
const unencodable = Object.freeze({}) as unknown as Buffer;

/** The one message to send for all records of a partition. */
export function toCarrier(partition: number, load: Load): Message {
  const carrier: Carrier = { partition, value: unencodable, [loadOf]: load };
  return carrier;
}

function patch(prototype: KafkajsBroker, send: symbol, definition: unknown): void {
  const { produce } = prototype;

  prototype.produce = function (options) {
    // What the application itself sends goes through here as well.
    const data = options?.topicData?.[0];
    const part = data?.partitions?.[0];
    const load = part?.messages?.[0]?.[loadOf];
    if (data === undefined || part === undefined || load === undefined) return produce.call(this, options);
    const protocol = this.lookupRequest(produceKey, definition)(options);
    const { apiVersion } = protocol.request;
    if (apiVersion < 3) return Promise.reject(new Error('this broker is too old'));
    const encode = async (): Promise<unknown> => {
      load.onEncode();
      const { acks, timeout: timeoutMs } = options;
      const { records, compression } = load;
      const batch = compression
        ? await encodeCompressedBatch(records, compression, frameRoom)
        : encodeRecordBatch(records, frameRoom);
      const { topic, partition } = { ...data, ...part };
      // What would come behind the batch is of versions that this kafkajs does not know.
      const [before] = produceBody(apiVersion, { topic, partition, acks, timeoutMs, batch });
      return new RequestFrame(batch, frameRoom).behind(before);
    };
    return (this[send] as KafkajsBroker[symbol]).call(this, {
      ...protocol,
      request: { ...protocol.request, encode },
    });
  };
}

async function brokerPrototype(): Promise<KafkajsBroker> {
  // @ts-expect-error kafkajs has no types for its inner modules.
  return (await import('kafkajs/src/broker/index.js')).default.prototype;
}

async function allRequests(): Promise<{ readonly Produce: unknown }> {
  // @ts-expect-error kafkajs has no types for its inner modules.
  return (await import('kafkajs/src/protocol/requests/index.js')).default.requests;
}

async function encoderPrototype(): Promise<KafkajsEncoder> {
  // @ts-expect-error kafkajs has no types for its inner modules.
  return (await import('kafkajs/src/protocol/encoder.js')).default.prototype;
}
