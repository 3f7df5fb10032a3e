import { Banner } from './banner.tsx';
import { Charts } from './charts.tsx';
import { DeadLetters } from './dead-letters.tsx';
import { Head } from './head.tsx';
import { latest, needsToken } from './live.ts';
import { Repair } from './repair.tsx';
import { RepairDialog } from './repair-dialog.tsx';
import { SignIn } from './sign-in.tsx';
import { TargetTable, TypeTable } from './tables.tsx';
import { Way } from './way.tsx';

export function Console() {
  const document = latest.value;
  if (document === undefined)
    return <main class="alone">{needsToken.value ? <SignIn /> : <Banner document={undefined} />}</main>;
  return (
    <>
      <Head document={document} />
      <main>
        {needsToken.value && <SignIn />}
        <Banner document={document} />
        <Way document={document} />
        <Charts />
        <Repair document={document} />
        <RepairDialog document={document} />
        <TypeTable document={document} />
        <TargetTable document={document} />
        <DeadLetters document={document} />
      </main>
      <footer>
        This process only. What the numbers mean stands in <code>docs/metrics.md</code> of the package.
      </footer>
    </>
  );
}
