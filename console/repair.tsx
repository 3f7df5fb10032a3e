import type { ConsoleDocument } from '../src/manage/console/document.ts';
import { bytes, count, duration, plural } from './format.ts';
import { history } from './live.ts';

/** What waits, and what can be done about it. */
export function Repair({ document }: { readonly document: ConsoleDocument }) {
  const { backup, health, breakers, deadLetters } = document;
  const { outbox, keys = [] } = health.details;
  return (
    <section class="repair" aria-label="What waits">
      <Card title="Dead letters" number={count(deadLetters.waiting)} text="wait in the topic" />
      <Card
        title="Backup"
        number={count(backup.events)}
        text={
          backup.events > 0
            ? `${plural(backup.files, 'file')}, ${bytes(backup.bytes)}, oldest ${duration(backup.oldestMs)}`
            : 'nothing waits on this machine'
        }
      />
      {outbox !== undefined && (
        <Card
          title="Outbox"
          number={count(outbox.totalPending)}
          text={
            outbox.totalPending ? `wait, the oldest ${duration(outbox.oldestPendingMs)}` : 'nothing waits'
          }
        />
      )}
      <Card title="Breaker" number={breakers.broker} text={breakerText()} />
      {keys.length > 0 && (
        <Card
          title="Keys"
          number={count(keys.length)}
          text={keys.map(({ keyId, status }) => `${keyId} is ${status}`).join(', ')}
        />
      )}
    </section>
  );
}

function Card({
  title,
  number,
  text,
}: {
  readonly title: string;
  readonly number: string;
  readonly text: string;
}) {
  return (
    <div class="card">
      <h2>{title}</h2>
      <p class="newest">{number}</p>
      <p class="note">{text}</p>
    </div>
  );
}

function breakerText(): string {
  const states = history.value?.circuit ?? [];
  const open = states.filter((state) => state !== 0).length;
  return open === 0 ? 'closed for the last hour' : `open for ${duration(open * 10_000)} of the last hour`;
}
