import type { Subject } from '../support/subject.ts';
import type { Exception } from './describe-group.ts';
import type { Form } from './form.ts';

/** What svc says about targets that a required preload does not reach on a Node without sound synchronous hooks. */
export const onlyRequired: RegExp =
  /with --require, Node [\d.]+ captures CommonJS only|--require does not capture imports on Node/;

/** There a required preload sees an ES module only when `require()` loads it. */
export function exceptionOn({ hasSoundSyncHooks }: Subject): (form: Form) => Exception | undefined {
  return (form) => {
    const isModule = Object.keys(form.files).some((file) => file.endsWith('.mjs'));
    if (hasSoundSyncHooks || !isModule) return undefined;
    return { said: onlyRequired, isCaptured: form.id === 'cjs-requires-esm' };
  };
}
