/** What an application does in or around transactions, and what must be in the database afterwards. */
export interface TransactionCase {
  /** As the application has it, and the beginning of the ids of its rows. */
  readonly id: string;
  readonly title: string;
  readonly rows: Readonly<Record<string, 'both' | 'row alone'>>;
  /** What the application gets; without it the call succeeds. */
  readonly error?: RegExp;
  readonly needs?: 'begin' | 'callback result' | 'several connections';
}

const thrown = /thrown by the application/;
/** By svc, whatever an ORM puts around it. */
const refused = /could not be stored in the outbox/;
const even = (id: string): TransactionCase['rows'] =>
  Object.fromEntries([0, 2, 4, 6].map((n) => [`${id}-${n}`, 'both']));

export const transactionCases: readonly TransactionCase[] = [
  { id: 'commit', title: 'a function within a transaction', rows: { 'commit-1': 'both' } },
  { id: 'rollback', title: 'a transaction rolled back after the function', rows: {}, error: thrown },
  {
    id: 'nested',
    title: 'a captured function within a captured function',
    rows: { 'nested-1': 'both', 'nested-2': 'both' },
  },
  {
    id: 'sequence',
    title: 'one transaction after the other',
    rows: { 'sequence-1': 'both', 'sequence-2': 'both' },
  },
  {
    id: 'savepoint',
    title: 'a savepoint rolled back, and one kept',
    rows: { 'savepoint-1': 'both', 'savepoint-3': 'both', 'savepoint-4': 'both' },
  },
  {
    id: 'savepoint-late',
    title: 'a savepoint rolled back before the function in it ends',
    rows: { 'savepoint-late-1': 'both', 'savepoint-late-3': 'both' },
  },
  {
    id: 'parallel',
    title: 'eight transactions at once, half of them rolled back',
    rows: even('parallel'),
    needs: 'several connections',
  },
  { id: 'silent', title: 'a function that sends nothing itself', rows: { 'silent-1': 'both' } },
  {
    id: 'silent-first',
    title: 'a function that sends nothing itself, first in its transaction',
    rows: { 'silent-first-1': 'both' },
  },
  {
    id: 'parallel-silent',
    title: 'eight transactions at once, with functions that send nothing themselves',
    rows: even('parallel-silent'),
    needs: 'several connections',
  },
  {
    id: 'outside',
    title: 'outside any transaction the call fails, and what it wrote by itself stays',
    rows: { 'outside-1': 'row alone' },
    error: /SVC_OUTBOX_NO_TRANSACTION/,
  },
  {
    id: 'beside',
    title: 'a function that writes by itself beside an open transaction is not taken into it',
    rows: { 'beside-1': 'both', 'beside-2': 'row alone' },
    needs: 'several connections',
  },
  { id: 'own', title: 'a function that opens its own transaction', rows: { 'own-1': 'both' } },
  {
    id: 'own-functions',
    title: 'functions make the event of a function that opens its own transaction',
    rows: { 'own-functions-1': 'both' },
  },
  {
    id: 'own-result',
    title: 'result: transaction, what the callback of the own transaction returned',
    rows: { 'own-result-1': 'both' },
    needs: 'callback result',
  },
  {
    id: 'own-rollback',
    title: 'the own transaction rolled back by the application',
    rows: {},
    error: thrown,
  },
  {
    id: 'own-refused',
    title: 'the database refuses the event: the own transaction fails, and its rows are gone',
    rows: {},
    error: refused,
  },
  {
    id: 'own-parallel',
    title: 'eight own transactions at once, half of them rolled back',
    rows: even('own-parallel'),
    needs: 'several connections',
  },
  {
    id: 'swallowed',
    title: 'the database refuses the event, and the application swallows it: COMMIT fails',
    rows: {},
    error: refused,
  },
  {
    id: 'saved',
    title: 'outbox.save in eight transactions at once, half of them rolled back',
    rows: even('saved'),
    needs: 'several connections',
  },
  {
    id: 'saved-savepoint',
    title: 'outbox.save within a savepoint that is rolled back',
    rows: { 'saved-savepoint-1': 'both', 'saved-savepoint-3': 'both' },
  },
  {
    id: 'saved-refused',
    title: 'outbox.save of an event that the database refuses, and the application swallows it: COMMIT fails',
    rows: {},
    error: refused,
  },
  {
    id: 'named',
    title: 'outbox.withTransaction in eight transactions at once, half of them rolled back',
    rows: even('named'),
    needs: 'several connections',
  },
  {
    id: 'opened',
    title: 'outbox.runInTransaction, eight at once and half of them rolled back: the event has the result',
    rows: even('opened'),
    needs: 'several connections',
  },
  {
    id: 'opened-refused',
    title: 'outbox.runInTransaction: the database refuses the event, and the rows are gone',
    rows: {},
    error: refused,
  },
  {
    id: 'inbox',
    title: 'inbox.once: what its handler writes, with its event, once, and nothing of one that failed',
    rows: { 'inbox-1': 'both', 'inbox-3': 'both' },
  },
  {
    id: 'inbox-race',
    title: 'inbox.once with one event three times at once',
    rows: { 'inbox-race-1': 'both' },
    needs: 'several connections',
  },
  {
    id: 'by-hand',
    title: 'a transaction that the function begins and commits itself',
    rows: { 'by-hand-1': 'both' },
    needs: 'begin',
  },
  {
    id: 'by-hand-rollback',
    title: 'a transaction that the function begins and rolls back itself',
    rows: {},
    error: thrown,
    needs: 'begin',
  },
];
