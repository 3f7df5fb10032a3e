import type { Program } from 'oxc-parser';
import { type AnyFunction, parameterNames, parametersOf } from '../../capture/source/find/syntax.ts';
import { type Field, fieldsOfParameter, fieldsOfResult } from './fields.ts';

/** What a function offers for an event. */
export interface Offer {
  /** An expression; `undefined`: nobody has looked at the function. */
  readonly payload: string | undefined;
  readonly key: string | undefined;
  /** Fields that may be secrets or personal data, or that no expression can name, which somebody has to decide on. */
  readonly leftOut: readonly string[];
}

/** What carries a call about, and says nothing of its matter. */
const carriers =
  /^(?:res|response|reply|next|ctx|context|tx|trx|transaction|t|client|conn|connection|db|database|pool|manager|em|session|options|opts|logger|log|signal|callback|cb|done|_.*)$/;
const delicate =
  /passw|secret|token|credential|authori[sz]ation|cookie|\bpin\b|cvv|cvc|card|iban|\bssn\b|account|e-?mail|phone|mobile|first.?name|last.?name|full.?name|surname|address|street|birth|\bip\b|gender|note|comment|message/i;
const reserved = /^(?:result|args|self|this|error|[pa]\d+)$/;
/** Others have no name in an expression. */
const plainName = /^[A-Za-z_$][\w$]*$/;
const mostFields = 8;

/** @param noun of the event type, `ORDER`: an `id` in the result is then `orderId` */
export function offerOf(node: AnyFunction, program: Program, noun: string): Offer {
  const fields = new Map<string, string>();
  const leftOut = new Set<string>();
  const add = ({ name, path }: Field, root: string): void => {
    if (delicate.test(name) || ![name, ...path].every((each) => plainName.test(each))) leftOut.add(name);
    else if (!fields.has(name) && fields.size < mostFields) fields.set(name, [root, ...path].join('.'));
  };
  const idName = `${camel(noun)}Id`;
  const named = (field: Field): Field => (field.name === 'id' ? { ...field, name: idName } : field);
  const result = fieldsOfResult(node, program);
  for (const field of result.fields.filter(isId)) add(named(field), '#result');
  const names = parameterNames(node);
  for (const [index, parameter] of parametersOf(node).entries()) {
    const name = names[index] ?? '';
    if (carriers.test(name) || parameter.type === 'RestElement') continue;
    const root = name === '' || reserved.test(name) ? `#p${index}` : `#${name}`;
    const inside = fieldsOfParameter(parameter, name, node, program);
    for (const field of inside ?? [{ name, path: [] }]) if (field.name !== '') add(named(field), root);
  }
  for (const field of result.fields) add(named(field), '#result');
  const key = fields.get(idName);
  const all = [...fields].map(([name, expression]) => `${name}: ${expression}`);
  // Of what a function returns, of which nothing is known, only the id: it could hold anything.
  const nothingKnown = result.isNothing ? '{ ok: true }' : `{ ${idName}: #result?.id }`;
  const payload = all.length > 0 ? `{ ${all.join(', ')} }` : nothingKnown;
  return { payload, key, leftOut: [...leftOut].filter((name) => !fields.has(name)) };
}

const isId = ({ name }: Field): boolean => name === 'id' || name.endsWith('Id');

/** `ORDER_ITEM` as `orderItem`. */
function camel(noun: string): string {
  return noun.toLowerCase().replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
}
