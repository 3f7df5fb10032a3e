import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { DeadLettersOfTopic, StoredDeadLetter } from '../src/manage/controls.ts';
import type { ConsoleDocument } from '../src/manage/views.ts';
import { ask } from './ask.ts';
import { count, plural } from './format.ts';
import { needsToken } from './live.ts';
import { type Column, Table } from './tables.tsx';

interface Of {
  readonly document: ConsoleDocument;
}

const fields = [
  ['type', 'Event type', ''],
  ['reason', 'Reason', 'TimeoutException'],
  ['topic', 'Meant for topic', ''],
  ['since', 'Since', '2h'],
] as const;

type Filter = Readonly<Record<(typeof fields)[number][0], string>>;

type State =
  | { readonly name: 'own' | 'reading' }
  | { readonly name: 'read'; readonly found: DeadLettersOfTopic }
  | { readonly name: 'refused'; readonly text: string };

const at = (timestamp: string): string => new Date(timestamp).toLocaleString('en-GB');
const code = (text: string | null) => (text === null ? '–' : <code>{text}</code>);

const columns: readonly Column<StoredDeadLetter>[] = [
  { title: 'At', isWide: true, cell: ({ timestamp }) => at(timestamp) },
  { title: 'Type', isWide: true, cell: ({ eventType }) => code(eventType) },
  { title: 'Reason', isWide: true, cell: ({ failureReason }) => code(failureReason) },
  { title: 'Meant for', isWide: true, cell: ({ originalTopic }) => code(originalTopic) },
  { title: 'Event', isWide: true, cell: ({ eventId }) => code(eventId) },
  { title: 'Partition', isNumber: true, cell: ({ partition }) => partition },
  { title: 'Offset', isNumber: true, cell: ({ offset }) => offset },
];

/** The dead letters of this process; on demand those of the topic, filtered by the process, without the content of events. */
export function DeadLetters({ document }: Of) {
  const [filter, setFilter] = useState<Filter>({ type: '', reason: '', topic: '', since: '' });
  const [state, setState] = useState<State>({ name: 'own' });

  const read = async (): Promise<void> => {
    setState({ name: 'reading' });
    const given = Object.entries(filter).filter(([, value]) => value.trim() !== '');
    const query = new URLSearchParams(given.map(([name, value]) => [name, value.trim()]));
    const answer = await ask<DeadLettersOfTopic>('GET', `svc/dlq?source=topic&${query}`);
    if (answer.status === 401) needsToken.value = true;
    setState(
      'problem' in answer ? { name: 'refused', text: answer.problem } : { name: 'read', found: answer.value },
    );
  };

  const form = document.health.details.dlqTopic !== null && (
    <form
      class="filter"
      aria-label="Read the dead letter topic"
      onSubmit={(event) => {
        event.preventDefault();
        void read();
      }}
    >
      {fields.map(([name, title, example]) => (
        <p key={name} class="field">
          <label for={`dead-${name}`}>{title}</label>
          <input
            {...{ id: `dead-${name}`, placeholder: example, autocomplete: 'off', spellcheck: false }}
            value={filter[name]}
            onInput={(event) => setFilter({ ...filter, [name]: event.currentTarget.value })}
          />
        </p>
      ))}
      <div class="buttons">
        <button type="submit" disabled={state.name === 'reading'}>
          {state.name === 'reading' ? 'Reading …' : 'Read the topic'}
        </button>
        {state.name === 'read' && (
          <button type="button" class="quiet" onClick={() => setState({ name: 'own' })}>
            Those of this process
          </button>
        )}
      </div>
      <p class="note" aria-live="polite">
        {state.name === 'refused' ? <span class="bad">{state.text}</span> : saidOf(state)}
      </p>
    </form>
  );
  return state.name === 'read' ? (
    <Table
      id="dead-letters"
      title="Dead letters"
      rows={state.found.deadLetters}
      nameOf={({ eventType, eventId, partition, offset }) => `${eventType} ${eventId} ${partition}-${offset}`}
      note={`the newest in the topic ${state.found.topic}`}
      nothing="None of the records read matches."
      columns={columns}
    >
      {form}
    </Table>
  ) : (
    <Own document={document}>{form}</Own>
  );
}

function Own({ document: { deadLetters }, children }: Of & { readonly children: ComponentChildren }) {
  const { waiting, recent } = deadLetters;
  return (
    <Table
      id="dead-letters"
      title="Dead letters"
      rows={recent}
      nameOf={({ eventType, timestamp }, index) => `${eventType} ${timestamp} ${index}`}
      note={`the newest of this process${waiting === null ? '' : `; ${count(waiting)} wait in the topic`}`}
      nothing="This process has sent no dead letters."
      columns={[
        { title: 'At', isWide: true, cell: ({ timestamp }) => at(timestamp) },
        { title: 'Type', isWide: true, cell: ({ eventType }) => <code>{eventType}</code> },
        { title: 'Why', isWide: true, cell: ({ failureReason }) => failureReason },
      ]}
    >
      {children}
    </Table>
  );
}

function saidOf(state: State): string {
  if (state.name !== 'read') return 'Reads the topic itself, without payloads. Recovered letters stay in it.';
  const { deadLetters, read, unreadable, complete } = state.found;
  const odd = unreadable > 0 ? `, ${count(unreadable)} of which cannot be read` : '';
  const more = complete ? '' : ' There may be older ones. To see all: npx --no svc dlq list';
  return `${plural(deadLetters.length, 'dead letter')} of ${plural(read, 'record')} that were looked at${odd}.${more}`;
}
