import {
  type SchemaRegistryServer,
  startSchemaRegistryServer,
  useGivenSchemaRegistry,
} from '../../scripts/services/schema-registry.ts';

export interface TestRegistry {
  /** Base of Confluent's API. */
  readonly url: string;
  /** Any call of the API; the body of the answer. Throws unless the status is 2xx. */
  call(method: string, path: string, body?: object): Promise<unknown>;
}

/** A registry that a test may hurt. */
export interface OwnRegistry extends TestRegistry {
  /** Freezes it: connections stay open and nothing answers, until `resume`. */
  pause(): Promise<void>;
  resume(): void;
  /** Ends it, and its schemas with it. */
  kill(): Promise<void>;
  /** Starts it again on the same port, empty. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

const log = (line: string): void => console.error(line);
let shared: Promise<SchemaRegistryServer> | undefined;
const own = new Set<SchemaRegistryServer>();

/** The registry that all suites of this run share: the one of SCHEMA_REGISTRY_URL, or one that is started at the first call. */
export async function startSchemaRegistry(): Promise<TestRegistry> {
  shared ??= useGivenSchemaRegistry().then((given) => given ?? startSchemaRegistryServer({ log }));
  return testRegistry((await shared).url);
}

export async function startOwnSchemaRegistry(): Promise<OwnRegistry> {
  const server = await startSchemaRegistryServer({ log });
  const { local, url } = server;
  if (local === null) throw new Error('a registry of its own is local');
  own.add(server);
  return {
    ...testRegistry(url),
    pause: local.pause,
    resume: local.resume,
    kill: local.kill,
    restart: local.restart,
    async stop() {
      own.delete(server);
      await local.stop();
    },
  };
}

function testRegistry(url: string): TestRegistry {
  return {
    url,
    async call(method, path, body) {
      const answer = await fetch(`${url}${path}`, {
        method,
        headers: { 'content-type': 'application/vnd.schemaregistry.v1+json' },
        ...(body && { body: JSON.stringify(body) }),
      });
      const text = await answer.text();
      if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
      return text === '' ? undefined : JSON.parse(text);
    },
  };
}

// At the end of the run, whoever used it first.
if (typeof after === 'function') {
  after('stop the schema registries', async () => {
    const started = [...own, await shared?.catch(() => undefined)];
    await Promise.all(started.map((server) => server?.local?.stop()));
  });
}
