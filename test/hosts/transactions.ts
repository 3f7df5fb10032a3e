import fc from 'fast-check';
import type { Rendered } from './program.ts';

/** What a program does with a database, in a transaction or beside one. */
type Step =
  | { readonly does: string; readonly fails: string; readonly fn: string }
  | { readonly block: 'transaction' | 'savepoint'; readonly end: string; readonly steps: readonly Step[] };

export interface Transactions {
  readonly steps: readonly Step[];
}

const ofCalls = ['awaited', 'awaited', 'begun', 'sibling'];
const ofDriver = ['insert', 'read', 'wrong', 'twoAtOnce', 'named', 'unawaited', 'calledBack'];

const step = fc.letrec<{ step: Step; leaf: Step; savepoint: Step }>((tie) => ({
  step: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    { weight: 3, arbitrary: tie('leaf') },
    tie('savepoint'),
  ),
  leaf: fc.record({
    does: fc.oneof({ weight: 2, arbitrary: fc.constantFrom(...ofCalls) }, fc.constantFrom(...ofDriver)),
    fails: fc.oneof(
      { weight: 3, arbitrary: fc.constant('') },
      fc.constantFrom('before', 'after', 'twice', 'read'),
    ),
    fn: fc.constantFrom('save', 'saveTwo', 'saveAll'),
  }),
  savepoint: fc.record({
    block: fc.constant('savepoint' as const),
    end: fc.constantFrom('release', 'rollback', 'failing'),
    steps: fc.array(tie('step'), { minLength: 1, maxLength: 3 }),
  }),
})).step;

export const anyTransactions: fc.Arbitrary<Transactions> = fc.record({
  steps: fc.array(
    fc.record({
      block: fc.constant('transaction' as const),
      end: fc.constantFrom('commit', 'commit', 'rollback', 'failing'),
      steps: fc.array(step, { minLength: 1, maxLength: 5 }),
    }),
    { minLength: 1, maxLength: 3 },
  ),
});

const outbox = { outbox: { aggregateType: 'thing', aggregateId: '#result.id' } };

/** `isStored`: events go into the outbox; else they are sent after the COMMIT. */
export function renderTransactions({ steps }: Transactions, id: string, isStored: boolean): Rendered {
  let count = 0;
  const textOf = (list: readonly Step[], indent: string): string =>
    list.map((each) => `${indent}${lineOf(each, indent)}\n`).join('');
  const lineOf = (each: Step, indent: string): string => {
    count += 10;
    if ('block' in each) {
      const name = each.block === 'savepoint' ? `, 'point${count}'` : '';
      const opens = each.block === 'transaction' ? 'open' : '';
      return `await blocks.${each.block}(say, '${each.end}', async (${opens}) => {\n${textOf(each.steps, `${indent}  `)}${indent}}${name});`;
    }
    // What goes on beside others sends all of its statements at once: their order is that of the program.
    const isBeside = ['begun', 'sibling'].includes(each.does);
    const [fn, failure] = isBeside ? ['save', each.fails === 'after' ? 'after' : ''] : [each.fn, each.fails];
    // A COMMIT that overtakes a call which nobody waits for any more leaves it without its event: docs/outbox.md.
    const isLeft = fn === 'saveAll' && failure === 'before';
    const fails = failure === '' ? '' : `, fails: '${isLeft ? 'after' : failure}'`;
    return `await does.${each.does}(say, (gate) => ${fn}(${count}, { gate${fails} }), open, ${count});`;
  };
  const text = `import { blocks, does, inDatabase, write } from './transactions.mjs';

export const phases = {};
export const isConcurrent = false;

async function save(id, how) { return write('save', id, how); }
/** The same, and another captured function within. */
async function saveTwo(id, how) { await save(id + 1, {}); return write('saveTwo', id, how); }
function saveAll(id, how) { return Promise.all([save(id + 1, {}), write('saveAll', id, how)]).then(([, last]) => last); }

export const run = (say) => inDatabase(say, async () => {
${textOf(steps, '  ')}});
`;
  const targets = ['save', 'saveTwo', 'saveAll'].map((name) => ({
    module: `./${id}.mjs`,
    function: name,
    eventType: `${id} ${name}`,
    payload: '{ id: #result.id }',
    ...(isStored ? outbox : { afterCommit: true }),
  }));
  return { text, targets, ending: null, silent: ['saveAll'] };
}
