import type { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { SvcError } from '../../ground/errors.ts';

/** A connection of the package, as far as it is used here. */
export interface VendorConnection extends EventEmitter {
  /** Made by `connect`, at once. */
  readonly socket: Socket | undefined;
  isConnected(): boolean;
  connect(host: string, port: number, callback: (error: Error | null) => void): void;
  send(
    apiKey: number,
    version: number,
    createPayload: () => VendorWriter,
    parseAnswer: unknown,
    isRequestFlexible: boolean,
    isAnswerFlexible: boolean,
    callback: (error: Error | null, answer: unknown) => void,
  ): void;
}

export interface VendorWriter {
  readonly context: { noResponse?: boolean };
  append(bytes: Buffer): VendorWriter;
}

export interface VendorCompression {
  readonly bitmask: number;
  readonly compress?: (data: Buffer) => Promise<Buffer>;
  readonly compressSync: (data: Buffer) => Buffer;
  readonly decompressSync: (data: Buffer) => Buffer;
}

/** One request of Kafka's protocol in one version. */
export interface VendorApi {
  readonly api: {
    (connection: VendorConnection, ...parameters: unknown[]): void;
    readonly key: number;
    readonly version: number;
  };
  readonly parseResponse: unknown;
}

export interface VendorSasl {
  /** The last parameter is called with what the broker answered at last. */
  authenticate(...parameters: unknown[]): void;
}

/** The part of the package that is used here, besides its requests: `produceV11` and the like. */
export interface PlatformaticModule {
  readonly Connection: new (clientId: string, options: object) => VendorConnection;
  readonly saslPlain: VendorSasl;
  readonly saslScramSha: VendorSasl;
  readonly saslOAuthBearer: VendorSasl;
  readonly Writer: { create(): VendorWriter };
  readonly murmur2: (data: Buffer) => number;
  readonly compressionsAlgorithms: Readonly<Record<string, VendorCompression>>;
  readonly [name: string]: unknown;
}

// Not written into the import: the package is an optional peer, which type checkers and bundlers must not insist on.
const packageName: string = '@platformatic/kafka';

/** Rejects with an `SvcError` that says how to install it. `user`: what needs it. */
export async function loadPlatformatic(user: string): Promise<PlatformaticModule> {
  try {
    return (await import(packageName)) as PlatformaticModule;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const missing = code === 'ERR_MODULE_NOT_FOUND' && message.includes(`'${packageName}'`);
    throw new SvcError(
      'SVC_ADAPTERS_PACKAGE_MISSING',
      missing
        ? `${user} needs the package ${packageName}, which is not installed: npm install ${packageName}`
        : `the package ${packageName} could not be loaded (${code ?? message.split('\n')[0]})`,
    );
  }
}
