import { join } from 'node:path';
import { cacheFolder, ensureFolder } from './cache.ts';
import { findJava } from './kafka-jars.ts';
import { FAST_JVM } from './kafka-node.ts';
import { type LocalProgram, type LocalServer, startLocalServer } from './local-server.ts';
import { unpackFromMaven } from './maven.ts';
import { Unavailable } from './unavailable.ts';

const VERSION = '2.6.13.Final';
const ARTIFACT = `io.apicurio:apicurio-registry-app:${VERSION}:tar.gz:all`;
/** Where Apicurio has the API of Confluent's registry. */
export const schemaRegistryApi = '/apis/ccompat/v7';

/** A registry with the API of Confluent. */
export interface SchemaRegistryServer {
  /** Base of the API. */
  readonly url: string;
  /** `null` for the one named by SCHEMA_REGISTRY_URL: it is not ours to stop. */
  readonly local: LocalServer | null;
}

export function schemaRegistryFromEnv(): string | undefined {
  return process.env.SCHEMA_REGISTRY_URL?.trim().replace(/\/+$/, '') || undefined;
}

/** The registry named by SCHEMA_REGISTRY_URL, after it has answered; `null` when unset. Throws {@link Unavailable}. */
export async function useGivenSchemaRegistry(): Promise<SchemaRegistryServer | null> {
  const url = schemaRegistryFromEnv();
  if (url === undefined) return null;
  const problem = await schemaRegistryProblem(url);
  if (problem === null) return { url, local: null };
  throw new Unavailable(
    `SCHEMA_REGISTRY_URL names ${url}, where no registry answers: ${problem}`,
    'start that server, or unset SCHEMA_REGISTRY_URL',
  );
}

/** The folder of Apicurio, fetched once (110 MB); `lib` in it holds Avro for Java as well. Throws {@link Unavailable}. */
export function ensureSchemaRegistry(log: (line: string) => void): Promise<string> {
  return ensureFolder(cacheFolder(`apicurio-${VERSION}`), async (temporary) => {
    await findJava();
    log(`Apicurio Registry ${VERSION}: fetching it from Maven Central (110 MB, once)`);
    await unpackFromMaven(temporary, ARTIFACT, ['lib/*', '*.jar']);
    log(`Apicurio Registry ${VERSION}: ready`);
  });
}

/** Starts Apicurio with its schemas in memory. Throws {@link Unavailable}. */
export async function startSchemaRegistryServer(
  options: { keep?: boolean; log?: (line: string) => void } = {},
): Promise<SchemaRegistryServer> {
  const folder = await ensureSchemaRegistry(options.log ?? (() => {}));
  const local = await startLocalServer(apicurioProgram(await findJava(), folder), options.keep);
  return { url: `${local.address}${schemaRegistryApi}`, local };
}

function apicurioProgram(java: string, lib: string): LocalProgram {
  return {
    name: 'schema-registry',
    async prepare(folder, port) {
      const settings = [
        'quarkus.http.host=127.0.0.1',
        `quarkus.http.port=${port}`,
        'registry.storage.kind=mem',
        `svc.folder=${folder}`,
      ];
      const path = [join(lib, 'lib', '*'), join(lib, `apicurio-registry-app-${VERSION}-runner.jar`)].join(
        ':',
      );
      const jvm = ['-Xmx512m', ...FAST_JVM, ...settings.map((setting) => `-D${setting}`), '-cp', path];
      return { program: java, args: [...jvm, 'io.quarkus.runner.GeneratedMain'] };
    },
    address: (port) => `http://127.0.0.1:${port}`,
    isReady: (address) => schemaRegistryProblem(`${address}${schemaRegistryApi}`),
    portTaken: /port .* (?:is )?already in use|address already in use/i,
  };
}

/** Why a registry cannot be used, `null` when it answers. */
export async function schemaRegistryProblem(url: string): Promise<string | null> {
  try {
    const answer = await fetch(`${url}/subjects`, { signal: AbortSignal.timeout(3_000) });
    return answer.ok ? null : `it answers ${answer.status}`;
  } catch (error) {
    return (error as Error).message;
  }
}
