import { cjsForms } from './cjs.ts';
import { esmDefinitions } from './esm-definitions.ts';
import { esmFactories } from './esm-factories.ts';
import { esmLoading } from './esm-loading.ts';
import { esmResults } from './esm-results.ts';
import type { Form } from './form.ts';
import { packageForms } from './packages.ts';
import { ruleForms } from './rules.ts';

/** Every form of function that svc captures, or says that it cannot. The table in docs/capture.md has the same rows. */
export const forms: readonly Form[] = [
  ...esmDefinitions,
  ...esmFactories,
  ...esmLoading,
  ...esmResults,
  ...ruleForms,
  ...cjsForms,
  ...packageForms,
];
