import type { ComponentChildren } from 'preact';
import type { ConsoleDocument } from '../src/manage/views.ts';
import { type Action, actions } from './actions.ts';
import { bytes, count, duration, plural } from './format.ts';
import { history } from './live.ts';
import { opened } from './repair-dialog.tsx';

type LatestRuns = ConsoleDocument['runs']['backup'];

export function Repair({ document }: { readonly document: ConsoleDocument }) {
  const { backup, health, breakers, deadLetters, runs } = document;
  const { outbox, keys = [], dlqTopic } = health.details;
  const button = (action: Action) =>
    document.actions.includes(action.id) && <Button key={action.id} action={action} />;
  return (
    <section class="repair" aria-label="What waits">
      <Card
        title="Dead letters"
        number={count(deadLetters.waiting)}
        text={progress(runs.deadLetters) ?? (dlqTopic ? 'wait in the topic' : 'no topic is configured')}
      >
        {dlqTopic && button(actions.recover)}
      </Card>
      <Card
        title="Backup"
        number={count(backup.events)}
        text={
          progress(runs.backup) ??
          (backup.events > 0
            ? `${plural(backup.files, 'file')}, ${bytes(backup.bytes)}, oldest ${duration(backup.oldestMs)}`
            : 'nothing waits on this machine')
        }
      >
        {button(actions.drain)}
      </Card>
      {outbox !== undefined && (
        <Card
          title="Outbox"
          number={count(outbox.totalPending)}
          text={
            outbox.totalPending ? `wait, the oldest ${duration(outbox.oldestPendingMs)}` : 'nothing waits'
          }
        >
          {button(actions.replay)}
        </Card>
      )}
      <Card title="Breaker" number={breakers.broker} text={breakerText()}>
        {button(actions.reset)}
      </Card>
      {keys.length > 0 && (
        <Card
          title="Keys"
          number={count(keys.length)}
          text={keys.map(({ keyId, status }) => `${keyId} is ${status}`).join(', ')}
        >
          {button(actions.invalidate)}
        </Card>
      )}
    </section>
  );
}

interface CardOf {
  readonly title: string;
  readonly number: string;
  readonly text: string;
  readonly children: ComponentChildren;
}

function Card({ title, number, text, children }: CardOf) {
  return (
    <div class="card">
      <h2>{title}</h2>
      <p class="newest">{number}</p>
      <p class="note">{text}</p>
      {children}
    </div>
  );
}

function Button({ action }: { readonly action: Action }) {
  return (
    <button
      type="button"
      aria-haspopup="dialog"
      onClick={() => {
        opened.value = action;
      }}
    >
      {action.title}…
    </button>
  );
}

/** The progress of a run that was started here or elsewhere. */
function progress({ run }: LatestRuns): string | undefined {
  return run?.state === 'RUNNING' ? `being sent: ${count(run.sent)} of ${count(run.total)}` : undefined;
}

function breakerText(): string {
  const states = history.value?.circuit ?? [];
  const open = states.filter((state) => state !== 0).length;
  return open === 0 ? 'closed for the last hour' : `open for ${duration(open * 10_000)} of the last hour`;
}
