import { type Rule, readRuleFile, ruleFileNames } from './rule-files.ts';

/** So many times faster: a minute is a second. */
const factor = 60;
/** svc asks the table for the oldest row every five seconds at most, and says between two answers that it grows older. */
const factorOfAge = 20;
const secondsOf: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400 };

/** The rules that are shipped, to the letter but for time: each duration, and each number of seconds, is a 60th, an age a 20th. */
export function scaledRuleFiles(): readonly object[] {
  return ruleFileNames.map((name) => ({
    groups: readRuleFile(name).groups.map((group) => ({ ...group, rules: group.rules.map(scaled) })),
  }));
}

function scaled(rule: Rule): Rule {
  const expr = shorter(rule.expr)
    // Events of a window are its rate times its seconds.
    .replace(/(rate1h|rate6h) \* (\d+)/g, (_, rate, seconds) => `${rate} * ${Number(seconds) / factor}`)
    .replace(/(_age_seconds\) > )(\d+)/g, (_, before, seconds) => before + Number(seconds) / factorOfAge);
  return { ...rule, expr, ...(rule.for !== undefined && { for: shorter(rule.for) }) };
}

/** Durations stand alone, in brackets or behind `offset`; the `1h` of `rate1h` is part of a name. */
function shorter(text: string): string {
  return text.replace(
    /(?<![\w:.])(\d+)([smhd])\b/g,
    (_, count, unit) => `${(Number(count) * (secondsOf[unit] as number) * 1_000) / factor}ms`,
  );
}
