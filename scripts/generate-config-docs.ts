// Writes docs/configuration.md and svc.config.schema.json from the list of options in src/config.
// Run it after a change of that list: node scripts/generate-config-docs.ts
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Format, formats, type Option, options, variableOf } from '../src/config/schema/schema.ts';
import { type TargetField, targetFields } from '../src/config/schema/target.ts';
import { buildJsonSchema } from './json-schema.ts';
import { wordsOf } from './option-words.ts';

const sections: readonly (readonly [prefix: string, title: string])[] = [
  ['svc.enabled', 'Switches'],
  ['svc.required', 'Switches'],
  ['svc.aop.', 'Switches'],
  ['svc.service.', 'Service'],
  ['svc.telemetry.', 'OpenTelemetry'],
  ['svc.log.', 'Logging and the end of the process'],
  ['svc.shutdown.', 'Logging and the end of the process'],
  ['svc.id-generator.', 'Event ids'],
  ['svc.broker.dlq-', 'Dead letters and backups'],
  ['svc.broker.backup.', 'Dead letters and backups'],
  ['svc.broker.', 'Broker'],
  ['svc.retry.', 'Retries'],
  ['svc.serde.', 'Form of events (serde)'],
  ['svc.outbox.', 'Transactional outbox'],
  ['svc.security.', 'Request context'],
  ['svc.context.', 'Request context'],
  ['svc.pii.', 'Personal data'],
  ['management.', 'Management server'],
];

const head = `<!-- Made by scripts/generate-config-docs.ts: change the options in src/config, not this page. -->
# Configuration

svc reads \`svc.config.yaml\` (also \`.yml\`, \`.json\`, \`.mjs\`, \`.ts\`) from the working directory or the nearest folder above
it, no further than the project: the nearest package.json, or the root of the workspace that it belongs to. Without a
package.json it is the working directory alone. The line \`svc: configuration …\` says which file was taken. Where a folder holds
several, the first of that order is used and a warning says so.

\`SVC_CONFIG\` (\`--config\` for commands) names another file, wherever it lies. A file that was found, and not named, is refused
where somebody else may have written it: code (\`.mjs\`, \`.ts\`) that another user than that of the process or the superuser
owns, or that others may write, or that lies in a folder for which that holds; YAML and JSON of another user in a folder that
everybody may write. Who names the file answers for it. So in a container that runs as root on files of another user, and on
file systems without rights of their own, name a configuration that is code: \`SVC_CONFIG=./svc.config.mjs\`.

No message shows the text of a value, nor a name that is near to no known one: \`svc.?\`. Fields of
targets, where nothing is secret, are shown.

In TypeScript, \`export default defineConfig({ svc: { … } })\` with \`import { defineConfig } from 'svc'\` lets editors and the
compiler check it.

\`\`\`yaml
# yaml-language-server: $schema=./node_modules/svc/svc.config.schema.json
svc:
  service: { name: orders, version: 1.4.0 }
  broker:
    bootstrap-servers: [localhost:9092]
    topic: orders.events.v1
  targets:
    - { module: ./src/orders.ts, function: createOrder, eventType: ORDER_CREATED, payload: "#result" }
management:
  server: { port: 17820, address: 127.0.0.1 }
\`\`\`

- **Order.** Defaults, then the file, then environment variables, then code; what comes later wins, name by name. A list is
  replaced as a whole.
- **Names** may be nested or dotted (\`svc.broker.topic: orders\`), in kebab-case or camelCase (\`asyncMode\`). One name given
  twice is a problem. A name with nothing after it counts as not given.
- **Environment.** Every name is a variable too: \`svc.broker.request-timeout-ms\` is \`SVC_BROKER_REQUEST_TIMEOUT_MS\`. Lists
  are separated by commas, switches are \`true\` or \`false\` (or 1 or 0), \`SVC_TARGETS\` is JSON. An empty variable counts as not set.
- **Paths** are relative to the folder of the configuration file, without a file to the working directory.
- **Words** out of a fixed list are taken in upper and lower case.
- **\`.mjs\` and \`.ts\` files** export the same object as \`default\`, and may hold functions. They run before the application and
  synchronously, so without top-level \`await\`. What they import is loaded before svc can patch it: import nothing of the
  application there. \`.ts\` needs a Node that runs TypeScript (22.18 or later), or a loader such as tsx.
- **Mistakes** are reported at start, all together: name, what is wrong, value, file and line or variable, what to do. svc
  then does not start, and the application runs without it. A mistake in one target only leaves out that target.
  Values of passwords, tokens and keys are in no message.
- **No configuration at all** is no mistake: one line says where svc looked.
- \`svc.enabled: false\` in the environment or in code means that not even the file is read.
`;

/** The whole of docs/configuration.md. */
export function renderPage(): string {
  let page = head;
  for (const title of new Set(sections.map(([, title]) => title))) {
    page += `\n## ${title}\n\n${table(options.filter((option) => titleOf(option) === title))}`;
  }
  page += `\n## Targets\n\n\`svc.targets\` is a list; each entry makes one function publish. Names may be kebab-case here as well.\n\n`;
  page += `| Field | Values | Default | Meaning |\n|---|---|---|---|\n${targetFields.map(targetRow).join('')}`;
  return page;
}

function titleOf(option: Option): string {
  const section = sections.find(([prefix]) => option.name.startsWith(prefix));
  if (section === undefined) throw new Error(`${option.name} belongs to no section of the page`);
  return section[1];
}

function table(rows: readonly Option[]): string {
  const head = '| Name and variable | Values | Default | Meaning |\n|---|---|---|---|\n';
  return head + rows.map(row).join('');
}

function row(option: Option): string {
  const variables = [variableOf(option.name), ...(option.aliases ?? [])]
    .map((name) => `\`${name}\``)
    .join(', ');
  return line([`\`${option.name}\`<br>${variables}`, valuesOf(option), defaultOf(option), wordsOf(option)]);
}

function targetRow(field: TargetField): string {
  const byDefault = field.required ? 'required' : defaultOf(field);
  return line([`\`${field.name}\``, valuesOf(field), byDefault, wordsOf(field)]);
}

function defaultOf(option: Option | TargetField): string {
  if ('defaultText' in option && option.defaultText !== undefined) return option.defaultText;
  if (option.default === undefined) return 'unset';
  const value = Array.isArray(option.default) ? option.default.join(', ') : String(option.default);
  return value === '' ? 'empty' : `\`${value}\``;
}

const typeNames: Readonly<Record<string, string>> = { enum: '', headers: 'object', outbox: 'object' };

function valuesOf(option: Option | TargetField): string {
  const parts: string[] = [typeNames[option.type] ?? option.type];
  if (option.type === 'enum' || option.values)
    parts.push((option.values ?? []).map((value) => `\`${value}\``).join(', '));
  if (option.min !== undefined) parts.push(`${option.min} to ${option.max}`);
  if ('unit' in option && option.unit) parts.push(option.unit);
  if (option.format)
    parts.push(
      (formats[option.format] as Format).says.replace(/^must (not )?be /, (_, not) => (not ? 'not ' : '')),
    );
  if ('registeredBy' in option && option.registeredBy)
    parts.push(`or a name that \`${option.registeredBy}()\` has`);
  if (option.orFunction) parts.push('or a function');
  if ('secret' in option && option.secret) parts.push('secret');
  return parts.filter((part) => part !== '').join(', ');
}

function line(cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |\n`;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const root = resolve(import.meta.dirname, '..');
  writeFileSync(resolve(root, 'docs/configuration.md'), renderPage());
  const schema = resolve(root, 'svc.config.schema.json');
  writeFileSync(schema, JSON.stringify(buildJsonSchema()));
  const biome = resolve(root, 'node_modules/.bin/biome');
  execFileSync(biome, ['format', '--write', schema], { stdio: 'ignore' });
}
