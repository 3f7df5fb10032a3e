import { installPacked } from '../../support/packed.ts';
import { otelPackages, subject } from '../support/subject.ts';
import { describeGroup, describeUnreached, type GroupSuite } from './describe-group.ts';
import type { FormKind } from './form.ts';
import { formsOf } from './forms.ts';
import { makeGroup } from './group.ts';
import { exceptionOn, onlyRequired } from './reached.ts';

const tested = await subject();
const { node, otel, hasSoundSyncHooks, stripsTypes } = tested;

function suite(kind: FormKind, way: '--import' | '--require'): GroupSuite {
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

describeGroup(suite('esm', '--import'));
describeGroup(suite('cjs', '--import'));
describeGroup(suite('package', '--import'));
describeGroup(suite('package-cjs', '--import'));
describeGroup(suite('unreachable', '--import'));
// Node 22.15 to 22.17 do not run TypeScript.
if (stripsTypes) describeGroup(suite('typescript', '--import'));

describeGroup({ ...suite('cjs', '--require'), exception: exceptionOn(tested) });
describeGroup(suite('package-cjs', '--require'));
for (const kind of ['esm', 'package'] as const) {
  if (hasSoundSyncHooks) describeGroup(suite(kind, '--require'));
  else describeUnreached({ ...suite(kind, '--require'), says: onlyRequired });
}
