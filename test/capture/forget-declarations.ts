import { shared } from '../../src/ground/lifecycle.ts';

/** Each start declares everything that the process has ever declared: a test wants its own only. */
export function forgetDeclarations(): void {
  const { known } = shared<{ known: unknown[] }>('declarations', () => {
    throw new Error('declarations.ts is not loaded');
  });
  known.length = 0;
}
