import type { Form } from './form.ts';

/** Functions of the file that Node is started with; each form is a process of its own, its first file the entry. */
export const entryForms: readonly Form[] = [
  {
    id: 'entry-esm',
    title: 'Function of the entry file, an ES module',
    kind: 'entry',
    files: {
      'main.mjs': `import './other.mjs';
async function createOrder(id) { return id * 10; }
const cancel = (id) => -id;
console.log(JSON.stringify([await createOrder(1), await createOrder(2), cancel(3)]));
`,
      'other.mjs': 'export const other = 1;\n',
    },
    targets: [{ function: 'createOrder' }, { function: 'cancel' }],
    call: '',
    returns: [10, 20, -3],
    events: { createOrder: 2, cancel: 1 },
  },
  {
    id: 'entry-cjs',
    title: 'Function of the entry file, CommonJS; `require.main === module` holds',
    kind: 'entry',
    files: {
      'main.cjs': `async function createOrder(id) { return id * 10; }
if (require.main === module) createOrder(1).then((id) => console.log(JSON.stringify([id, process.mainModule === module])));
`,
    },
    targets: [{ function: 'createOrder' }],
    call: '',
    returns: [10, true],
    events: { createOrder: 1 },
  },
];
