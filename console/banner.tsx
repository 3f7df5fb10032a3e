import type { ConsoleDocument } from '../src/manage/views.ts';
import { clock, plural } from './format.ts';
import { trouble } from './live.ts';

type Level = 'critical' | 'warning' | 'fine' | 'away';
interface Line {
  readonly level: Level;
  readonly text: string;
}

const marks: Readonly<Record<Level, string>> = { critical: '!', warning: '!', fine: '✓', away: '…' };
const words: Readonly<Record<Level, string>> = {
  critical: 'Critical',
  warning: 'Warning',
  fine: 'All is well',
  away: 'No answer',
};

/** The problems, the worst first; or one line that all is well. */
export function Banner({ document }: { readonly document: ConsoleDocument | undefined }) {
  const lines = [...away(), ...(document === undefined ? [] : linesOf(document))];
  const level = lines[0]?.level ?? (document === undefined ? 'away' : 'fine');
  return (
    <section class={`banner ${level}`} aria-label="State" aria-live="polite">
      <span class="mark" aria-hidden="true">
        {marks[level]}
      </span>
      <div>
        <h2>{document === undefined && lines.length === 0 ? 'Asking the process …' : words[level]}</h2>
        {lines.length === 0 && document !== undefined && (
          <p>Events reach their topics, within all thresholds of the last five minutes.</p>
        )}
        <ul>
          {lines.map(({ level: of, text }) => (
            <li key={text} class={of}>
              {text}
            </li>
          ))}
        </ul>
      </div>
    </section>
  );
}

function away(): Line[] {
  const { value } = trouble;
  if (value === undefined) return [];
  return [
    { level: 'away', text: `${value.text} Since ${clock(value.sinceMs)}; refreshed every two seconds.` },
  ];
}

function linesOf({ health, breakers, backup }: ConsoleDocument): Line[] {
  const { error, findings = [], warning, keys = [], outbox } = health.details;
  const all: readonly (Line | undefined)[] = [
    line('critical', error),
    breakers.broker === 'CLOSED'
      ? undefined
      : line(
          'critical',
          'The breaker is open: the brokers do not accept events, which go to the backup instead',
        ),
    ...keys.map((key) =>
      key.error === undefined || error?.includes(key.error)
        ? undefined
        : line(key.status === 'DOWN' ? 'critical' : 'warning', `Key ${key.keyId}: ${key.error}`),
    ),
    ...findings.map((finding) =>
      finding.startsWith('CRITICAL: ')
        ? line('critical', finding.slice('CRITICAL: '.length))
        : line('warning', finding.replace(/^WARNING: /, '')),
    ),
    line('warning', warning),
    backup.events > 0 && breakers.broker === 'CLOSED'
      ? line(
          'warning',
          `${plural(backup.events, 'event')} in the backup, sent once the brokers accept events`,
        )
      : undefined,
    line('warning', outbox?.warning),
  ];
  const order: readonly Level[] = ['critical', 'warning'];
  return all
    .filter((one) => one !== undefined)
    .sort((one, other) => order.indexOf(one.level) - order.indexOf(other.level));
}

const line = (level: Level, text: string | undefined): Line | undefined =>
  text === undefined ? undefined : { level, text };
