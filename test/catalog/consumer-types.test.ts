import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import ts from 'typescript';
import { catalogFolder } from '../../src/catalog/forms.ts';
import type { Catalog } from '../../src/catalog/shape.ts';

const root = resolve(import.meta.dirname, '../..');
// Below the packages that the text imports.
const cache = join(root, '.cache');
const event = { from: [], topics: ['orders.v1'], contentType: 'application/json', keys: [] };
const catalog: Catalog = new Map([
  [
    'ORDER_CREATED',
    {
      ...event,
      payload: { type: ['object'], properties: { orderId: { type: ['integer'] } }, required: ['orderId'] },
    },
  ],
  [
    'order/paid',
    { ...event, payload: { type: ['object'], properties: { by: { type: ['string'] } }, required: ['by'] } },
  ],
]);

const typed = `
import type pg from 'pg';
import { type ConsumedEvent, consumeOnce, createInbox, type InboxTransaction } from '${root}/src/consumer.ts';
import type { EventEnvelope, EventPayloads } from './events.ts';
declare const pool: pg.Pool;
const inbox = createInbox({ pool, consumer: 'billing' });
const rest = { consumer: {}, topics: ['orders.v1'], inbox };
export const tx: (tx: InboxTransaction<typeof inbox>) => unknown = (tx) => tx.query('SELECT 1');
export const same = (one: EventEnvelope<'order/paid'>): ConsumedEvent<EventPayloads['order/paid']> => one;
`;

describe('the types of the catalog in svc/consumer', function () {
  this.timeout(120_000);

  const problemsIn = (text: string): string[] => {
    mkdirSync(cache, { recursive: true });
    const folder = mkdtempSync(join(cache, 'catalog-types-'));
    try {
      catalogFolder(folder, folder).write(catalog, new Map());
      const file = join(folder, 'use.ts');
      writeFileSync(file, `${typed}${text}`);
      const program = ts.createProgram([file], {
        module: ts.ModuleKind.NodeNext,
        moduleResolution: ts.ModuleResolutionKind.NodeNext,
        target: ts.ScriptTarget.ES2024,
        lib: ['lib.esnext.d.ts', 'lib.esnext.disposable.d.ts'],
        strict: true,
        noEmit: true,
        skipLibCheck: true,
        allowImportingTsExtensions: true,
        types: ['node'],
      });
      const source = program.getSourceFile(file);
      return [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)].map(
        ({ messageText }) => ts.flattenDiagnosticMessageText(messageText, ' '),
      );
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  };

  it('type the events and the transaction of handlers', () => {
    const found = problemsIn(`
      await consumeOnce<InboxTransaction<typeof inbox>, EventPayloads>({
        ...rest,
        handlers: {
          ORDER_CREATED: async (event, tx) => {
            const id: number = event.payload.orderId;
            const at: string = event.occurredAt;
            await tx.query(at, [id]);
          },
          'order/paid': (event) => event.payload.by.toUpperCase(),
          '*': (event) => event.eventType,
        },
      });
      await consumeOnce({ ...rest, handlers: { ANY: (event, tx) => tx.query(event.payload.whatever) } });`);
    assert.deepEqual(found, []);
  });

  it('refuse what the catalog does not have: a field, a type, a kind of value', () => {
    const handlers = [
      '{ ORDER_CREATED: (event) => event.payload.product }',
      '{ ORDER_LOST: () => {} }',
      '{ ORDER_CREATED: (event) => event.payload.orderId.trim() }',
      '{ ORDER_CREATED: () => {} }',
    ].map((each) => `await consumeOnce<pg.PoolClient, EventPayloads>({ ...rest, handlers: ${each} });`);
    assert.deepEqual(
      problemsIn(handlers.join('\n')).map((message) => /'\w+' does not exist/.exec(message)?.[0] ?? message),
      ["'product' does not exist", "'ORDER_LOST' does not exist", "'trim' does not exist"],
    );
  });
});
