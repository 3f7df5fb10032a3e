import type { Statement } from '../../transaction/driver.ts';
import type { Runnable } from './told-statement.ts';

/** Runs svc's own statements, each of them prepared once per handle with the driver's unpatched method. */
export function ownStatements<Handle extends object>(
  prepare: (this: Handle, text: string) => unknown,
): (handle: Handle, statement: Statement) => void {
  const ofSvc = new WeakMap<Handle, Map<string, Runnable>>();
  return (handle, { text, values }) => {
    const known = ofSvc.get(handle) ?? new Map<string, Runnable>();
    ofSvc.set(handle, known);
    const own = known.get(text) ?? (Reflect.apply(prepare, handle, [text]) as Runnable);
    known.set(text, own);
    // Own work, which the patched method lets pass.
    own.run(...values);
  };
}
