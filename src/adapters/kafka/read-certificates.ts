import { X509Certificate } from 'node:crypto';
import { type ConnectionOptions, createSecureContext } from 'node:tls';
import { SvcError } from '../../ground/errors.ts';
import { readBoundedSync } from '../../ground/files/folders.ts';
import type { Logger } from '../../observe/logger.ts';
import type { KafkaTlsOptions } from './kafka-client-options.ts';

/** Gives what Node's TLS asks for, for one connection. */
export type Certificates = () => ConnectionOptions;

/**
 * Certificates and keys are replaced while a process runs: each connection gets what the files hold by then. Synchronous, for
 * a connection is opened in one go, and those are few. Where the files cannot be read or used, or are just being replaced, the
 * last good ones stay in use, and one line says so.
 *
 * @throws SvcError that names the setting of a file that cannot be read or used the first time.
 */
export function readCertificates(tls: KafkaTlsOptions, logger: Logger): Certificates {
  let good = readOnce(tls);
  let said: string | undefined;
  return () => {
    try {
      good = readOnce(tls);
      said = undefined;
    } catch (error) {
      const reason = error instanceof SvcError ? error.message : 'the certificates cannot be read';
      if (reason !== said) logger.warn(`${reason}; the certificates that were read before stay in use`);
      said = reason;
    }
    return good;
  };
}

function readOnce(tls: KafkaTlsOptions): ConnectionOptions {
  const ca = readPem('ca-file', tls.caFile);
  const cert = readPem('cert-file', tls.certFile);
  const key = readPem('key-file', tls.keyFile);
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
    // Which takes any text for authorities, and trusts none then.
    if (files.ca !== undefined) new X509Certificate(files.ca);
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'unusable';
    throw new SvcError(
      'SVC_ADAPTERS_TLS_FILE',
      `the files in svc.broker.tls cannot be used (${reason}): check ca-file, and that cert-file and key-file belong together`,
    );
  }
}

function readPem(setting: string, file: string | undefined): Buffer | undefined {
  if (file === undefined) return undefined;
  try {
    return readBoundedSync(file);
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'unreadable';
    throw new SvcError(
      'SVC_ADAPTERS_TLS_FILE',
      `cannot read "${file}" (${reason}): check svc.broker.tls.${setting}`,
    );
  }
}
