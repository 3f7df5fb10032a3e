import { resolve } from 'node:path';
import { SvcError } from '../../ground/errors.ts';
import { printable, printableJson } from '../../observe/printable.ts';
import { type ExportReport, exportBackup } from '../../start/commands/recovery.ts';
import { createProgress, onStopSignal } from '../progress.ts';
import { recoveryConfig } from './recovery-config.ts';
import { acceptOf, type RecoveryOptions } from './recovery-options.ts';
import { eventsOf, onRequest } from './recovery-output.ts';
import { localPlace } from './recovery-places.ts';

export interface ExportOptions extends RecoveryOptions {
  readonly out: string;
  readonly format: 'event' | 'record';
}

/**
 * `svc backup export`: the events of the local backup as files, one each; the backup stays as it is.
 * Exit codes: 0 all of them, 1 something is missing there, 2 wrong use.
 *
 * @throws WrongUse
 */
export async function runExport(options: ExportOptions): Promise<number> {
  const accept = acceptOf(options);
  const { config } = recoveryConfig(options);
  if (config.file !== undefined) process.stderr.write(`svc: configuration ${config.file}\n`);
  const { directory, file } = localPlace(options, config, false);
  const out = resolve(options.out);
  const bar = createProgress(process.stderr);
  let isStopped = false;
  const forget = onStopSignal(() => {
    isStopped = true;
  });
  try {
    const report = await exportBackup({
      ...{ directory, file, out, format: options.format, accept },
      isStopped: () => isStopped,
      onProgress: ({ exported, skipped }, total) => bar.show(exported + skipped, total),
    });
    bar.end();
    if (options.json) process.stdout.write(`${printableJson(summaryOf(report, out), 2)}\n`);
    else process.stderr.write(linesOf(report, out));
    return report.isInterrupted || report.unreadable.length > 0 ? 1 : 0;
  } catch (error) {
    bar.end();
    if (!(error instanceof SvcError)) throw error;
    process.stderr.write(`svc: ${printable(error.message)}\n`);
    return 1;
  } finally {
    forget();
  }
}

function summaryOf({ exported, skipped, unreadable, isInterrupted }: ExportReport, out: string): object {
  return { folder: out, exported, skipped, unreadable, stopped: isInterrupted ? onRequest : null };
}

function linesOf({ exported, skipped, unreadable, isInterrupted }: ExportReport, out: string): string {
  const filtered = skipped > 0 ? `, ${skipped} left out by the filters` : '';
  const lines = [`${eventsOf(exported)} in ${out}${filtered}`];
  for (const { place, reason } of unreadable) lines.push(`not exported: ${place}: ${reason}`);
  if (isInterrupted) lines.push(`${onRequest}: there are more`);
  return `${lines.map(printable).join('\n')}\n`;
}
