import { printable, printableJson } from '../../observe/printable.ts';
import { settingsInCode } from '../wrong-use.ts';
import { checkOnline } from './check-online.ts';
import { type Finding, findingsOf } from './findings.ts';
import { inspectApplication } from './inspect-application.ts';

export interface DoctorOptions {
  readonly config?: string;
  readonly json?: true;
}

const labels = { ok: 'ok', warning: 'WARNING', error: 'ERROR' } as const;

/** `svc doctor`: what svc needs here, in one list, each failure with its fix. Exit code 1: there is one. */
export async function runDoctor(options: DoctorOptions, command: readonly string[]): Promise<number> {
  const application = inspectApplication(options.config, command);
  const findings =
    typeof application === 'string'
      ? noConfiguration(application)
      : findingsOf(application, await checkOnline(application.config, application.ofConfig));
  const count = findings.filter(({ state }) => state === 'error').length;
  if (options.json) process.stdout.write(`${printableJson({ ok: count === 0, findings }, 2)}\n`);
  else {
    process.stdout.write(findings.map(linesOf).join(''));
    process.stderr.write(
      `${count === 0 ? 'nothing is wrong' : `${count} of ${findings.length} are wrong`}\n`,
    );
  }
  return count === 0 ? 0 : 1;
}

function linesOf({ area, state, text, fix }: Finding): string {
  const line = `${labels[state].padEnd(7)}  ${area.padEnd(13)}  ${printable(text)}`;
  return fix === undefined ? `${line}\n` : `${line}\n${' '.repeat(9)}fix: ${printable(fix)}\n`;
}

function noConfiguration(text: string): Finding[] {
  const fix = 'write one: npx --no svc init';
  return [{ area: 'configuration', state: 'error', text: text.replace(` ${settingsInCode}`, ''), fix }];
}
