/** Runs work that Ctrl-C ends in order; a second time it ends the process. */
export async function stoppable<T>(
  work: (isStopped: () => boolean) => Promise<T>,
  onStop: () => void,
): Promise<T> {
  let isStopped = false;
  const stop = (): void => {
    isStopped = true;
    onStop();
  };
  process.once('SIGINT', stop);
  process.once('SIGTERM', stop);
  try {
    return await work(() => isStopped);
  } finally {
    process.removeListener('SIGINT', stop);
    process.removeListener('SIGTERM', stop);
  }
}

/** Says that what is under way is still done. */
export function sayStopping(): void {
  process.stderr.write('\nsvc: stopping after the batch under way\n');
}
