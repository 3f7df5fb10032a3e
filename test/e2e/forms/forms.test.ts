import { installPacked } from '../../support/packed.ts';
import { otelPackages, subject } from '../support/subject.ts';
import { describeGroup, type Exception } from './describe-group.ts';
import type { Form } from './form.ts';
import { forms } from './forms.ts';
import { type Group, makeGroup } from './group.ts';

const { node, otel, hasSoundSyncHooks } = await subject();
const application = () => installPacked(`forms-otel-${otel}`, { ...otelPackages[otel].api, knex: '3.3.0' });
const of = (kind: string) => forms.filter((form) => form.kind === kind);
const group = (name: string, kind: string): Group => makeGroup(application(), name, node, of(kind));

const imported = { bare: [], captured: ['--import', 'svc/register'] };
const required = { bare: [], captured: ['--require', 'svc/register'] };

/** Where Node has no sound synchronous hooks, a required preload sees an ES module only when `require()` loads it. */
function exception(form: Form): Exception | undefined {
  if (hasSoundSyncHooks || !Object.keys(form.files).some((file) => file.endsWith('.mjs'))) return undefined;
  return { said: /with --require, Node [\d.]+ captures CommonJS only/, isCaptured: form.id === 'cjs-requires-esm' };
}

describeGroup({ title: 'ES modules, --import', forms: of('esm'), make: () => group('esm', 'esm'), ...imported });
describeGroup({ title: 'CommonJS, --import', forms: of('cjs'), make: () => group('cjs', 'cjs'), ...imported });
describeGroup({ title: 'packages, --import', forms: of('package'), make: () => group('package', 'package'), ...imported });
describeGroup({ title: 'CommonJS, --require', forms: of('cjs'), make: () => group('cjs-required', 'cjs'), exception, ...required });
describeGroup({ title: 'ES modules, --require', forms: of('esm'), make: () => group('esm-required', 'esm'), exception, ...required });
describeGroup({ title: 'packages, --require', forms: of('package'), make: () => group('package-required', 'package'), ...required });
