import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { formatProblem, type Problem } from '../../src/config/check/check.ts';
import { type LoadedConfig, loadConfig } from '../../src/config/read/load.ts';

const folders: string[] = [];

/** A folder with these files (path -> content), removed after the test. */
export function folderWith(files: Record<string, string> = {}): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'svc-config-')));
  folders.push(folder);
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
  return folder;
}

export function removeFolders(): void {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
}

/** Loads a `svc.config.yaml` of this content. */
export function loadYaml(text: string, env: NodeJS.ProcessEnv = {}): LoadedConfig {
  return loadConfig({ cwd: folderWith({ 'svc.config.yaml': text }), env });
}

/** Loads settings from code, beside a topic. */
export function loadCode(svc: object, management: object = {}): LoadedConfig {
  return loadConfig({ cwd: folderWith(), env: {}, code: { 'svc.broker.topic': 'orders', svc, management } });
}

export function lines(problems: readonly Problem[]): string[] {
  return problems.map(formatProblem);
}
