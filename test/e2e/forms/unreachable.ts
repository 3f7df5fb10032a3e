import type { Form } from './form.ts';

const kind = 'unreachable';

/** What cannot be captured: the application runs as ever, and the report says why. */
export const unreachableForms: readonly Form[] = [
  {
    id: 'no-anonymous',
    title: 'Anonymous function (`app.post("/orders", async () => …)`)',
    kind,
    files: {
      'app.mjs': `export const routes = new Map();
const app = { post: (path, handler) => routes.set(path, handler) };
app.post('/orders', async (id) => { here(); return id; });
`,
    },
    targets: [{ function: 'handler' }],
    call: `import { routes } from './app.mjs';
export default () => routes.get('/orders')(1);`,
    returns: 1,
    events: { handler: 0 },
    refused: /no-anonymous\/app\.mjs#handler is not captured: .*handler/,
    wayRound: 'Give it a name (`const createOrder = async () => …`), or use `publishEvent(options, fn)`',
  },
  {
    id: 'no-minified-name',
    title: 'Function whose name a minifier changed',
    kind,
    files: { 'bundle.mjs': 'async function a(e){here();return e}const b={c:a};export{b as orders};\n' },
    targets: [{ function: 'createOrder' }],
    call: `import { orders } from './bundle.mjs';
export default () => orders.c(1);`,
    returns: 1,
    events: { createOrder: 0 },
    refused: /bundle\.mjs#createOrder is not captured: no createOrder in this file: it is minified/,
    wayRound: 'Name the source and write a source map; or keep identifiers (esbuild: `--minify-whitespace --minify-syntax`); or use `publishEvent(options, fn)` or `@PublishEvent`',
  },
  {
    id: 'no-private-method',
    title: 'Private method (`#check()`)',
    kind,
    files: {
      'orders.mjs': 'export class Orders {\n  create(id) { return this.#check(id); }\n  #check(id) { here(); return id; }\n}\n',
    },
    targets: [{ function: 'Orders.prototype.#check' }],
    call: `import { Orders } from './orders.mjs';
export default () => new Orders().create(1);`,
    returns: 1,
    events: { 'Orders.prototype.#check': 0 },
    refused: /#check is not captured/,
    wayRound: 'Name the public method that calls it, or move the code to a function outside the class',
  },
  {
    id: 'no-ambiguous',
    title: 'Name that occurs more than once inside the functions of a file',
    kind,
    files: {
      'orders.mjs': `export function one() {
  const save = (id) => { here(); return id; };
  return save(1);
}
export function two() {
  const save = (id) => { here(); return id; };
  return save(2);
}
`,
    },
    targets: [{ function: 'save' }],
    call: `import { one, two } from './orders.mjs';
export default () => [one(), two()];`,
    returns: [1, 2],
    events: { save: 0 },
    refused: /save is not captured: .*2.*6/,
    wayRound: 'Rename one of them; the report lists the lines',
  },
  {
    id: 'no-accessor',
    title: 'Getter or setter',
    kind,
    files: { 'orders.mjs': 'export class Orders {\n  get total() { here(); return 5; }\n}\n' },
    targets: [{ function: 'Orders.prototype.total' }],
    call: `import { Orders } from './orders.mjs';
export default () => new Orders().total;`,
    returns: 5,
    events: { 'Orders.prototype.total': 0 },
    refused: /Orders\.prototype\.total is not captured/,
    wayRound: 'Name the method that the getter calls',
  },
  {
    id: 'no-function',
    title: 'Value that is not a function',
    kind,
    files: { 'orders.mjs': 'export const limit = 5;\nexport class Orders {}\nexport const repo = { size: 3 };\n' },
    targets: [{ function: 'limit' }, { function: 'repo.size' }],
    call: `import { limit, repo } from './orders.mjs';
export default () => [limit, repo.size];`,
    returns: [5, 3],
    events: { limit: 0, 'repo.size': 0 },
    refused: /limit is not captured[^]*repo\.size is not captured/,
    wayRound: 'Name the function; the report says what it found instead',
  },
  {
    id: 'no-file',
    title: 'File or function that does not exist',
    kind,
    files: { 'orders.mjs': 'export function createOrder(id) { here(); return id; }\n' },
    targets: [
      { function: 'createOrdr' },
      { module: './order.mjs', function: 'createOrder' },
    ],
    call: `import { createOrder } from './orders.mjs';
export default () => createOrder(1);`,
    returns: 1,
    events: { createOrdr: 0, createOrder: 0 },
    refused: /(createOrdr is not captured: .*createOrder[^]*no such file: .*orders\.mjs)|(no such file: .*orders\.mjs[^]*createOrdr is not captured: .*createOrder)/,
    wayRound: 'Correct the name; `svc check` suggests the nearest ones',
  },
  {
    id: 'no-parse',
    title: 'File with a syntax error; your application gets its usual error',
    kind,
    files: { 'orders.mjs': 'export function createOrder(id) { return id +; }\n' },
    targets: [{ function: 'createOrder' }],
    call: `export default () => import('./orders.mjs').catch((error) => error.name + ' ' + error.message);`,
    returns: "SyntaxError Unexpected token ';'",
    events: { createOrder: 0 },
    refused: /createOrder is not captured: cannot be parsed/,
    wayRound: 'Correct the file',
  },
  {
    id: 'no-vm',
    title: "Code outside Node's loaders: `vm`, `eval`, `new Function`, Jest, Vitest without `svc/vite`, single executables",
    kind,
    files: {
      'orders.js': 'function createOrder(id) { return id; }\ncreateOrder;\n',
      'load.mjs': `import { readFileSync } from 'node:fs';
import vm from 'node:vm';
const text = readFileSync(new URL('./orders.js', import.meta.url), 'utf8');
export const all = [vm.runInThisContext(text), (0, eval)(text), new vm.Script(text, { filename: 'orders.js' }).runInNewContext()];
`,
    },
    targets: [{ function: 'createOrder' }],
    call: `import { all } from './load.mjs';
export default () => all.map((createOrder) => createOrder(1));`,
    returns: [1, 1, 1],
    events: { createOrder: 0 },
    reported: /UNLOADED +no-vm\/orders\.js#createOrder/,
    wayRound: 'Use `publishEvent(options, fn)` or `@PublishEvent`; in tests, `svc/testing`',
  },
  {
    id: 'no-package-internal',
    title: 'Function that a package does not export',
    kind,
    files: {
      '/node_modules/pkg-internal/package.json': '{ "name": "pkg-internal", "version": "1.0.0", "type": "module", "exports": "./index.js" }',
      '/node_modules/pkg-internal/index.js': 'export function send(id) { return sign(id); }\nfunction sign(id) { return -id; }\n',
    },
    targets: [{ module: 'pkg-internal', function: 'sign' }],
    call: `import { send } from 'pkg-internal';
export default () => send(1);`,
    returns: -1,
    events: { sign: 0 },
    reported: /pkg-internal#sign .*sign/,
    wayRound: 'Name an export of the package, or your function that calls it',
  },
  {
    id: 'no-package',
    title: 'Package that is not installed or never loaded',
    kind,
    files: { 'orders.mjs': 'export const order = 1;\n' },
    targets: [{ module: 'pkg-absent', function: 'send' }],
    call: `import { order } from './orders.mjs';
export default () => order;`,
    returns: 1,
    events: { send: 0 },
    reported: /pkg-absent#send/,
    wayRound: 'Correct the name; paths of your files start with `./`',
  },
];
