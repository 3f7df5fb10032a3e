import { onStopSignal } from '../progress.ts';

/** Runs work that Ctrl-C ends in order; a second time it ends the process. */
export async function stoppable<T>(
  work: (isStopped: () => boolean) => Promise<T>,
  onStop: () => void,
): Promise<T> {
  let isStopped = false;
  const forget = onStopSignal(() => {
    isStopped = true;
    onStop();
  });
  try {
    return await work(() => isStopped);
  } finally {
    forget();
  }
}

/** Says that what is under way is still done. */
export function sayStopping(): void {
  process.stderr.write('\nsvc: stopping after the batch under way\n');
}
