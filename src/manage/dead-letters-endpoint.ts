import { SvcError } from '../ground/errors.ts';
import type { ActionContext } from './actions/action.ts';
import { isBusy } from './actions/action.ts';
import { checkFields, oneOf, past, pastOrFuture, texts, timeOf } from './actions/fields.ts';
import type { DeadLetterAsk } from './controls.ts';
import { json, problem, type Reply } from './reply.ts';

type Context = Pick<ActionContext, 'controls' | 'jsonType'> & { readonly query: URLSearchParams };

export const mostDeadLetters = 200;

const checks = {
  source: oneOf('topic'),
  type: texts,
  reason: texts,
  topic: texts,
  since: past,
  until: pastOrFuture,
  limit: limitUpTo(mostDeadLetters),
};
/** Of these several may be wanted. */
const lists: readonly string[] = ['type', 'reason', 'topic'];

/** `GET /actuator/svc/dlq`: what this process knows of its own, or with `source=topic` what stands in the topic. */
export async function deadLetters(context: Context): Promise<Reply> {
  const { controls, query } = context;
  const fields = fieldsOf(query);
  const refusal = checkFields(fields, checks, 'The query');
  if (refusal !== undefined) return refusal;
  if (fields.source === undefined)
    return query.size === 0
      ? json(context, 200, controls.deadLetters())
      : problem(400, 'source must be topic where something is asked of it.', {}, 'source');
  const { since, until, ...rest } = fields;
  const ask = { ...askOf(rest), since: timeOf(since), until: timeOf(until) };
  const missing = controls.deadLetterTopic.missing();
  if (missing !== undefined) return problem(404, missing);
  try {
    const found = await controls.deadLetterTopic.newest(ask);
    return found === undefined ? isBusy('Somebody else is reading it.') : json(context, 200, found);
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    return problem(503, `The dead letter topic cannot be read: ${error.message}`);
  }
}

type Fields = Readonly<Record<string, string | readonly string[]>>;

/** What is given several times is a list; where only one can be meant, that is wrong. */
function fieldsOf(query: URLSearchParams): Fields {
  const names = [...new Set(query.keys())];
  return Object.fromEntries(
    names.map((name) => {
      const all = query.getAll(name);
      return [name, lists.includes(name) || all.length > 1 ? all : (all[0] as string)];
    }),
  );
}

function askOf({ type, reason, topic, limit }: Fields): DeadLetterAsk {
  return {
    ...({ types: type, reasons: reason, topics: topic } as Pick<
      DeadLetterAsk,
      'types' | 'reasons' | 'topics'
    >),
    limit: limit === undefined ? mostDeadLetters : Number(limit),
  };
}

function limitUpTo(most: number): (value: unknown) => string | undefined {
  return (value) =>
    typeof value === 'string' && /^[1-9]\d{0,3}$/.test(value) && Number(value) <= most
      ? undefined
      : `must be a whole number from 1 to ${most}.`;
}
