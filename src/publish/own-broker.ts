import { inTime } from '../ground/clock.ts';
import { SvcError } from '../ground/errors.ts';
import { clientNames } from '../ground/management.ts';
import { ownParts } from '../ground/own-parts.ts';
import { logger } from '../observe/logger.ts';
import { sendFailureKinds } from '../observe/outcomes.ts';
import type { Broker, SendFailure, SendResult } from './broker.ts';

/** Settings for the broker of an application. It uses those it needs. */
export interface OwnBrokerSettings {
  /** `svc.broker.bootstrap-servers`; may be empty. */
  readonly bootstrapServers: readonly string[];
  /** `svc.broker.client-id` */
  readonly clientId: string;
  /** `svc.broker.request-timeout-ms`. A send that takes longer has failed, whatever its result. */
  readonly requestTimeoutMs: number;
  /** `svc.broker.connection-timeout-ms` */
  readonly connectionTimeoutMs: number;
  /** Writes to svc's log. */
  readonly logger: {
    info(message: string): void;
    warn(message: string): void;
    error(message: string): void;
  };
}

export type BrokerFactory = (settings: OwnBrokerSettings) => Broker | Promise<Broker>;

const factories = ownParts<BrokerFactory>({
  registration: 'registerBroker',
  reserved: clientNames,
  code: 'SVC_PUBLISH_BROKER',
});

/**
 * Registers a broker for `svc.broker.client: <name>`. svc calls `factory` once, at the first use, and waits up to 10 s for the
 * registration. Test it with `brokerContract` of `svc/testing`, which svc's own brokers pass. Commands (`svc backup restore`, `svc
 * relay`) find it if the configuration is a module that registers it. Returns a function that removes it.
 *
 * @throws SvcError `SVC_PUBLISH_BROKER` when the name is taken or invalid, or `factory` is not a function
 */
export function registerBroker(name: string, factory: BrokerFactory): () => void {
  if (typeof factory !== 'function')
    throw new SvcError('SVC_PUBLISH_BROKER', 'registerBroker() takes a function that returns a broker');
  return factories.register(name, factory);
}

type Given = Omit<OwnBrokerSettings, 'bootstrapServers' | 'logger'> & { readonly brokers: readonly string[] };

/** Waits for its registration. Rejects when none comes, or when the object is not a broker. */
export async function openOwnBroker(
  name: string,
  { brokers, clientId, requestTimeoutMs, connectionTimeoutMs }: Given,
): Promise<Broker> {
  const factory = await factories.wait(name).catch((error: Error) => {
    // Callers report another reason, because events have gone to the next tier meanwhile.
    logger.error(`broker: ${error.message}`);
    throw error;
  });
  const broker = await factory({
    ...{ bootstrapServers: brokers, clientId, requestTimeoutMs, connectionTimeoutMs, logger },
  });
  const missing = (['connect', 'send', 'partitionsFor', 'describe', 'close'] as const).find(
    (method) => typeof broker?.[method] !== 'function',
  );
  if (missing !== undefined)
    throw new SvcError('SVC_PUBLISH_BROKER', `"${name}" is not a broker: it has no function ${missing}`);
  return guarded(name, broker, requestTimeoutMs);
}

/** Enforces the port's contract on foreign code: an answer in time, of the right shape, and no exception. */
function guarded(name: string, broker: Broker, limitMs: number): Broker {
  const failed = (kind: SendFailure['kind'], cause: string, what: string): SendResult => {
    return { ok: false, failure: { kind, cause, message: `the broker client "${name}" ${what}` } };
  };
  async function settle(use: () => Promise<SendResult>): Promise<SendResult> {
    const late = (): SendResult =>
      failed('unknown_outcome', 'REQUEST_TIMED_OUT', `has not answered within ${limitMs} ms`);
    try {
      const result = await inTime(use(), { limitMs, keepsAlive: false, late });
      return isResult(result) ? result : failed('fatal', 'NotASendResult', 'gave an invalid answer');
    } catch (error) {
      // Its message may contain anything.
      const cause = error instanceof Error ? error.name : 'Error';
      return failed('fatal', cause, `threw (${cause}): send and connect must resolve with the failure`);
    }
  }
  return {
    ...{ name, traffic: broker.traffic?.bind(broker), unref: broker.unref?.bind(broker) },
    heldBack: broker.heldBack?.bind(broker),
    connect: () => settle(async () => broker.connect()),
    send: (topic, partition, records) => settle(async () => broker.send(topic, partition, records)),
    partitionsFor: async (topic) => broker.partitionsFor(topic),
    describe: async () => broker.describe(),
    close: async (deadlineMs) => broker.close(deadlineMs),
  } as Broker;
}

const kinds: ReadonlySet<unknown> = new Set(sendFailureKinds);

function isResult(result: unknown): result is SendResult {
  const { ok, failure } = (result ?? {}) as { ok?: unknown; failure?: Partial<SendFailure> };
  if (ok === true) return true;
  return ok === false && kinds.has(failure?.kind) && typeof failure?.message === 'string';
}
