import type { Form } from './form.ts';

const kind = 'esm';

/** Functions that exist only at run time, in what another function returns or inside its body. */
export const esmFactories: readonly Form[] = [
  {
    id: 'esm-factory',
    title: 'Method of the object that a factory returns, exported or not, called once or often',
    kind,
    files: {
      'orders.mjs': `export function createRepository(prefix) {
  const rows = [];
  return {
    insert(id) {
      here();
      rows.push(id);
      return prefix + rows.length;
    },
    find: async (id) => { here(); return rows.includes(id); },
  };
}
function createHidden() {
  return { run(id) { here(); return id; } };
}
const hidden = createHidden();
export const run = (id) => hidden.run(id);
export const makeArrow = (x) => ({ remove: (id) => { here(); return x + id; } });
`,
    },
    targets: [
      { function: 'createRepository().insert' },
      { function: 'createRepository().find' },
      { function: 'createHidden().run' },
      { function: 'makeArrow().remove' },
    ],
    call: `import { createRepository, run, makeArrow } from './orders.mjs';
export default async () => {
  const [one, other] = [createRepository('a'), createRepository('b')];
  return [one.insert(1), one.insert(2), other.insert(3), await one.find(2), run(4), makeArrow(1).remove(4)];
};`,
    returns: ['a1', 'a2', 'b1', true, 4, 5],
    events: {
      'createRepository().insert': 3,
      'createRepository().find': 1,
      'createHidden().run': 1,
      'makeArrow().remove': 1,
    },
  },
  {
    id: 'esm-factory-async',
    title: 'Method of the object that an asynchronous factory resolves to',
    kind,
    files: {
      'orders.mjs': `export async function connect(name) {
  await null;
  return { async insert(id) { here(); return name + id; } };
}
`,
    },
    targets: [{ function: 'connect().insert' }],
    call: `import { connect } from './orders.mjs';
export default async () => {
  const repository = await connect('db');
  return [await repository.insert(1), await repository.insert(2)];
};`,
    returns: ['db1', 'db2'],
    events: { 'connect().insert': 2 },
  },
  {
    id: 'esm-factory-class',
    title: 'Method of an instance that a factory or a class method returns',
    kind,
    files: {
      'orders.mjs': `class Repository { insert(id) { here(); return id; } }
export function open() { return new Repository(); }
export const pool = { lease() { return { query(id) { here(); return id; } }; } };
`,
    },
    targets: [{ function: 'open().insert' }, { function: 'pool.lease().query' }],
    call: `import { open, pool } from './orders.mjs';
export default () => [open().insert(1), pool.lease().query(2), pool.lease().query(3)];`,
    returns: [1, 2, 3],
    events: { 'open().insert': 1, 'pool.lease().query': 2 },
  },
  {
    id: 'esm-factory-result',
    title: 'Function that a factory returns (`createHandler()`)',
    kind,
    files: {
      'orders.mjs': `export function createHandler(prefix) { return async (id) => { here(); return prefix + id; }; }\n`,
    },
    targets: [{ function: 'createHandler()' }],
    call: `import { createHandler } from './orders.mjs';
export default async () => { const handle = createHandler('h'); return [await handle(1), await handle(2)]; };`,
    returns: ['h1', 'h2'],
    events: { 'createHandler()': 2 },
  },
  {
    id: 'esm-nested',
    title: 'Function inside another function, where its name occurs once in the file',
    kind,
    files: {
      'orders.mjs': `export async function plugin(app) {
  function toRow(id) { here(); return { id }; }
  const validate = (id) => { here(); return id > 0; };
  app.post = (id) => validate(id) && toRow(id);
}
(() => {
  async function inIife(id) { here(); return id; }
  globalThis.nestedInIife = inIife;
})();
if (true) {
  const inBlock = (id) => { here(); return id; };
  globalThis.nestedInBlock = inBlock;
}
`,
    },
    targets: [{ function: 'toRow' }, { function: 'validate' }, { function: 'inIife' }, { function: 'inBlock' }],
    call: `import { plugin } from './orders.mjs';
export default async () => {
  const app = {};
  await plugin(app);
  return [app.post(1), app.post(0), await nestedInIife(2), nestedInBlock(3)];
};`,
    returns: [{ id: 1 }, false, 2, 3],
    events: { toRow: 1, validate: 2, inIife: 1, inBlock: 1 },
  },
];
