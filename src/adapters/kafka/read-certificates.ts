import { readFile } from 'node:fs/promises';
import { type ConnectionOptions, createSecureContext } from 'node:tls';
import { SvcError } from '../../errors.ts';
import type { KafkaTlsOptions } from './kafka-client-options.ts';

/** What Node's TLS asks for. Rejects with an `SvcError` that names the setting of a file that cannot be read or used. */
export async function readCertificates(tls: KafkaTlsOptions): Promise<ConnectionOptions> {
  const [ca, cert, key] = await Promise.all([
    readPem('ca-file', tls.caFile),
    readPem('cert-file', tls.certFile),
    readPem('key-file', tls.keyFile),
  ]);
  checkUse({ ca, cert, key });
  return {
    ...(ca && { ca }),
    ...(cert && { cert }),
    ...(key && { key }),
    ...(tls.serverName !== undefined && { servername: tls.serverName }),
  };
}

/** Said here, where it is sure to be these files, and not by whatever opens a connection. */
function checkUse(files: Record<'ca' | 'cert' | 'key', Buffer | undefined>): void {
  try {
    createSecureContext(files);
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'unusable';
    throw new SvcError(
      'SVC_ADAPTERS_TLS_FILE',
      `the files in svc.broker.tls cannot be used (${reason}): check ca-file, and that cert-file and key-file belong together`,
    );
  }
}

async function readPem(setting: string, file: string | undefined): Promise<Buffer | undefined> {
  if (file === undefined) return undefined;
  try {
    return await readFile(file);
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'unreadable';
    throw new SvcError(
      'SVC_ADAPTERS_TLS_FILE',
      `cannot read "${file}" (${reason}): check svc.broker.tls.${setting}`,
    );
  }
}
