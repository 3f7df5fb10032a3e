import type { ConsoleDocument } from '../src/manage/views.ts';
import { type Answer, ask } from './ask.ts';
import { plural } from './format.ts';

export interface Fields {
  readonly limit: number;
  readonly type: string;
  readonly since: string;
}

/** The result of an action, or of its dry run. */
export interface Outcome {
  readonly events: number;
  readonly text: string;
  readonly problems: readonly string[];
}

export type Done = { readonly outcome: Outcome } | { readonly refused: string; readonly status: number };

export interface Action {
  /** As in `management.actions.exclude`. */
  readonly id: string;
  readonly title: string;
  readonly about: string;
  /** The fields to fill in before the count; empty: nothing to count. */
  readonly asks: readonly (keyof Fields)[];
  /** The text to confirm, with the count. */
  readonly confirm: (events: number, document: ConsoleDocument) => string;
  readonly verb: (events: number) => string;
  readonly run: (fields: Fields, dryRun: boolean) => Promise<Done>;
}

type Run = NonNullable<ConsoleDocument['runs']['backup']['run']>;
type Latest = ConsoleDocument['runs']['backup'];

const whole: readonly (keyof Fields)[] = ['limit', 'type'];
const send = (events: number): string => `Send ${plural(events, 'event')}`;

export const actions = {
  recover: {
    ...{ id: 'dlq-recover', title: 'Recover', asks: whole, verb: send },
    about: 'Sends dead letters to their original topics. Sent dead letters leave the list.',
    confirm: (events) => `${plural(events, 'dead letter')} will be sent to their topics`,
    run: recovery('svc/dlq/recover'),
  },
  drain: {
    ...{ id: 'backup-drain', title: 'Drain', asks: whole, verb: send },
    about: 'Sends the events of the backup to their topics.',
    confirm: (events) => `${plural(events, 'event')} of the backup will be sent to their topics`,
    run: recovery('svc/backup/drain'),
  },
  replay: {
    ...{ id: 'outbox-replay', title: 'Replay', asks: ['since', ...whole], verb: send },
    about: 'Sends events of the outbox again, including published ones: consumers see those twice.',
    confirm: (events) => `${plural(events, 'event')} of the outbox will be sent again`,
    run: replay,
  },
  reset: {
    ...{ id: 'circuit-breaker-reset', title: 'Reset', asks: [], verb: () => 'Close the breakers' },
    about: 'Closes the circuit breakers of this process: events go to the brokers at once.',
    confirm: (_, { breakers: { broker, outbox } }) =>
      outbox === null
        ? `1 breaker, which is ${broker}, will be closed`
        : `2 breakers, that of the broker (${broker}) and that of the outbox (${outbox}), will be closed`,
    run: simple('svc/circuit-breaker/reset', 'The breakers are closed.'),
  },
  invalidate: {
    ...{ id: 'keys-invalidate', title: 'Invalidate', asks: [], verb: () => 'Forget the keys' },
    about: 'Drops the cached encryption keys of this process, and requests new ones.',
    confirm: (_, { health }) =>
      `${plural(health.details.keys?.length ?? 0, 'key')} will be dropped and requested again`,
    run: simple('svc/keys/invalidate', 'New keys are requested.'),
  },
} as const satisfies Readonly<Record<string, Action>>;

/** For the endpoints: empty fields are left out. */
const bodyOf = ({ limit, type }: Fields, dryRun: boolean): object => ({
  ...{ limit, dryRun, ...(type.trim() !== '' && { type: type.trim() }) },
});

const refusal = ({ problem, status }: Extract<Answer<unknown>, { problem: string }>): Done => ({
  ...{ refused: problem, status },
});

function simple(address: string, text: string): Action['run'] {
  return async () => {
    const answer = await ask('POST', address);
    return 'problem' in answer ? refusal(answer) : { outcome: { events: 0, text, problems: [] } };
  };
}

async function replay(fields: Fields, dryRun: boolean): Promise<Done> {
  const body = { ...bodyOf(fields, dryRun), since: fields.since.trim() };
  type Replayed = { readonly total: number; readonly success: number; readonly failed: number };
  const answer = await ask<Replayed>('POST', 'svc-outbox', { body, patienceMs: 600_000 });
  if ('problem' in answer) return refusal(answer);
  const { total, success, failed } = answer.value;
  const text = `${plural(success, 'event')} sent, ${failed} failed.`;
  return { outcome: { events: total, text, problems: [] } };
}

/** It continues in the process if this page is closed. */
function recovery(address: string): Action['run'] {
  return async (fields, dryRun) => {
    const begun = await ask<Run>('POST', address, { body: bodyOf(fields, dryRun) });
    if ('problem' in begun) return refusal(begun);
    for (let run = begun.value; ; ) {
      if (run.state !== 'RUNNING') return ended(run);
      await new Promise((resolve) => setTimeout(resolve, 500));
      const latest = await ask<Latest>('GET', address);
      if ('problem' in latest) return refusal(latest);
      const mine = latest.value[dryRun ? 'dryRun' : 'run'];
      if (mine?.id !== run.id) return { refused: 'Another one was started in the meantime.', status: 409 };
      run = mine;
    }
  };
}

function ended({ state, matched, sent, failed, problems, error }: Run): Done {
  if (state === 'FAILED') return { refused: error ?? 'It could not be read.', status: 500 };
  const more = state === 'LIMIT' ? ' The limit is reached: there may be more.' : '';
  return {
    outcome: {
      ...{ events: matched, text: `${plural(sent, 'event')} sent, ${failed} failed.${more}` },
      problems: [
        ...(error === null ? [] : [error]),
        ...problems.map(({ reason, events }) => `${plural(events, 'event')}: ${reason}`),
      ],
    },
  };
}
