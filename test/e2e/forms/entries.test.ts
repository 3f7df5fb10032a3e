import assert from 'node:assert/strict';
import { installPacked } from '../../support/packed.ts';
import { freshFolder, runApp, writeFiles } from '../support/run-app.ts';
import { otelPackages, subject } from '../support/subject.ts';
import { formsOf } from './forms.ts';
import { configuration, eventsOf } from './group.ts';

const { node, otel, hasSoundSyncHooks } = await subject();

describe('entry files', function entries() {
  this.timeout(300_000);
  for (const form of formsOf('entry')) {
    const [entry = ''] = Object.keys(form.files);
    for (const way of ['--import', '--require']) {
      const isReached = way === '--import' || hasSoundSyncHooks || entry.endsWith('.cjs');
      it(`${form.title}, ${way}${isReached ? '' : ': not reached'} [${form.id}]`, async () => {
        const application = installPacked(`forms-otel-${otel}`, { ...otelPackages[otel].api, knex: '3.3.0' });
        const cwd = freshFolder(application, form.id);
        writeFiles(cwd, {
          ...Object.fromEntries(Object.entries(form.files).map(([path, text]) => [`${form.id}/${path}`, text])),
          'svc.config.json': JSON.stringify(configuration([form])),
        });
        const args = [`${form.id}/${entry}`];
        const without = await runApp({ node, cwd, args });
        const under = await runApp({ node, cwd, args: [way, 'svc/register', ...args] });
        assert.deepEqual(JSON.parse(without.stdout), form.returns, without.stderr);
        assert.deepEqual({ code: under.code, stdout: under.stdout }, { code: 0, stdout: without.stdout }, under.stderr);
        const counts = Object.fromEntries(Object.keys(form.events).map((name) => [name, eventsOf(under, form, name).length]));
        const zeros = Object.fromEntries(Object.keys(form.events).map((name) => [name, 0]));
        assert.deepEqual(counts, isReached ? form.events : zeros, under.stderr);
        if (!isReached) assert.match(under.stderr, /with --require, Node [\d.]+ captures CommonJS only/);
      });
    }
  }
});
