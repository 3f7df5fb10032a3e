import assert from 'node:assert/strict';
import type { Form } from './form.ts';
import { eventsOf, eventTypeOf, type Group, type GroupRun } from './group.ts';

export interface GroupSuite {
  readonly title: string;
  readonly forms: readonly Form[];
  /** Made in a `before` hook: installs the application the first time. */
  readonly make: () => Promise<Group>;
  /** What stands before the entry file, without svc and with it. */
  readonly bare: readonly string[];
  readonly captured: readonly string[];
  /** Forms that this way of starting leaves alone, and what the report says about them. */
  readonly unreachable?: (form: Form) => RegExp | undefined;
}

/** One test a form: called without svc and with svc, each in one process for the whole group. */
export function describeGroup({ title, forms, make, bare, captured, unreachable }: GroupSuite): void {
  describe(title, () => {
    let bareRun: GroupRun;
    let svcRun: GroupRun;

    prepare(async () => {
      const group = await make();
      bareRun = await group.run(bare);
      svcRun = await group.run(captured);
    });

    it('ends as it does without svc', () => {
      assert.equal(bareRun.code, 0, bareRun.stderr);
      assert.equal(svcRun.code, 0, svcRun.stderr);
      assert.equal(svcRun.stdout, bareRun.stdout);
    });

    for (const form of forms) {
      it(`${form.title} [${form.id}]`, () => {
        assert.deepEqual(bareRun.results[form.id]?.returned, form.returns, bareRun.results[form.id]?.error);
        assert.deepEqual(svcRun.results[form.id], bareRun.results[form.id], 'differs under svc');
        const refused = form.refused ?? unreachable?.(form);
        const expected = refused === undefined ? form.events : zeros(form.events);
        assert.deepEqual({ ...countsOf(svcRun, form), ...said(svcRun, form, refused) }, expected);
        if (refused === undefined) checkContents(svcRun, form);
      });
    }

    it('publishes nothing else', () => {
      const known = forms.flatMap((form) => Object.keys(form.events).map((name) => eventTypeOf(form, name)));
      const others = svcRun.events.map(({ value }) => value.eventType).filter((type) => !known.includes(type));
      assert.deepEqual(others, []);
    });
  });
}

const prepare = (work: () => Promise<void>): void =>
  before(async function run() {
    this.timeout(300_000);
    await work();
  });

function countsOf(run: GroupRun, form: Form): Record<string, number> {
  return Object.fromEntries(Object.keys(form.events).map((name) => [name, eventsOf(run, form, name).length]));
}

/** What svc said about the form's targets, when that is not what it should say: so that a failure explains itself. */
function said(run: GroupRun, form: Form, refused: RegExp | undefined): { said?: string } {
  const lines = run.stderr.split('\n').filter((line) => line.includes('is not captured') && line.includes(form.id));
  const text = lines.join('\n');
  const isRight = refused === undefined ? lines.length === 0 : refused.test(text);
  return isRight ? {} : { said: text };
}

const zeros = (events: Form['events']): Record<string, number> =>
  Object.fromEntries(Object.keys(events).map((name) => [name, 0]));

function checkContents(run: GroupRun, form: Form): void {
  for (const [name, payloads] of Object.entries(form.payloads ?? {})) {
    assert.deepEqual(
      eventsOf(run, form, name).map(({ value }) => value.payload),
      payloads,
    );
  }
  for (const [name, keys] of Object.entries(form.keys ?? {})) {
    assert.deepEqual(
      eventsOf(run, form, name).map(({ key }) => key),
      keys,
    );
  }
}
