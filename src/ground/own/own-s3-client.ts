import { SvcError } from '../errors.ts';
import { shared } from '../lifecycle.ts';

/** The part of the client of `@aws-sdk/client-s3` that svc uses. */
export interface OwnS3Client {
  send(command: object, options?: { abortSignal?: AbortSignal }): Promise<unknown>;
}

const own = shared<{ client: OwnS3Client | undefined }>('s3-client', () => ({ client: undefined }));

/**
 * Gives svc the application's own client of `@aws-sdk/client-s3` for its backups, with credentials, proxy or region of its own;
 * svc never ends it. `svc.broker.backup.s3-bucket` and `s3-prefix` hold as before. To be called before the first backup: at the
 * start of the application, or in a configuration in code, where commands find it as well. Returns the way to take it out again.
 *
 * @throws SvcError `SVC_GROUND_BUCKET_CLIENT` for what has no function `send`.
 */
export function registerS3Client(client: OwnS3Client): () => void {
  if (typeof client?.send !== 'function')
    throw new SvcError(
      'SVC_GROUND_BUCKET_CLIENT',
      'registerS3Client: a client of @aws-sdk/client-s3 has send()',
    );
  own.client = client;
  return () => {
    if (own.client === client) own.client = undefined;
  };
}

export const ownS3Client = (): OwnS3Client | undefined => own.client;
