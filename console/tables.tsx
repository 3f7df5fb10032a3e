import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { ConsoleDocument } from '../src/manage/views.ts';
import type { TargetState, targetStates } from '../src/observe/outcomes.ts';
import { count, milliseconds, percent } from './format.ts';
import { trends } from './live.ts';
import { Sparkline } from './sparkline.tsx';

interface Of {
  readonly document: ConsoleDocument;
}

export interface Column<Row> {
  readonly title: string;
  readonly isNumber?: true;
  /** On a narrow screen it takes a line by itself. */
  readonly isWide?: true;
  readonly cell: (row: Row) => ComponentChildren;
}

interface TableOf<Row> {
  readonly id: string;
  readonly title: string;
  readonly note?: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly nameOf: (row: Row, index: number) => string;
  readonly nothing: string;
  /** Above the rows. */
  readonly children?: ComponentChildren;
}

/** More rows on request. */
const rowsAtFirst = 20;

/** Explicit roles: browsers drop those of tables whose CSS layout is not tabular. */
const as = (role: 'table' | 'rowgroup' | 'row' | 'columnheader' | 'cell') => ({ role });

export function Table<Row>({ id, title, note, columns, rows, nameOf, nothing, children }: TableOf<Row>) {
  const [filter, setFilter] = useState('');
  const [isWhole, setWhole] = useState(false);
  const all = rows.map((row, index) => ({ row, name: nameOf(row, index) }));
  const found = all.filter(({ name }) => name.toLowerCase().includes(filter.trim().toLowerCase()));
  const shown = isWhole ? found : found.slice(0, rowsAtFirst);
  return (
    <section class="card" aria-labelledby={id}>
      <div class="heading">
        <h2 id={id}>{title}</h2>
        {note !== undefined && <p class="note">{note}</p>}
        {rows.length > rowsAtFirst && (
          <input
            {...{ type: 'search', placeholder: 'Filter', 'aria-label': `Filter: ${title}`, value: filter }}
            onInput={(event) => setFilter(event.currentTarget.value)}
          />
        )}
      </div>
      {children}
      {rows.length === 0 ? (
        <p class="nothing">{nothing}</p>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached with the keyboard.
        <section class="wide" tabIndex={0} aria-label={`${title}, the rows`}>
          <table {...as('table')}>
            <thead {...as('rowgroup')}>
              <tr {...as('row')}>
                {columns.map((column) => (
                  <th
                    key={column.title}
                    {...as('columnheader')}
                    scope="col"
                    class={column.isNumber && 'number'}
                  >
                    {column.title}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody {...as('rowgroup')}>
              {shown.map(({ row, name }) => (
                <tr key={name} {...as('row')}>
                  {columns.map(({ title: of, isNumber, isWide, cell }) => (
                    <td
                      key={of}
                      {...as('cell')}
                      data-title={of}
                      class={`${isNumber ? 'number' : ''} ${isWide ? 'whole' : ''}`}
                    >
                      {cell(row)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
      {found.length > rowsAtFirst && (
        <button type="button" class="quiet" onClick={() => setWhole(!isWhole)}>
          {isWhole ? `Only the first ${rowsAtFirst}` : `All ${count(found.length)}`}
        </button>
      )}
    </section>
  );
}

export function TypeTable({ document: { types, typeCount } }: Of) {
  return (
    <Table
      id="types"
      title="Event types"
      rows={types}
      nameOf={({ eventType }) => eventType}
      note={
        typeCount > types.length ? `the busiest ${types.length} of ${count(typeCount)}` : 'since the start'
      }
      nothing="No event type is configured or published."
      columns={[
        { title: 'Type', isWide: true, cell: ({ eventType }) => <code>{eventType}</code> },
        {
          ...{ title: 'Last 10 minutes', isWide: true },
          cell: ({ eventType }) => <Sparkline events={trends.value.get(eventType)} />,
        },
        { title: 'Published', isNumber: true, cell: ({ published }) => count(published) },
        {
          ...{ title: 'Failed', isNumber: true },
          cell: ({ failed }) => <span class={failed > 0 ? 'bad' : ''}>{count(failed)}</span>,
        },
        { title: 'Dead letters', isNumber: true, cell: ({ deadLetters }) => count(deadLetters) },
        {
          ...{ title: 'Success', isNumber: true },
          cell: ({ published, failed }) =>
            published + failed === 0 ? '–' : percent(published / (published + failed)),
        },
        { title: 'Mean', isNumber: true, cell: ({ meanMs }) => milliseconds(meanMs) },
        { title: 'Longest', isNumber: true, cell: ({ maxMs }) => milliseconds(maxMs) },
      ]}
    />
  );
}

const levels: { readonly [State in TargetState]: (typeof targetStates)[State]['level'] } = {
  ...({
    found: 'fine',
    patched: 'fine',
    pending: 'warning',
    unloaded: 'critical',
    failed: 'critical',
  } as const),
};

export function TargetTable({ document: { targets } }: Of) {
  return (
    <Table
      id="targets"
      title="Targets"
      rows={targets}
      nameOf={({ target }, index) => `${target} ${index}`}
      note="functions whose calls become events"
      nothing="No function is captured: svc.targets is empty."
      columns={[
        { title: 'Function', isWide: true, cell: ({ target }) => <code>{target}</code> },
        { title: 'State', cell: ({ state }) => <span class={`chip ${levels[state]}`}>{state}</span> },
        { title: 'Calls', isNumber: true, cell: ({ calls }) => count(calls) },
        { title: 'Failed', isNumber: true, cell: ({ failed }) => count(failed) },
        { title: 'Skipped', isNumber: true, cell: ({ skipped }) => count(skipped) },
        {
          ...{ title: 'Why', isWide: true },
          cell: ({ reason, notes = [] }) => [reason, ...notes].filter(Boolean).join(' '),
        },
      ]}
    />
  );
}
