import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ConsoleDocument } from '../src/manage/views.ts';
import type { Action, Done, Fields, Outcome } from './actions.ts';
import { plural } from './format.ts';
import { needsToken } from './live.ts';

export const opened = signal<Action | undefined>(undefined);

type Step =
  | { readonly name: 'choose' | 'count' | 'act' }
  | { readonly name: 'confirm'; readonly events: number; readonly problems: readonly string[] }
  | { readonly name: 'done'; readonly outcome: Outcome }
  | { readonly name: 'refused'; readonly text: string };

const asFirst: Fields = { limit: 1_000, type: '', since: '1d' };
const labels: Readonly<Record<keyof Fields, string>> = {
  limit: 'Maximum number of events',
  type: 'Only this event type (empty: all)',
  since: 'Stored since (a time, or an age: 90m, 2d)',
};

/** First counts, then asks to confirm the count and the environment, then runs. */
export function RepairDialog({ document }: { readonly document: ConsoleDocument }) {
  const action = opened.value;
  return action === undefined ? null : <Dialog key={action.id} {...{ action, document }} />;
}

function Dialog({ action, document }: { readonly action: Action; readonly document: ConsoleDocument }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [fields, setFields] = useState(asFirst);
  const [step, setStep] = useState<Step>(
    action.asks.length > 0 ? { name: 'choose' } : { name: 'confirm', events: 0, problems: [] },
  );
  useEffect(() => dialog.current?.showModal(), []);
  const isBusy = step.name === 'count' || step.name === 'act';
  const { service, environment } = document.process;
  const where = `${service.name ?? 'this service'} in ${environment ?? 'an environment without a name'}`;

  const go = async (dryRun: boolean): Promise<void> => {
    setStep({ name: dryRun ? 'count' : 'act' });
    const done = await action.run(fields, dryRun);
    setStep(nextOf(done, dryRun));
    if ('refused' in done && done.status === 401) needsToken.value = true;
  };
  const close = (): void => {
    opened.value = undefined;
  };

  return (
    <dialog ref={dialog} aria-labelledby="action" onClose={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (step.name === 'choose') void go(true);
        }}
      >
        <h2 id="action">
          {action.title}: {where}
        </h2>
        <p>{action.about}</p>
        {action.asks.map((name) => (
          <p key={name} class="field">
            <label for={name}>{labels[name]}</label>
            {name === 'limit' ? (
              <input
                {...{ id: name, type: 'number', min: 1, required: true, disabled: step.name !== 'choose' }}
                value={fields.limit}
                onInput={(event) => setFields({ ...fields, limit: event.currentTarget.valueAsNumber })}
              />
            ) : (
              <input
                {...{ id: name, required: name === 'since', disabled: step.name !== 'choose' }}
                value={fields[name]}
                onInput={(event) => setFields({ ...fields, [name]: event.currentTarget.value })}
              />
            )}
          </p>
        ))}
        <div aria-live="polite">
          <Said {...{ step, action, document, where }} />
        </div>
        <div class="buttons">
          {step.name === 'choose' && (
            <button class="first" type="submit">
              Count first
            </button>
          )}
          {step.name === 'confirm' && (step.events > 0 || action.asks.length === 0) && (
            <button class="first" type="button" onClick={() => void go(false)}>
              {action.verb(step.events)}
            </button>
          )}
          <button type="button" onClick={() => dialog.current?.close()}>
            {isBusy || step.name === 'choose' || step.name === 'confirm' ? 'Cancel' : 'Close'}
          </button>
        </div>
      </form>
    </dialog>
  );
}

function nextOf(done: Done, dryRun: boolean): Step {
  if ('refused' in done) return { name: 'refused', text: done.refused };
  const { events, problems } = done.outcome;
  return dryRun ? { name: 'confirm', events, problems } : { name: 'done', outcome: done.outcome };
}

interface SaidOf {
  readonly step: Step;
  readonly action: Action;
  readonly document: ConsoleDocument;
  readonly where: string;
}

function Said({ step, action, document, where }: SaidOf) {
  switch (step.name) {
    case 'choose':
      return null;
    case 'count':
      return <p>Counting, nothing is sent …</p>;
    case 'act':
      return <p>In progress. It continues in the process, even if you close this page …</p>;
    case 'confirm':
      if (step.events === 0 && action.asks.length > 0) return <p>There is nothing to send.</p>;
      return (
        <>
          <p class="asked">
            {action.confirm(step.events, document)}: {where}.
          </p>
          <Problems problems={step.problems} />
        </>
      );
    case 'done':
      return (
        <>
          <p class="asked">{step.outcome.text}</p>
          <Problems problems={step.outcome.problems} />
        </>
      );
    case 'refused':
      return <p class="bad">{step.text}</p>;
  }
}

function Problems({ problems }: { readonly problems: readonly string[] }) {
  if (problems.length === 0) return null;
  return (
    <ul aria-label={plural(problems.length, 'problem')}>
      {problems.map((problem) => (
        <li key={problem}>{problem}</li>
      ))}
    </ul>
  );
}
