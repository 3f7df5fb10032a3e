import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type PublishedEvent, type Run, freshFolder, runApp, writeFiles, writeLinks } from '../support/run-app.ts';
import { driver } from './driver.ts';
import type { Form } from './form.ts';

/** What one form did in one process. */
export interface FormResult {
  readonly returned?: unknown;
  readonly error?: string;
  /** `file:line` of every `here()` that was passed, as the stack told it. */
  readonly lines: readonly string[];
}

export interface GroupRun extends Run {
  readonly results: Readonly<Record<string, FormResult>>;
}

/** Many forms in one application: one folder, one configuration, one process for each way to start it. */
export interface Group {
  readonly folder: string;
  run(args: readonly string[], env?: NodeJS.ProcessEnv): Promise<GroupRun>;
  /** The same, kept: for the run without svc that several others are compared with. */
  runOnce(args: readonly string[], env?: NodeJS.ProcessEnv): Promise<GroupRun>;
}

/** Event types are unique in a group: the id of the form and the name of the target. */
export const eventTypeOf = (form: Form, name: string): string => `${form.id} ${name}`;

export function makeGroup(application: string, name: string, node: string, forms: readonly Form[]): Group {
  const folder = freshFolder(application, name);
  const isCommonJs = forms.every((form) => form.kind === 'cjs' || form.kind === 'package-cjs');
  const extension = isCommonJs ? 'cjs' : 'mjs';
  for (const form of forms) writeForm(folder, form, extension);
  const ids = JSON.stringify(forms.map(({ id }) => id));
  writeFiles(folder, {
    'driver.cjs': driver,
    'main.mjs': `import { runForms } from './driver.cjs';\nawait runForms(${ids}, (id) => import(\`./\${id}/call.mjs\`).then((m) => m.default));\n`,
    'main.cjs': `const { runForms } = require('./driver.cjs');\nrunForms(${ids}, async (id) => require(\`./\${id}/call.cjs\`));\n`,
    'package.json': JSON.stringify({ name: 'forms', version: '1.0.0', imports: { '#forms/*': './*' } }),
    'svc.config.json': JSON.stringify(configuration(forms), null, 1),
  });
  const kept = new Map<string, Promise<GroupRun>>();

  async function run(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<GroupRun> {
    const results = join(folder, 'results.json');
    writeFiles(folder, { 'results.json': '{}' });
    const done = await runApp({
      node,
      cwd: folder,
      args: [...args, `main.${extension}`],
      env: { FORMS_RESULTS: results, ...env },
    });
    return { ...done, results: JSON.parse(readFileSync(results, 'utf8')) };
  }

  return {
    folder,
    run,
    runOnce(args, env = {}) {
      const key = JSON.stringify([args, env]);
      const known = kept.get(key) ?? run(args, env);
      kept.set(key, known);
      return known;
    },
  };
}

function writeForm(folder: string, form: Form, extension: string): void {
  const place = (path: string) => (path.startsWith('/') ? path.slice(1) : `${form.id}/${path}`);
  const entries = Object.entries({ ...form.files, [`call.${extension}`]: form.call });
  writeFiles(folder, Object.fromEntries(entries.map(([path, text]) => [place(path), text])));
  const links = Object.entries(form.links ?? {}).map(([from, to]) => [place(from), place(to)]);
  writeLinks(folder, Object.fromEntries(links));
}

export function configuration(forms: readonly Form[]): object {
  const targets = forms.flatMap((form) => {
    const [first] = Object.keys(form.files);
    return form.targets.map(({ name, module = `./${first ?? ''}`, ...fields }) => ({
      ...fields,
      module: module.startsWith('./') ? `./${form.id}/${module.slice(2)}` : module.replace(/^\//, './'),
      eventType: eventTypeOf(form, name ?? fields.function),
    }));
  });
  return { svc: { service: { name: 'forms' }, broker: { client: 'file', topic: 'forms' }, targets } };
}

export function eventsOf(run: Run, form: Form, name: string): PublishedEvent[] {
  return run.events.filter(({ value }) => value.eventType === eventTypeOf(form, name));
}
