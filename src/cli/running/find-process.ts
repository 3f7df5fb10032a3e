// running/: commands that ask a process over its management server.

import type { Command } from 'commander';
import { loadConfig } from '../../config/read/load.ts';
import { stampText } from '../../ground/claims/process-stamp.ts';
import { readBoundedSync } from '../../ground/files/folders.ts';
import { type ProcessEntry, readProcessFiles } from '../../ground/files/process-file.ts';
import { usualPorts } from '../../ground/management.ts';
import { printable } from '../../observe/printable.ts';
import { WrongUse } from '../wrong-use.ts';

/** Which process is meant, and what it is asked with. */
export interface ProcessOptions {
  readonly config?: string;
  readonly json?: true;
  readonly url?: string;
  readonly pid?: string;
  readonly tokenFile?: string;
}

export function withProcess(command: Command): Command {
  return command
    .option(
      '--url <url>',
      'of its management server (default: the one process of this user, else that of the configuration)',
    )
    .option('--pid <pid>', 'which process of this user, where there are several')
    .option('--token-file <file>', 'file with the token (default: that of the configuration)');
}

export interface ManagedProcess {
  /** Without a slash at its end. */
  readonly url: string;
  readonly pid?: number;
  readonly token: string | undefined;
  /** How the process names itself, where its process file says it. */
  readonly stamp?: string | undefined;
}

/**
 * @param acts needs the token for what acts
 * @throws WrongUse
 */
export function findProcess(options: ProcessOptions, acts = false): ManagedProcess {
  // What else is wrong with the configuration does not matter here.
  const { server } = loadConfig({ file: options.config }).config.management;
  const token =
    options.tokenFile === undefined
      ? ((acts ? server.actionToken : undefined) ?? server.token ?? server.actionToken)
      : tokenIn(options.tokenFile);
  if (options.url !== undefined) {
    if (options.pid !== undefined)
      throw new WrongUse('--url and --pid both name a process: give one of them');
    return { url: urlGiven(options.url), token };
  }
  const running = processes();
  const meant =
    options.pid === undefined ? running : running.filter(({ pid }) => String(pid) === options.pid);
  const [first, second] = meant;
  if (second !== undefined)
    throw new WrongUse(
      `${meant.length} processes run here, name one with --pid: ${meant.map(described).join('; ')}`,
    );
  if (first !== undefined)
    return { url: urlOf(first), pid: first.pid, token, stamp: first.stamp && stampText(first.stamp) };
  if (options.pid !== undefined)
    throw new WrongUse(
      `no process ${printable(options.pid)} of this user has a management server; --url names one of others`,
    );
  const { address, port = 0 } = server;
  return { url: urlOf({ address, port: port > 0 ? port : usualPorts.first }), token };
}

/** All of this user that were started in a folder. */
export function processesIn(folder: string, token: string | undefined): readonly ManagedProcess[] {
  return processes()
    .filter(({ cwd }) => cwd === folder)
    .map((entry) => ({
      ...{ url: urlOf(entry), pid: entry.pid, token },
      stamp: entry.stamp && stampText(entry.stamp),
    }));
}

function tokenIn(file: string): string {
  try {
    return readBoundedSync(file).toString().trim();
  } catch (error) {
    throw new WrongUse(`--token-file cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
}

function urlGiven(text: string): string {
  const url = /^https?:\/\//i.test(text) ? text : `http://${text}`;
  if (!URL.canParse(url)) throw new WrongUse('--url takes a URL such as http://127.0.0.1:17820');
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`.replace(/\/+$/, '');
}

/** An address for all of the host's is reached over its loopback. */
function urlOf({
  address,
  port,
  tls = false,
}: Pick<ProcessEntry, 'address' | 'port'> & { tls?: boolean }): string {
  const host = { '0.0.0.0': '127.0.0.1', '::': '::1' }[address] ?? address;
  return `${tls ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** A folder that others can write to says nothing: a file there could lead a token to their port. */
function processes(): readonly ProcessEntry[] {
  try {
    return readProcessFiles();
  } catch {
    return [];
  }
}

const described = ({ pid, name, address, port }: ProcessEntry): string =>
  printable(`${pid}${name ? ` (${name})` : ''} on ${address}:${port}`);
