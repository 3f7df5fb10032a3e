/**
 * Reads one batch ahead: the next one is there when the one before it has been sent. A large one is read in its turn, and
 * nothing beside it. What was begun is over when this ends.
 */
export async function* readAhead<Plan extends { readonly isLarge: boolean }, Batch>(
  plans: AsyncIterable<Plan>,
  read: (plan: Plan) => Promise<Batch>,
): AsyncGenerator<Batch> {
  let ahead: Promise<Batch> | undefined;
  try {
    for await (const plan of plans) {
      const last = ahead;
      ahead = plan.isLarge ? undefined : read(plan);
      // Its failure is told when its turn has come.
      ahead?.catch(() => {});
      if (last !== undefined) yield await last;
      if (plan.isLarge) yield await read(plan);
    }
    if (ahead !== undefined) yield await ahead;
  } finally {
    await ahead?.catch(() => {});
  }
}
