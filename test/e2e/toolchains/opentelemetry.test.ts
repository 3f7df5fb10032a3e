import { describeGroup } from '../forms/describe-group.ts';
import type { FormKind } from '../forms/form.ts';
import { formsOf } from '../forms/forms.ts';
import { type Group, makeGroup } from '../forms/group.ts';
import { exceptionOn } from '../forms/reached.ts';
import { autoInstrumentedApp } from '../support/apps.ts';
import { subject } from '../support/subject.ts';

import { otelWays } from './neighbours.ts';

const tested = await subject();
const { node, otel, isMatrix } = tested;

const env = {
  OTEL_TRACES_EXPORTER: 'none',
  OTEL_METRICS_EXPORTER: 'none',
  OTEL_LOGS_EXPORTER: 'none',
  NODE_NO_WARNINGS: '1',
};

/** All forms in two applications: starting OpenTelemetry takes longer than running them. */
const applications: Readonly<Record<string, readonly FormKind[]>> = {
  'ES modules': ['esm', 'package'],
  CommonJS: ['cjs', 'package-cjs'],
};

describe(`beside the auto-instrumentations of OpenTelemetry line ${otel}`, () => {
  for (const [name, kinds] of Object.entries(applications)) {
    const forms = kinds.flatMap(formsOf);
    let group: Group | undefined;
    const make = () => {
      group ??= makeGroup(autoInstrumentedApp(otel), `otel-${kinds[0]}`, node, forms);
      return group;
    };
    for (const { id, title, bare, captured, isEveryday, isRequired } of otelWays) {
      const isPart = isRequired !== true || name === 'CommonJS';
      if (!isPart || !(isMatrix || (isEveryday && name === 'ES modules'))) continue;
      const exception = isRequired ? { exception: exceptionOn(tested) } : {};
      describeGroup({ title: `${name}: ${title} [${id}]`, forms, make, bare, captured, env, ...exception });
    }
  }
});
