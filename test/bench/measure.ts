export const calls = 2_000;
export const rounds = 100;

/** Microseconds of one call, the best of many rounds, in turns with what it is compared with. */
export function measure(run: () => unknown, against: () => unknown): { value: number; ratio: number } {
  const best = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  const both = [against, run];
  for (let round = 0; round < rounds; round++) {
    for (const [index, work] of both.entries()) {
      const started = process.hrtime.bigint();
      for (let call = 0; call < calls; call++) work();
      const us = Number(process.hrtime.bigint() - started) / 1000 / calls;
      best[index] = Math.min(best[index] as number, us);
    }
  }
  const [floor = 0, value = 0] = best;
  return { value: Number(value.toFixed(3)), ratio: Number((value / floor).toFixed(2)) };
}
