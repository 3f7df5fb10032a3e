import { installPacked } from '../../support/packed.ts';
import { otelPackages, subject } from '../support/subject.ts';
import { describeGroup } from './describe-group.ts';
import { forms } from './forms.ts';
import { makeGroup } from './group.ts';

const of = (kind: string) => forms.filter((form) => form.kind === kind);

async function group(name: string, kind: string) {
  const { node, otel } = await subject();
  return makeGroup(installPacked(`forms-otel-${otel}`, { ...otelPackages[otel].api, knex: '3.3.0' }), name, node, of(kind));
}

describeGroup({
  title: 'forms: ES modules, --import svc/register',
  forms: of('esm'),
  make: () => group('esm', 'esm'),
  bare: [],
  captured: ['--import', 'svc/register'],
});
