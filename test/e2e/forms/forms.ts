import { cjsForms } from './cjs.ts';
import { entryForms } from './entries.ts';
import { esmDefinitions } from './esm-definitions.ts';
import { esmFactories } from './esm-factories.ts';
import { esmLoading } from './esm-loading.ts';
import { esmResults } from './esm-results.ts';
import type { Form, FormKind } from './form.ts';
import { packageCjsForms } from './packages-cjs.ts';
import { packageForms } from './packages.ts';
import { targetForms } from './targets.ts';
import { strippedForms } from './stripped.ts';
import { unreachableForms } from './unreachable.ts';

/** Every form of function that svc captures, or says that it cannot. The tables in docs/capture.md and docs/internals/capture.md have the same rows. */
export const forms: readonly Form[] = [
  ...esmDefinitions,
  ...esmFactories,
  ...esmLoading,
  ...esmResults,
  ...targetForms,
  ...cjsForms,
  ...packageForms,
  ...packageCjsForms,
  ...entryForms,
  ...strippedForms,
  ...unreachableForms,
];

export const formsOf = (kind: FormKind): readonly Form[] => forms.filter((form) => form.kind === kind);
