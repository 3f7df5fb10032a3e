import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const folders: string[] = [];

/** An empty folder of a test's own, its path without links. It is removed when this process ends. */
export function temporaryFolder(name: string): string {
  if (folders.length === 0) process.once('exit', removeAll);
  const folder = realpathSync(mkdtempSync(join(tmpdir(), `svc-${name}-`)));
  folders.push(folder);
  return folder;
}

function removeAll(): void {
  for (const folder of folders) {
    try {
      rmSync(folder, { recursive: true, force: true });
    } catch {
      // A process that the tests have left still writes there: it is in the system's folder for what is temporary.
    }
  }
}
