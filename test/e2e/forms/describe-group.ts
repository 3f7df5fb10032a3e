import assert from 'node:assert/strict';
import { join } from 'node:path';
import { loadConfig } from '../../../src/config/read/load.ts';
import { inspectTargets } from '../../../src/capture/inspect.ts';
import type { Form } from './form.ts';
import { eventsOf, eventTypeOf, type Group, type GroupRun } from './group.ts';

export interface GroupSuite {
  readonly title: string;
  readonly forms: readonly Form[];
  /** Called in a `before` hook: installs the application the first time. */
  readonly make: () => Group;
  /** What stands before the entry file, without svc and with it. */
  readonly bare: readonly string[];
  readonly captured: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
  /** Forms that this way of starting cannot capture, or warns about all the same. */
  readonly exception?: (form: Form) => Exception | undefined;
}

export interface Exception {
  /** What svc says about the form's targets. */
  readonly said: RegExp;
  readonly isCaptured: boolean;
}

/** One test a form: called without svc and with svc, each in one process for the whole group. */
export function describeGroup({ title, forms, make, bare, captured, env, exception }: GroupSuite): void {
  describe(title, () => {
    let without: GroupRun;
    let under: GroupRun;
    let folder: string;

    before(async function run() {
      this.timeout(300_000);
      const group = make();
      folder = group.folder;
      without = await group.runOnce(bare, env);
      under = await group.run(captured, env);
    });

    it('ends as it does without svc', () => {
      assert.equal(without.code, 0, without.stderr);
      assert.equal(under.code, 0, under.stderr);
      assert.equal(under.stdout, without.stdout);
    });

    for (const form of forms) {
      it(`${form.title} [${form.id}]`, () => {
        assert.deepEqual(without.results[form.id]?.returned, form.returns, without.results[form.id]?.error);
        assert.deepEqual(under.results[form.id], without.results[form.id], 'differs under svc');
        const except = exception?.(form) ?? (form.refused && { said: form.refused, isCaptured: false });
        const isCaptured = except?.isCaptured ?? true;
        const expected = isCaptured ? form.events : zeros(form.events);
        assert.deepEqual({ ...countsOf(under, form), ...said(under, form, except?.said) }, expected);
        if (isCaptured) checkContents(under, form);
        if (form.reported) assert.match(under.stderr, form.reported);
      });
    }

    it('svc check says of each target what the start says', () => {
      const { config } = loadConfig({ file: join(folder, 'svc.config.json') });
      const lines = under.stderr.split('\n');
      const told = inspectTargets(config)
        // Another way of starting reaches other forms.
        .filter(({ id }) => !forms.some((form) => id.includes(`${form.id}/`) && exception?.(form)))
        // What a package exports is known when it is loaded.
        .filter(({ state }) => state !== 'pending')
        .map(({ id, state, reason }) => ({ id, isFound: state === 'found', reason }));
      const started = told.map(({ id, reason }) => ({
        id,
        isFound: !lines.some((line) => line.includes(`target ${id} is not captured: `)),
        reason,
      }));
      assert.deepEqual(told, started);
    });

    it('publishes nothing else', () => {
      const known = forms.flatMap((form) => Object.keys(form.events).map((name) => eventTypeOf(form, name)));
      const others = under.events.map(({ value }) => value.eventType).filter((type) => !known.includes(type));
      assert.deepEqual(others, []);
    });
  });
}

/**
 * A way of starting that reaches none of these forms: the application is unharmed, every target is reported, and what is
 * declared in code publishes all the same.
 */
export function describeUnreached({ title, forms, make, bare, captured, says }: GroupSuite & { readonly says: RegExp }): void {
  describe(`${title}: not reached`, () => {
    let without: GroupRun;
    let under: GroupRun;

    before(async function run() {
      this.timeout(300_000);
      const group = make();
      without = await group.runOnce(bare);
      under = await group.run(captured);
    });

    it('leaves the application as it is', () => {
      assert.equal(under.code, 0, under.stderr);
      assert.deepEqual(under.results, without.results);
    });

    it('says so for each target that made no event', () => {
      const seen = new Set(under.events.map(({ value }) => value.eventType));
      const silent = forms.flatMap((form) =>
        form.targets
          .filter((target) => !seen.has(eventTypeOf(form, target.name ?? target.function)))
          .map((target) => `${target.module ?? ''}#${target.function}`.replace(/^[./\\]*/, '')),
      );
      assert.ok(silent.length > forms.length / 2, 'more is captured than expected');
      const lines = under.stderr.split('\n').filter((line) => says.test(line));
      assert.deepEqual(silent.filter((id) => !lines.some((line) => line.replaceAll('\\', '/').includes(id.replaceAll('\\', '/')))), []);
    });
  });
}

function countsOf(run: GroupRun, form: Form): Record<string, number> {
  return Object.fromEntries(Object.keys(form.events).map((name) => [name, eventsOf(run, form, name).length]));
}

/** What svc said about the form's targets, when that is not what it should say: so that a failure explains itself. */
function said(run: GroupRun, form: Form, expected: RegExp | undefined): { said?: string } {
  const lines = run.stderr
    .split('\n')
    .filter((line) => line.includes('is not captured') && line.includes(`${form.id}/`));
  const text = lines.join('\n');
  const isRight = expected === undefined ? lines.length === 0 : expected.test(text);
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
  for (const [name, added] of Object.entries(form.headers ?? {})) {
    // svc's own names are in camel case, or hold a hyphen.
    const ownName = /[A-Z-]|^trace/;
    assert.deepEqual(
      eventsOf(run, form, name).map(({ headers }) =>
        Object.fromEntries(Object.entries(headers).filter(([header]) => !ownName.test(header))),
      ),
      added,
    );
  }
}
