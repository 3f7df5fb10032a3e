import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Rolldown } from 'tsdown';

const serializer = /\/@opentelemetry\/exporter-prometheus\/dist\/PrometheusSerializer\./;
const silentApi = '\0silent-api';

/**
 * OpenTelemetry's serializer warns through its API of names that meet, which svc's do not. With a copy of the API in the bundle
 * an application would have two, and with an import one that has none would have no `/metrics`.
 */
export const withoutApi: Rolldown.Plugin = {
  name: 'serializer without the API',
  resolveId: {
    order: 'pre',
    handler: (source, importer) =>
      source === '@opentelemetry/api' && serializer.test((importer ?? '').replaceAll('\\', '/'))
        ? silentApi
        : undefined,
  },
  load: (id) => (id === silentApi ? 'export const diag = { error() {}, warn() {} };' : undefined),
};

/** Of all builds into `dist`: they run side by side, and the last one to write knows of the others. */
const bundled = new Set<string>();

/** Writes THIRD-PARTY-NOTICES.txt: the licence of each package of which a part stands in a file of `dist`. */
export const thirdPartyNotices: Rolldown.Plugin = {
  name: 'notices of bundled packages',
  writeBundle({ dir = 'dist' }, bundle) {
    const modules = Object.values(bundle).flatMap((file) => (file.type === 'chunk' ? file.moduleIds : []));
    for (const folder of modules.map(packageOf)) if (folder !== undefined) bundled.add(folder);
    if (bundled.size > 0) writeFileSync(join(dir, 'THIRD-PARTY-NOTICES.txt'), noticesOf([...bundled].sort()));
  },
};

/** The folder of the package that a file belongs to; `undefined` for a file of svc. */
function packageOf(file: string): string | undefined {
  return /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(file.replaceAll('\\', '/'))?.[0];
}

const heading = `Files of this folder contain parts of the packages named here: shortened in \`console/\`, and else as they are but for warnings, which go nowhere.`;

/** The packages of each licence, then its text, once. */
function noticesOf(folders: readonly string[]): string {
  const byText = Map.groupBy(folders.map(noticeOf), ({ text }) => text);
  const parts = [...byText].map(([text, packages]) => {
    const lines = [...new Set(packages.map(({ title }) => title))].sort();
    return `${lines.join('\n')}\n\n${text}\n`;
  });
  return `${heading}\n\n${parts.join(`\n${'-'.repeat(80)}\n\n`)}`;
}

function noticeOf(folder: string): { title: string; text: string } {
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const { name, version, license, author } = manifest as Record<string, string>;
  const files = readdirSync(folder).filter((file) => /^(licen[cs]e|notice)(\.\w+)?$/i.test(file));
  if (!files.some((file) => /^licen/i.test(file)))
    throw new Error(`${name} has no licence to bundle with it`);
  const text = files.sort().map((file) => readFileSync(join(folder, file), 'utf8').trimEnd());
  const by = author === undefined ? '' : `, by ${(author as { name?: string }).name ?? author}`;
  return { title: `${name} ${version} (${license})${by}`, text: text.join('\n\n') };
}
