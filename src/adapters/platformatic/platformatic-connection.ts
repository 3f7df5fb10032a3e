import { systemClock } from '../../ground/clock.ts';
import type { KafkaClientOptions } from '../kafka/kafka-client-options.ts';
import type {
  PlatformaticModule,
  VendorApi,
  VendorConnection,
  VendorWriter,
} from '../kafka/platformatic-module.ts';
import type { Certificates } from '../kafka/read-certificates.ts';
import { flexibleFrom, newestProduce, type Produce, produceBody } from '../kafka/records/produce-request.ts';
import type { SignIn } from './platformatic-sign-in.ts';
import { withUnheldTimers } from './unheld-timers.ts';

export interface Address {
  readonly host: string;
  readonly port: number;
}

/** What went wrong between us and one broker. The error of the package is the cause. */
export class BrokerError extends Error {
  readonly broker: string;

  constructor(broker: string, cause: unknown) {
    super('a request to Kafka failed', { cause });
    this.broker = broker;
  }
}

/** A connection to one broker, signed in, which has told what requests it understands. */
export interface BrokerConnection {
  /** On the monotonic clock. */
  readonly openedAtMs: number;
  /** Whether it is there, and the broker lets it live for a while. */
  isUsable(): boolean;
  /** Rejects with a {@link BrokerError}, as `produce` does. */
  metadata<T>(topics: readonly string[], mayCreate: boolean): Promise<T>;
  produce(produce: Produce): Promise<void>;
  /** A request by its name in Kafka's protocol, in the newest version that both sides know. */
  request<T>(name: string, ...parameters: readonly unknown[]): Promise<T>;
  /** At once: requests under way fail. */
  destroy(): void;
  /** When no request is under way any more. */
  retire(): void;
}

export interface ConnectionSettings {
  readonly vendor: PlatformaticModule;
  readonly options: KafkaClientOptions;
  readonly certificates: Certificates | undefined;
  readonly signIn: (() => Promise<SignIn>) | undefined;
}

interface Versions {
  readonly apiKeys: readonly { name: string; minVersion: number; maxVersion: number }[];
}

const ignore = (): void => {};
/** svc says how many sends are under way at once; what waited in the client could not be told from what was sent. */
const withoutLimit = 1_000_000;
const keepAliveMs = 60_000;
/** Of a session the broker limits: then the next request opens another connection. */
const partOfLife = 0.8;

/** Rejects with a {@link BrokerError}. `signal` ends the attempt, at once. */
export async function openConnection(
  { vendor, options, certificates, signIn }: ConnectionSettings,
  { host, port }: Address,
  signal: AbortSignal,
): Promise<BrokerConnection> {
  const broker = `${host}:${port}`;
  const signedIn = await signIn?.();
  const connection = new vendor.Connection(options.clientId, {
    connectTimeout: options.connectionTimeoutMs,
    requestTimeout: options.requestTimeoutMs,
    maxInflights: withoutLimit,
    ...(certificates && { tls: certificates() }),
    ...(signedIn && { sasl: signedIn.sasl }),
  });
  // An error event that nobody hears ends the process. What it says comes back from the request as well.
  connection.on('error', ignore);
  let apis: { readonly produce: VendorApi; readonly metadata: VendorApi };
  let versions: Versions;

  const destroy = (): void => {
    connection.socket?.destroy();
    // While it connects, nobody else hears of that.
    connection.emit('error', new Error('closed by svc'));
  };

  const unheld = (work: () => void): void => withUnheldTimers(work, (line) => options.logger.warn(line));
  const call = <T>(api: VendorApi, parameters: readonly unknown[]): Promise<T> =>
    new Promise<T>((resolve, reject) => {
      unheld(() =>
        api.api(connection, ...parameters, (error: Error | null, answer: T) => {
          if (error === null) resolve(answer);
          else reject(new BrokerError(broker, error));
        }),
      );
    });

  signal.addEventListener('abort', destroy);
  try {
    signal.throwIfAborted();
    await connect(connection, host, port);
    versions = await askVersions(vendor, call);
    const produce = newest(vendor, 'Produce', versions, newestProduce);
    apis = { produce, metadata: newest(vendor, 'Metadata', versions) };
  } catch (error) {
    destroy();
    throw error instanceof BrokerError ? error : new BrokerError(broker, error);
  } finally {
    signal.removeEventListener('abort', destroy);
  }
  const lifetimeMs = (signedIn?.lifetimeMs() ?? 0) * partOfLife;
  const endsAtMs = lifetimeMs > 0 ? systemClock.monotonic() + lifetimeMs : Number.POSITIVE_INFINITY;
  let underWay = 0;
  let isRetired = false;
  async function counted<T>(work: Promise<T>): Promise<T> {
    underWay++;
    try {
      return await work;
    } finally {
      underWay--;
      if (isRetired && underWay === 0) destroy();
    }
  }
  return {
    openedAtMs: systemClock.monotonic(),
    isUsable: () => connection.isConnected() && systemClock.monotonic() < endsAtMs,
    metadata: (topics, mayCreate) => counted(call(apis.metadata, [topics, mayCreate, false])),
    request: async (name, ...parameters) => counted(call(newest(vendor, name, versions), parameters)),
    retire() {
      isRetired = true;
      if (underWay === 0) destroy();
    },
    produce(produce) {
      const { api, parseResponse } = apis.produce;
      const isFlexible = api.version >= flexibleFrom;
      const sent = new Promise<void>((resolve, reject) => {
        const write = (): VendorWriter => {
          const [before, after] = produceBody(api.version, produce);
          const writer = vendor.Writer.create().append(before).append(produce.batch).append(after);
          writer.context.noResponse = produce.acks === 0;
          return writer;
        };
        unheld(() =>
          connection.send(api.key, api.version, write, parseResponse, isFlexible, isFlexible, (error) => {
            if (error === null) resolve();
            else reject(new BrokerError(broker, error));
          }),
        );
      });
      return counted(sent);
    },
    destroy,
  };
}

function connect(connection: VendorConnection, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    try {
      connection.connect(host, port, (error) => {
        if (error === null) resolve();
        else reject(error);
      });
    } catch (error) {
      // Certificates that cannot be used.
      reject(error);
    }
    const { socket } = connection;
    // The package listens for the first error of a socket that connects, and TLS has several.
    socket?.on('error', ignore);
    // An idle connection does not keep the process alive.
    socket?.unref();
    socket?.setKeepAlive(true, keepAliveMs);
  });
}

type Call = <T>(api: VendorApi, parameters: readonly unknown[]) => Promise<T>;

async function askVersions(vendor: PlatformaticModule, call: Call): Promise<Versions> {
  const ask = (version: number): Promise<Versions> =>
    call(vendor[`apiVersionsV${version}`] as VendorApi, ['svc', '1']);
  try {
    return await ask(3);
  } catch (error) {
    // Kafka before 2.4 knows no third version, and says so.
    const refused = (error as BrokerError).cause as { errors?: { apiId?: string }[] };
    if (refused.errors?.[0]?.apiId !== 'UNSUPPORTED_VERSION') throw error;
    return ask(1);
  }
}

/** The newest version that both sides know, up to `limit`. */
function newest(
  vendor: PlatformaticModule,
  name: string,
  { apiKeys }: Versions,
  limit = Number.POSITIVE_INFINITY,
): VendorApi {
  const { minVersion, maxVersion } = apiKeys.find((api) => api.name === name) ?? {
    minVersion: 0,
    maxVersion: -1,
  };
  for (let version = Math.min(maxVersion, limit); version >= minVersion; version--) {
    const found = vendor[`${name.charAt(0).toLowerCase()}${name.slice(1)}V${version}`];
    if (found !== undefined) return found as VendorApi;
  }
  throw new Error(`@platformatic/kafka and this Kafka have no version of ${name} in common`);
}
