import type { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { SvcError } from '../../ground/errors.ts';

/** A connection of the package, as far as it is used here. */
export interface VendorConnection extends EventEmitter {
  /** Made by `connect`, at once. */
  readonly socket: Socket | undefined;
  connect(host: string, port: number, callback: (error: Error | null) => void): void;
}

export interface VendorCompression {
  readonly bitmask: number;
  readonly compress?: (data: Buffer) => Promise<Buffer>;
  readonly compressSync: (data: Buffer) => Buffer;
}

export interface VendorSasl {
  /** The last parameter is called with what the broker answered at last. */
  authenticate(...parameters: unknown[]): void;
}

/** The part of the package that is used here. */
export interface PlatformaticModule {
  readonly Connection: new (clientId: string, options: object) => VendorConnection;
  readonly saslPlain: VendorSasl;
  readonly saslScramSha: VendorSasl;
  readonly saslOAuthBearer: VendorSasl;
  readonly compressionsAlgorithms: Readonly<Record<string, VendorCompression>>;
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
