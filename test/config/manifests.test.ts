import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import fastify, { type FastifyInstance } from 'fastify';
import { loadAll } from 'js-yaml';
import { loadConfig } from '../../src/config/read/load.ts';
import { options, variableOf } from '../../src/config/schema/schema.ts';
import { folderWith, lines, removeFolders } from './config-folder.ts';

type Json = Record<string, unknown>;

/** The parts of Kubernetes' API that the page uses, and nothing else: a name that is misspelt is refused. */
function only(properties: Json, required: string[] = Object.keys(properties)): Json {
  return { type: 'object', additionalProperties: false, properties, required };
}

const text = { type: 'string', minLength: 1 };
const count = { type: 'integer', minimum: 1 };
const labels = { type: 'object', minProperties: 1, additionalProperties: text };
/** What the downward API gives as an environment variable, of metadata. */
const fieldPath = {
  type: 'string',
  pattern: "^metadata\\.(name|namespace|uid|(labels|annotations)\\['[a-z.-]+/[a-z-]+'\\])$",
};
const fieldRef = only({ fieldPath });
const variable = {
  type: 'object',
  oneOf: [only({ name: text, value: text }), only({ name: text, valueFrom: only({ fieldRef }) })],
};
const container = only({ name: text, image: text, env: { type: 'array', items: variable } });
const containers = { type: 'array', minItems: 1, items: container };
const selector = only({ matchLabels: labels });
const template = only({ metadata: only({ labels }), spec: only({ containers }) });
const jobTemplate = only({ spec: only({ restartPolicy: { enum: ['Never', 'OnFailure'] }, containers }) });

function manifest(apiVersion: string, kind: string, spec: Json): Json {
  return only({
    apiVersion: { const: apiVersion },
    kind: { const: kind },
    metadata: only({ name: text }),
    spec,
  });
}

const schema = {
  oneOf: [
    manifest('apps/v1', 'Deployment', only({ replicas: count, selector, template })),
    manifest('apps/v1', 'StatefulSet', only({ serviceName: text, replicas: count, selector, template })),
    manifest(
      'batch/v1',
      'Job',
      only({
        completionMode: { const: 'Indexed' },
        completions: count,
        parallelism: count,
        template: jobTemplate,
      }),
    ),
  ],
};

interface Variable {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: { readonly fieldRef: { readonly fieldPath: string } };
}

interface Manifest {
  readonly kind: string;
  readonly spec: {
    readonly selector?: { readonly matchLabels: object };
    readonly template: {
      readonly metadata?: { readonly labels: object };
      readonly spec: { readonly containers: readonly { readonly env: readonly Variable[] }[] };
    };
  };
}

const page = readFileSync(new URL('../../docs/event-ids.md', import.meta.url), 'utf8');
const manifests = [...page.matchAll(/^```yaml\n([\s\S]*?)^```/gm)].flatMap(
  ([, yaml = '']) => loadAll(yaml) as Manifest[],
);
const variables = manifests.flatMap(({ spec }) => spec.template.spec.containers.flatMap(({ env }) => env));

describe('the Kubernetes manifests of docs/event-ids.md', () => {
  let server: FastifyInstance;
  before(async () => {
    const plain = { coerceTypes: false, useDefaults: false, removeAdditional: false };
    server = fastify({ ajv: { customOptions: plain } });
    server.post('/', { schema: { body: schema } }, () => 'ok');
    await server.ready();
  });
  after(() => server.close());
  afterEach(removeFolders);

  async function accepts(one: unknown): Promise<boolean> {
    return (await server.inject({ method: 'POST', url: '/', payload: one as object })).statusCode === 200;
  }

  it('are what Kubernetes takes', async () => {
    assert.deepEqual(
      manifests.map(({ kind }) => kind),
      ['StatefulSet', 'Job'],
    );
    for (const one of manifests) {
      assert.equal(await accepts(one), true, one.kind);
      const labels = one.spec.template.metadata?.labels;
      assert.deepEqual(one.spec.selector?.matchLabels, labels, 'a set finds its own pods');
    }
  });

  it('would not pass with a name misspelt or a value of another type', async () => {
    const written = JSON.stringify(manifests[0]);
    for (const [from, to] of [
      ['"fieldPath"', '"fieldpath"'],
      ['"replicas":40', '"replicas":"40"'],
      ['"valueFrom"', '"value"'],
      ['apps/v1', 'v1'],
      ["metadata.labels['", "metadata.label['"],
    ] as const) {
      assert.ok(written.includes(from), from);
      assert.equal(await accepts(JSON.parse(written.replace(from, to))), false, to);
    }
  });

  it('set variables that svc reads, to the ordinals that Kubernetes gives', () => {
    const known = options.map(({ name }) => variableOf(name));
    for (const { name } of variables) assert.ok(known.includes(name), name);
    assert.deepEqual(
      variables.flatMap(({ valueFrom }) => valueFrom?.fieldRef.fieldPath ?? []),
      [
        "metadata.labels['apps.kubernetes.io/pod-index']",
        "metadata.annotations['batch.kubernetes.io/job-completion-index']",
      ],
    );
  });

  it('lead to worker ids 0 to 1,023, to a line above, and to a derived one where the label is missing', () => {
    const load = (value: string) =>
      loadConfig({
        cwd: folderWith(),
        env: { SVC_BROKER_TOPIC: 'orders', SVC_ID_GENERATOR_WORKER_ID: value },
      });
    for (const [ordinal, workerId] of [
      ['0', 0],
      ['1023', 1023],
      ['', undefined],
    ] as const) {
      const { config, problems } = load(ordinal);
      assert.deepEqual([config.idGenerator.workerId, lines(problems)], [workerId, []]);
    }
    assert.match(lines(load('1024').problems).join(), /workerId must be between 0 and 1023/);
    assert.match(lines(load('orders-3').problems).join(), /worker-id.*must be an integer/);
  });
});
