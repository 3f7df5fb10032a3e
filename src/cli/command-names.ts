import { basename, dirname } from 'node:path';

/** Past tenses that the rules do not make. */
const irregular: Readonly<Record<string, string>> = {
  ...{ pay: 'PAID', send: 'SENT', withdraw: 'WITHDRAWN', cancel: 'CANCELLED', submit: 'SUBMITTED' },
  ...{
    ship: 'SHIPPED',
    transfer: 'TRANSFERRED',
    buy: 'BOUGHT',
    sell: 'SOLD',
    begin: 'BEGUN',
    checkout: 'CHECKED_OUT',
  },
};

const verbs = new Set([
  ...[
    'create',
    'add',
    'insert',
    'save',
    'register',
    'place',
    'book',
    'order',
    'buy',
    'sell',
    'open',
    'start',
    'begin',
  ],
  ...[
    'update',
    'change',
    'edit',
    'rename',
    'assign',
    'move',
    'transfer',
    'deposit',
    'withdraw',
    'reserve',
    'release',
  ],
  ...['cancel', 'delete', 'remove', 'archive', 'restore', 'close', 'finish', 'complete', 'expire', 'revoke'],
  ...['pay', 'charge', 'refund', 'capture', 'checkout', 'invoice', 'ship', 'deliver', 'dispatch', 'process'],
  ...[
    'submit',
    'approve',
    'reject',
    'accept',
    'decline',
    'confirm',
    'schedule',
    'reschedule',
    'invite',
    'enroll',
  ],
  ...[
    'subscribe',
    'unsubscribe',
    'activate',
    'deactivate',
    'enable',
    'disable',
    'block',
    'unblock',
    'publish',
  ],
]);

/** What functions of a program make for the program itself: a server, a repository. */
const plumbing =
  /(?:^|_)(?:SERVER|APP|APPLICATION|ROUTER|ROUTES?|MIDDLEWARE|LOGGER|CLIENT|CONNECTION|POOL|DATABASE|DB|REPOSITORY|SERVICE|CONTROLLER|FACTORY|STORE|CONTEXT|CONFIG|OPTIONS|ELEMENT|LISTENERS?|HANDLERS?|HOOKS?|WORKER|QUEUE|PRODUCER|CONSUMER|TRACER|SPAN|TIMER|HASH|SCHEMA|TABLES?|INDEX|STREAM|SOCKET|MODULE|PLUGIN|PROXY|INSTANCE|ERROR|TRANSACTION|MOCK|ID|URL|HEADERS?|PROCESS|REQUEST|RESPONSE|STATE|CACHE|LOCK|JWT)$/;

const roles = /(?:Service|Repository|Repo|Controller|Manager|Handler|Store|Dao|Model|UseCase|Gateway|Api)$/;
const namelessFiles =
  /^(?:index|main|service|services|repository|controller|handlers?|commands?|app|server)$/;

/** `ORDER_CREATED` for `createOrder`, and for `create` of `OrderService`; `undefined` where it does not look like a command. */
export function eventTypeOfCommand(path: string, file: string): string | undefined {
  const names = path.split('.').filter((name) => name !== 'prototype');
  const [verb = '', ...rest] = wordsOf(names.at(-1) ?? '');
  if (!verbs.has(verb)) return undefined;
  const noun = rest.length > 0 ? rest : wordsOf(ownerOf(names, file));
  const past = irregular[verb] ?? pastOf(verb).toUpperCase();
  const named = noun.join('_').toUpperCase();
  return plumbing.test(named) ? undefined : [named, past].filter(Boolean).join('_');
}

/** Of two functions that publish the same, the one that stands nearer to the business comes first. */
export function distanceOf(path: string, file: string): number {
  return /repositor|repo\b|dao|model|store|controller|route|handler|client|gateway/i.test(`${file} ${path}`)
    ? 1
    : 0;
}

function ownerOf(names: readonly string[], file: string): string {
  const named = singular((names.at(-2) ?? '').replace(roles, ''));
  if (named !== '' && !/^(?:default|exports|self|this|db|repo|api|app)$/.test(named)) return named;
  const [stem = ''] = basename(file).split('.');
  const place = namelessFiles.test(stem) ? basename(dirname(file)) : stem;
  const noun = wordsOf(place).filter(
    (word) => !/^(?:service|repository|repo|controller|handler|store|model|src|lib)s?$/.test(word),
  );
  return noun.length === 0 ? '' : singular(noun.join('_'));
}

/** `createOrderItem` and `create_order_item` alike. */
function wordsOf(name: string): string[] {
  return name
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .split(/[^A-Za-z0-9]+/)
    .filter(Boolean)
    .map((word) => word.toLowerCase());
}

function singular(noun: string): string {
  if (/ies$/i.test(noun)) return noun.replace(/ies$/i, 'y');
  return /[^su]s$/i.test(noun) ? noun.slice(0, -1) : noun;
}

function pastOf(verb: string): string {
  if (verb.endsWith('e')) return `${verb}d`;
  return /[^aeiou]y$/.test(verb) ? `${verb.slice(0, -1)}ied` : `${verb}ed`;
}
