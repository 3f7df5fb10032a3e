import type { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { SvcError } from '../../ground/errors.ts';

export interface VendorConnection extends EventEmitter {
  /** Set by `connect`, synchronously. */
  readonly socket: Socket | undefined;
  connect(host: string, port: number, callback: (error: Error | null) => void): void;
}

export interface VendorCompression {
  readonly bitmask: number;
  readonly compress?: (data: Buffer) => Promise<Buffer>;
  readonly compressSync: (data: Buffer) => Buffer;
}

interface VendorSasl {
  /** The last parameter is called with the broker's last answer. */
  authenticate(...parameters: unknown[]): void;
}

export interface PlatformaticModule {
  readonly Connection: new (clientId: string, options: object) => VendorConnection;
  readonly saslPlain: VendorSasl;
  readonly saslScramSha: VendorSasl;
  readonly saslOAuthBearer: VendorSasl;
  readonly compressionsAlgorithms: Readonly<Record<string, VendorCompression>>;
}

// A variable: type checkers and bundlers must not require an optional peer.
const packageName: string = '@platformatic/kafka';

/** Rejects with an `SvcError` that says how to install it. `user`: the feature that needs it. */
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
