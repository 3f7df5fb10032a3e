import { inTime } from './clock.ts';
import { type ErrorCode, SvcError } from './errors.ts';
import { shared } from './lifecycle.ts';

// parts that the application registers.

/** Implementations of the application, by the names in its configuration. */
interface OwnParts<Part> {
  /** Returns a function that removes the part. Throws an `SvcError` for an invalid or taken name. */
  register(name: string, part: Part): () => void;
  find(name: string): Part | undefined;
  /** Throws an `SvcError` if the name is not registered. */
  get(name: string): Part;
  /** svc starts before the application: waits 10 s at most for its registration, then rejects with an `SvcError`. */
  wait(name: string): Promise<Part>;
}

interface OwnPartsOptions {
  /** For messages: `registerBroker`. */
  readonly registration: string;
  readonly reserved: readonly string[];
  readonly code: ErrorCode;
}

/** As in `svc.broker.client`: the form tells the name of an application's own part from a typing error. */
export const ownName = /^[a-z][a-z0-9-]{0,31}$/;
const longestWaitMs = 10_000;

export function ownParts<Part>({ registration, reserved, code }: OwnPartsOptions): OwnParts<Part> {
  const { parts, waiting } = shared(registration, () => ({
    parts: new Map<string, Part>(),
    waiting: new Set<() => void>(),
  }));

  const missing = (name: string): never => {
    throw new SvcError(
      code,
      `nothing is registered as "${name}": call ${registration}("${name}", …) at the start of the application, or in a configuration in code`,
    );
  };

  return {
    register(name, part) {
      const refuse = (why: string): never => {
        throw new SvcError(code, `${registration}: ${why}`);
      };
      if (typeof name !== 'string' || !ownName.test(name))
        refuse('a name has at most 32 lowercase letters, digits and hyphens, and begins with a letter');
      if (reserved.includes(name)) refuse(`"${name}" is the name of a part of svc`);
      if (parts.has(name)) refuse(`"${name}" is registered already`);
      parts.set(name, part);
      for (const wake of [...waiting]) wake();
      return () => void (parts.get(name) === part && parts.delete(name));
    },
    find: (name) => parts.get(name),
    get: (name) => parts.get(name) ?? missing(name),
    wait(name) {
      let wake = (): void => {};
      const found = new Promise<Part>((resolve) => {
        wake = () => {
          const part = parts.get(name);
          if (part !== undefined) resolve(part);
        };
        waiting.add(wake);
        wake();
      });
      const late = (): never => missing(name);
      return inTime(found, { limitMs: longestWaitMs, keepsAlive: false, late }).finally(() =>
        waiting.delete(wake),
      );
    },
  };
}

/** The part of the `@aws-sdk/client-s3` client that svc uses. */
export interface OwnS3Client {
  send(command: object, options?: { abortSignal?: AbortSignal }): Promise<unknown>;
}

const own = shared<{ client: OwnS3Client | undefined }>('s3-client', () => ({ client: undefined }));

/**
 * Uses the application's own client of `@aws-sdk/client-s3` for backups, with its credentials, proxy and region. svc never
 * closes it. `svc.broker.backup.s3-bucket` and `s3-prefix` still apply. Call it before the first backup: at the start of the
 * application, or in a configuration in code, where commands find it as well. Returns a function that removes the client.
 * @throws SvcError `SVC_GROUND_BUCKET_CLIENT` for an object without a function `send`
 */
export function registerS3Client(client: OwnS3Client): () => void {
  if (typeof client?.send !== 'function')
    throw new SvcError(
      'SVC_GROUND_BUCKET_CLIENT',
      'registerS3Client() needs a client of @aws-sdk/client-s3, with send()',
    );
  own.client = client;
  return () => {
    if (own.client === client) own.client = undefined;
  };
}

export const ownS3Client = (): OwnS3Client | undefined => own.client;
