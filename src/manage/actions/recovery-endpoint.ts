import type { RecoveryAsk, RecoveryControls } from '../controls.ts';
import { json, problem, type Reply } from '../reply.ts';
import { type ActionContext, isBusy, readFields, tooOften } from './action.ts';
import { flag, oneOf, past, pastOrFuture, text, texts, timeOf, wholeFrom } from './fields.ts';

const checks = {
  type: texts,
  topic: texts,
  since: past,
  until: pastOrFuture,
  to: text,
  rate: wholeFrom(1),
  limit: wholeFrom(1),
  dryRun: flag,
};

type Kind = 'deadLetterRecovery' | 'backupDrain';

/** `POST …`: answers when it has begun. It goes on when the client is gone. */
export const recoverFrom =
  (kind: Kind) =>
  async (context: ActionContext): Promise<Reply> => {
    const from = kind === 'backupDrain' ? { from: oneOf('local', 's3') } : {};
    const body = await readFields(context, { ...from, ...checks });
    if ('refusal' in body) return body.refusal;
    const ask = askOf(body.fields);
    const recovery: RecoveryControls = context.controls[kind];
    const missing = recovery.missing(ask);
    if (missing !== undefined) return problem(404, missing);
    const what = `${kind} ${ask.dryRun}`;
    const tooOftenFor = context.limits.take(what);
    if (tooOftenFor !== undefined) return tooOften(tooOftenFor);
    const run = recovery.start(ask, context.by);
    if (run !== undefined) return json(context, 202, run);
    context.limits.giveBack(what);
    return isBusy('One is running already: GET of the same path says how far it is.');
  };

/** `GET …`: how far the latest of them is. */
export const progressOf =
  (kind: Kind) =>
  (context: Pick<ActionContext, 'controls' | 'jsonType'>): Reply =>
    json(context, 200, context.controls[kind].latest());

function askOf(fields: Readonly<Record<string, unknown>>): RecoveryAsk {
  const { from, type, topic, since, until, to, rate, limit, dryRun = false } = fields;
  return {
    ...{ types: listOf(type), topics: listOf(topic), since: timeOf(since), until: timeOf(until) },
    ...({ from, to, rate, limit, dryRun } as Pick<RecoveryAsk, 'from' | 'to' | 'rate' | 'limit' | 'dryRun'>),
  };
}

function listOf(value: unknown): readonly string[] | undefined {
  return value === undefined ? undefined : ([value].flat() as unknown[] as string[]);
}
