import type { Form } from './form.ts';

const kind = 'esm';
const create = 'export async function createOrder(id) { globalThis.here?.(); return id; }\n';

/** The same function, reached in every way that Node loads a module. */
export const esmLoading: readonly Form[] = [
  {
    id: 'esm-dynamic-import',
    title: 'Module loaded with `import()`',
    kind,
    files: { 'orders.mjs': create },
    targets: [{ function: 'createOrder' }],
    call: `export default async () => { const { createOrder } = await import('./orders.mjs'); return createOrder(1); };`,
    returns: 1,
    events: { createOrder: 1 },
  },
  {
    id: 'esm-query',
    title: 'Module loaded several times under a query (`import("./orders.mjs?v=1")`)',
    kind,
    files: { 'orders.mjs': create },
    targets: [{ function: 'createOrder' }],
    call: `export default async () => {
  const one = await import('./orders.mjs?v=1');
  const two = await import('./orders.mjs?v=2');
  return [await one.createOrder(1), await two.createOrder(2), one.createOrder === two.createOrder];
};`,
    returns: [1, 2, false],
    events: { createOrder: 2 },
  },
  {
    id: 'esm-worker',
    title: 'Module loaded in a worker thread',
    kind,
    files: {
      'orders.mjs': create,
      'worker.mjs': `import { parentPort } from 'node:worker_threads';
import { createOrder } from './orders.mjs';
parentPort.postMessage([await createOrder(1), await createOrder(2)]);
`,
    },
    targets: [{ function: 'createOrder' }],
    call: `import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
export default async () => {
  const worker = new Worker(new URL('./worker.mjs', import.meta.url));
  const [[message], [code]] = await Promise.all([once(worker, 'message'), once(worker, 'exit')]);
  return [message, code];
};`,
    returns: [[1, 2], 0],
    events: { createOrder: 2 },
  },
  {
    id: 'esm-workspace',
    title: 'Package of a workspace, linked into node_modules (named by package or by path)',
    kind,
    files: {
      '/packages/esm-workspace/package.json': '{ "name": "@forms/workspace", "exports": "./src/index.mjs" }',
      '/packages/esm-workspace/src/index.mjs': "export * from './orders.mjs';\nexport function direct(id) { here(); return id; }\n",
      '/packages/esm-workspace/src/orders.mjs': create,
    },
    links: { '/node_modules/@forms/workspace': '/packages/esm-workspace' },
    targets: [
      { module: '/packages/esm-workspace/src/orders.mjs', function: 'createOrder' },
      { module: '@forms/workspace', function: 'direct' },
    ],
    call: `import { createOrder, direct } from '@forms/workspace';
export default async () => [await createOrder(1), direct(2)];`,
    returns: [1, 2],
    events: { createOrder: 1, direct: 1 },
  },
  {
    id: 'esm-hash-import',
    title: 'Target named by a `#import` of the package',
    kind,
    files: { 'orders.mjs': create },
    targets: [{ module: '#forms/esm-hash-import/orders.mjs', function: 'createOrder' }],
    call: `import { createOrder } from '#forms/esm-hash-import/orders.mjs';
export default () => createOrder(1);`,
    returns: 1,
    events: { createOrder: 1 },
  },
  {
    id: 'esm-backslash',
    title: 'Target written with backslashes (`.\\\\src\\\\orders.mjs`)',
    kind,
    files: { 'src/orders.mjs': create },
    targets: [{ module: '.\\esm-backslash\\src\\orders.mjs', function: 'createOrder' }],
    call: `import { createOrder } from './src/orders.mjs';
export default () => createOrder(1);`,
    returns: 1,
    events: { createOrder: 1 },
  },
  {
    id: 'esm-top-level-await',
    title: 'Module with top-level await, and modules that import each other',
    kind,
    files: {
      'orders.mjs': "import { audit } from './audit.mjs';\nawait null;\nexport async function createOrder(id) { here(); return audit(id); }\nexport const name = 'orders';\n",
      'audit.mjs': "import { name } from './orders.mjs';\nexport function audit(id) { here(); return `${name} ${id}`; }\n",
    },
    targets: [{ function: 'createOrder' }, { module: './audit.mjs', function: 'audit' }],
    call: `import { createOrder } from './orders.mjs';
export default () => createOrder(1);`,
    returns: 'orders 1',
    events: { createOrder: 1, audit: 1 },
  },
];
