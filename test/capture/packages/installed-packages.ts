import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';

/** The packages that the tests install, by file: every way in which packages write their exports. */
const files: Record<string, string> = {
  'plain/index.js': `
    exports.send = function send(order, options) { return order; };
    exports.both = function both(order) { return exports.send(order); };
    exports.deep = { a: { b(x) { return x; } } };
    exports.badPlan = () => 1;
    exports.number = 3;`,
  'whole/index.js': 'module.exports = function whole(order) { return order; };',
  'classy/index.js': `
    class Stripe { refund(id) { return id; } static of() { return new Stripe(); } }
    module.exports = Stripe; module.exports.Stripe = Stripe; module.exports.default = Stripe;`,
  'bare-class/index.js': 'module.exports = class Mailer { send(to) { return to; } };',
  'bundled/index.js': `
    const define = (to, all) => { for (const name in all) Object.defineProperty(to, name, { get: all[name], enumerable: true }); return to; };
    module.exports = define(Object.defineProperty({}, '__esModule', { value: true }), {
      send: () => send, Client: () => Client, other: () => other });
    function send(order) { return order; }
    function other() { return 'other'; }
    class Client { get(id) { return id; } }
    0 && (module.exports = { send, Client, other });`,
  'compiled/index.js': `
    Object.defineProperty(exports, '__esModule', { value: true });
    exports.default = exports.send = void 0;
    var inner_1 = require('./inner');
    Object.defineProperty(exports, 'send', { enumerable: true, get: function () { return inner_1.send; } });
    exports.default = function main(order) { return order; };`,
  'compiled/inner.js': 'exports.send = function send(order) { return order; };',
  'factory/index.js': `
    exports.createClient = function createClient() { return { send(order) { return order; }, orders: { create: () => 1 } }; };
    exports.connect = async () => exports.createClient();`,
  'sub/package.json': '{"name":"sub","exports":{"./mail":"./lib/mail.js"}}',
  'sub/lib/mail.js': 'exports.send = (order) => order;',
  '@scope/pkg/index.js': 'exports.send = (order) => order;',
  'modern/package.json': '{"name":"modern","type":"module","exports":"./index.js"}',
  'modern/index.js': `
    export function send(order) { return order; }
    export const inside = (order) => send(order);
    export class Client { get(id) { return id; } static open() { return new Client(); } }
    export default class Mailer { post(to) { return to; } }
    export * from './inner.js';
    export { rename as renamed } from './inner.js';
    export * as ns from './inner.js';
    export const createClient = () => ({ send(order) { return order; } });
    export let counter = 0;
    export const bump = () => { counter++; };`,
  'modern/inner.js': 'export const star = (order) => order; export const rename = (order) => order;',
  'modern-object/package.json': '{"name":"modern-object","type":"module","main":"index.js"}',
  'modern-object/index.js': 'export default { send(order) { return order; } };',
  'import-only/package.json':
    '{"name":"import-only","type":"module","exports":{".":{"import":"./index.js"},"./x/*":{"import":"./x/*.js"}}}',
  'import-only/index.js': 'export const send = (order) => order;',
  'dual/package.json': '{"name":"dual","exports":{".":{"import":"./index.mjs","require":"./index.cjs"}}}',
  'dual/index.mjs': 'export const send = (order) => order;',
  'dual/index.cjs': 'exports.send = (order) => order;',
  // Two builds of one package that differ.
  'halves/package.json': '{"name":"halves","exports":{".":{"import":"./index.mjs","require":"./index.cjs"}}}',
  'halves/index.mjs': `
    class Halves { static get locked() { return 1; } save(order) { return order; } }
    export default Halves;
    export class Kept extends Halves {}
    export const both = (order) => order;
    export const imported = (order) => order;`,
  // One class, and one function, under two names.
  'twice/package.json': '{"name":"twice","exports":{".":{"import":"./index.mjs","require":"./index.cjs"}}}',
  'twice/index.mjs': `
    export class Client { constructor(id) { this.id = id; } static make() { return new Client(0); } }
    Client.VERSION = '1';
    export default Client;
    const api = { send, other: (order) => order };
    export { send, api };
    function send(order) { return order; }`,
  'twice/index.cjs': `
    var __importDefault = (this && this.__importDefault) || function (mod) { return mod && mod.__esModule ? mod : { default: mod }; };
    Object.defineProperty(exports, '__esModule', { value: true });
    var client_1 = require('./client.cjs');
    exports.api = {};
    Object.defineProperty(exports, 'Client', { enumerable: true, get: function () { return __importDefault(client_1).default; } });
    Object.defineProperty(exports.api, 'send', { enumerable: true, get: function () { return client_1.send; } });`,
  'twice/client.cjs': `
    Object.defineProperty(exports, '__esModule', { value: true });
    exports.default = make;
    function make(id) { return { id }; }
    exports.send = (order) => order;`,
  'assigned/index.js': `
    const send = (order) => order;
    module.exports = Object.assign({ send }, { SEND: send });`,
  // Names that svc would use itself.
  'shadows/package.json': '{"name":"shadows","type":"module","exports":"./index.js"}',
  'shadows/index.js': `
    export class Symbol { of(order) { return order; } }
    export const globalThis = {};
    export function send(order) { return new Symbol().of(order); }`,
  'halves/index.cjs': `
    module.exports = function halves(order) { return order; };
    module.exports.both = (order) => order;
    module.exports.required = (order) => order;
    module.exports.made = [(order) => order].at(0);`,
};

/** Makes an application folder with `node_modules` and the given files. */
export async function installPackages(folder: string, application: Record<string, string>): Promise<void> {
  const installed = Object.entries(files).map(
    ([file, text]) => [path.join('node_modules', file), text] as const,
  );
  for (const [file, text] of [...installed, ...Object.entries(application)]) {
    const target = path.join(folder, file);
    await mkdir(path.dirname(target), { recursive: true });
    await writeFile(target, text);
  }
}
