import { installPacked } from '../../support/packed.ts';
import { otelPackages, subject } from '../support/subject.ts';
import { describeGroup, describeUnreached, type Exception } from './describe-group.ts';
import type { Form, FormKind } from './form.ts';
import { formsOf } from './forms.ts';
import { makeGroup } from './group.ts';

const { node, otel, hasSoundSyncHooks, stripsTypes } = await subject();

function suite(kind: FormKind, way: '--import' | '--require') {
  return {
    title: `${kind} ${way}`,
    forms: formsOf(kind),
    make: () => {
      const application = installPacked(`forms-otel-${otel}`, { ...otelPackages[otel].api, knex: '3.3.0' });
      return makeGroup(application, `${kind}${way}`, node, formsOf(kind));
    },
    bare: [],
    captured: [way, 'svc/register'],
  };
}

/** Where Node has no sound synchronous hooks, a required preload sees an ES module only when `require()` loads it. */
const onlyRequired = /with --require, Node [\d.]+ captures CommonJS only|import does not reach it with --require/;
function exception(form: Form): Exception | undefined {
  if (hasSoundSyncHooks || !Object.keys(form.files).some((file) => file.endsWith('.mjs'))) return undefined;
  return { said: onlyRequired, isCaptured: form.id === 'cjs-requires-esm' };
}

describeGroup(suite('esm', '--import'));
describeGroup(suite('cjs', '--import'));
describeGroup(suite('package', '--import'));
describeGroup(suite('package-cjs', '--import'));
describeGroup(suite('unreachable', '--import'));
if (stripsTypes) describeGroup(suite('typescript', '--import'));

describeGroup({ ...suite('cjs', '--require'), exception });
describeGroup(suite('package-cjs', '--require'));
for (const kind of ['esm', 'package'] as const) {
  if (hasSoundSyncHooks) describeGroup(suite(kind, '--require'));
  else describeUnreached({ ...suite(kind, '--require'), says: onlyRequired });
}
