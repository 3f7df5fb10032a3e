import { accessSync, constants } from 'node:fs';
import { resolve } from 'node:path';
import { isLoopback } from '../../ground/addresses.ts';
import { attributePrefix, isAttributeHeader, isAttributeText } from '../../ground/event-fields.ts';
import { changeableByOthers, readBoundedSync } from '../../ground/files.ts';
import { clientOf, type KafkaCompression, usualClient } from '../../ground/management.ts';
import { lazyPattern } from '../../ground/names.ts';
import { type PathRule, type PathStep, parseRulePath } from '../../ground/pii-rule.ts';
import { targetsName, variableOf } from '../schema/schema.ts';
import type { KeyFields, TargetConfig } from '../schema/target.ts';
import {
  type EncryptionKeyConfig,
  type Names,
  type Problem,
  printable,
  type Setting,
  topicRequired,
  type Values,
  wrongKey,
} from './validate.ts';

/** Checks options that depend on each other. */
export function checkAcrossOptions(
  input: CheckInput,
  targets: readonly TargetConfig[],
): Pick<Findings, 'problems' | 'warnings'> {
  const findings = openFindings(input);
  const { values, isGiven, isEmpty, add, warn, require } = findings;

  require('svc.broker.topic', topicRequired);

  const tls = ['ca-file', 'cert-file', 'key-file', 'server-name'].map((part) => `svc.broker.tls.${part}`);
  const [, cert = '', key = ''] = tls;
  if (isGiven(cert) !== isGiven(key))
    require(isGiven(cert) ? key : cert, 'is required: set certificate and key together');
  for (const name of tls.filter(isGiven)) {
    if (values.get('svc.broker.tls.enabled') === false) {
      warn(name, 'has no effect while svc.broker.tls.enabled is false', 'Set svc.broker.tls.enabled: true');
    } else if (name.endsWith('-file')) findings.mustBeReadable(name);
  }

  for (const [name, path] of namedFiles(findings)) {
    const why = changeableByOthers(resolve(input.baseDir, path));
    if (why === undefined) continue;
    const message = `names a file that others can change: ${why}`;
    warn(name, message, 'Change its owner or its mode: chown, chmod go-w');
  }

  if (values.get('svc.security.use-forwarded-headers') === true && isEmpty('svc.security.trusted-proxies')) {
    const message = 'has no effect: svc.security.trusted-proxies is empty';
    warn('svc.security.use-forwarded-headers', message, 'List the addresses of your proxies');
  }

  const address = String(values.get('management.server.address'));
  const publicUrl = 'management.server.public-url';
  if ((!isLoopback(address) || isGiven(publicUrl)) && !isGiven('management.server.token')) {
    const name = 'management.server.token';
    const [of, what, other] = isLoopback(address)
      ? [publicUrl, 'is set: behind the proxy, every client looks local', 'remove the proxy']
      : ['management.server.address', 'is not a loopback address', 'listen on 127.0.0.1'];
    const message = `is required when ${of} ${what}`;
    const fix = `Set the environment variable ${variableOf(name)}, or ${other}`;
    add(name, message, fix, of);
  }

  if (values.get('svc.broker.backup.s3-enabled') === true) {
    require('svc.broker.backup.s3-bucket', 's3Bucket is required when s3Enabled=true');
  }

  const format = values.get('svc.broker.backup.format');
  const order = 'svc.broker.backup.drain.order';
  if (values.get(order) === 'key' && ['event', 'record'].includes(String(format))) {
    const message = `key needs the journal, but svc.broker.backup.format is ${format}, and files keep no order`;
    add(order, message, 'Remove it, or set svc.broker.backup.format: journal');
  }

  const datasource = 'svc.outbox.datasource.url';
  const isOutboxOn = values.get('svc.outbox.enabled') === true;
  if (isOutboxOn && !isGiven(datasource)) {
    const message = 'is required when svc.outbox.enabled is true';
    const fix = `Set it in the file, or one of the environment variables ${variableOf(datasource)} and DATABASE_URL`;
    add(datasource, message, fix, 'svc.outbox.enabled');
  }

  if (isOutboxOn && values.get('svc.outbox.cleanup-enabled') === false) {
    const kept = ['svc.outbox.retention-days', 'svc.outbox.failed-retention-days'];
    for (const name of kept.filter((each) => isGiven(each) && values.get(each) !== 0)) {
      const message = 'has no effect while svc.outbox.cleanup-enabled is false';
      warn(name, message, 'Set svc.outbox.cleanup-enabled: true');
    }
  }

  const dlqTopic = values.get('svc.broker.dlq-topic');
  const ofTarget = targets.find(({ topic }) => topic !== undefined && topic === dlqTopic);
  if (dlqTopic !== undefined && (dlqTopic === values.get('svc.broker.topic') || ofTarget !== undefined)) {
    const name = 'svc.broker.dlq-topic';
    const of = ofTarget === undefined ? '' : ` of target ${ofTarget.id}`;
    const message = `dlqTopic must differ from topic${of}: dead letters would be read as events`;
    add(name, message, 'Name a separate topic, such as orders.events.dlq.v1');
  }
  checkKafkaClient(findings);
  checkSasl(findings);
  checkSerde(findings, targets);
  checkPii(findings, targets);
  return findings;
}

/** The configured files with keys, tokens, certificates and schemas, by option. */
function namedFiles({ values, settings }: Findings): [name: string, path: string][] {
  const single = [...settings.keys()].filter((name) => name.endsWith('-file'));
  const schemas = Object.values((values.get('svc.serde.schemas') ?? {}) as Names).flat();
  return [
    ...single.flatMap((name): [string, string][] => {
      const path = values.get(name);
      return typeof path === 'string' ? [[name, path]] : [];
    }),
    ...schemas.map((path): [string, string] => ['svc.serde.schemas', path]),
  ];
}

interface CheckInput {
  readonly values: Values;
  readonly invalid: ReadonlySet<string>;
  /** All given settings, valid or not. */
  readonly settings: ReadonlyMap<string, Setting>;
  readonly baseDir: string;
  /** Rules for personal data in code, if known. */
  readonly rules: readonly Pick<PathRule, 'strategy' | 'keyId'>[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** The input of a check, and what it has found. */
interface Findings extends CheckInput {
  readonly problems: Problem[];
  readonly warnings: Problem[];
  isGiven(name: string): boolean;
  isEmpty(list: string): boolean;
  where(name: string): string | undefined;
  /** `at`: the option whose place is reported. Default: `name`. */
  add(name: string, message: string, fix?: string, at?: string): void;
  warn(name: string, message: string, fix?: string): void;
  /** Reports a missing option. */
  require(name: string, message: string): void;
  /** Reports an option that names an unreadable file. */
  mustBeReadable(name: string): void;
}

function openFindings(input: CheckInput): Findings {
  const { values, settings, baseDir } = input;
  const problems: Problem[] = [];
  const warnings: Problem[] = [];
  const where = (name: string) => settings.get(name)?.where();
  const isGiven = (name: string) => settings.has(name);
  const add: Findings['add'] = (name, message, fix, at = name) =>
    problems.push({ name, message, where: where(at), fix });
  return {
    ...input,
    ...{ problems, warnings, where, isGiven, add },
    isEmpty: (list) => ((values.get(list) as readonly string[] | undefined) ?? []).length === 0,
    warn: (name, message, fix) => warnings.push({ name, message, where: where(name), fix }),
    require(name, message) {
      const fix = `Set ${name} in the file, or the environment variable ${variableOf(name)}`;
      if (!isGiven(name)) add(name, message, fix);
    },
    mustBeReadable(name) {
      const file = values.get(name);
      const why = typeof file === 'string' ? unreadable(resolve(baseDir, file)) : undefined;
      if (why !== undefined) add(name, why, 'Correct the path or its permissions');
    },
  };
}

/** Why a file cannot be read. `undefined`: it can be read. */
function unreadable(path: string): string | undefined {
  try {
    accessSync(path, constants.R_OK);
    return undefined;
  } catch (error) {
    return `names a file that cannot be read (${(error as NodeJS.ErrnoException).code})`;
  }
}

/** Checks that the Kafka client supports its settings. */
function checkKafkaClient({ values, invalid, isEmpty, isGiven, add, warn }: Findings): void {
  const servers = 'svc.broker.bootstrap-servers';
  const given = values.get('svc.broker.client') as string | undefined;
  const client = given ?? usualClient(!isEmpty(servers));
  const { isKafka, cannotCompress } = clientOf(client);

  if (isKafka && isEmpty(servers) && !invalid.has(servers)) {
    const message = `bootstrapServers is required when client is ${client}`;
    const fix = `List brokers as host:port, or set ${variableOf(servers)} or KAFKA_BROKERS`;
    add(servers, message, fix, isGiven(servers) ? servers : 'svc.broker.client');
  }

  const compression = 'svc.broker.compression';
  const codec = values.get(compression) as KafkaCompression;
  if (cannotCompress.includes(codec)) {
    const fix = 'Use gzip or zstd, or svc.broker.client: platformatic';
    add(compression, `${client} cannot compress with ${codec}`, fix);
  }

  if (isKafka && values.get('svc.broker.acks') === '0') {
    const message =
      'counts an event as published once it is sent: events that Kafka refuses or loses reach no other tier';
    warn('svc.broker.acks', message, 'Use all, or 1');
  }
  const lease = 'svc.id-generator.lease';
  if (!isKafka && values.get(lease) === 'kafka') {
    const message = `worker ids can be leased in Kafka only if events go to Kafka, but client is ${client}`;
    add(lease, message, 'Use auto or host');
  }
}

const chain =
  /^#?[A-Za-z_$][\w$]*(?:\?\.|\.[A-Za-z_$][\w$]*|\[(?:\d+|'[^']*'|"[^"]*")\]|\?\.[A-Za-z_$][\w$]*)*$/;
const texts = /'(?:[^']|'')*'|"(?:[^"]|"")*"/g;

/** Fields of a target (key, aggregate id, headers) that would publish a protected value in clear, with a message. */
export function shownInClear(
  { key, outbox, headers, payload, payloadIndex, params }: KeyFields,
  rules: readonly PathRule[],
): { readonly field: string; readonly message: string }[] {
  const inClear = [
    ['key', key],
    ['outbox.aggregateId', outbox?.aggregateId],
    ...Object.entries(headers ?? {}).map(([name, value]) => [`headers.${name}`, value]),
  ];
  return (inClear as [string, unknown][]).flatMap(([field, value]) => {
    const rule =
      typeof value === 'string' ? ruleOf(value, { payload, payloadIndex, params }, rules) : undefined;
    if (rule === undefined) return [];
    const { path, strategy } = rule;
    const what = path === '' ? 'the rule for the payload' : `the rule for ${path}`;
    // A text literal may be a secret.
    const shown = printable((value as string).replace(texts, "'…'"));
    return [{ field, message: `shows in clear what ${what} protects (${strategy}): "${shown}"` }];
  });
}

/** The rule for a value that the expression reads. Functions cannot be checked here; their values are compared at each event. */
function ruleOf(
  expression: string,
  { payload, payloadIndex, params }: Pick<KeyFields, 'payload' | 'payloadIndex' | 'params'>,
  rules: readonly PathRule[],
): PathRule | undefined {
  const base =
    payload ?? (payloadIndex === undefined || payloadIndex < 0 ? 'result' : `args[${payloadIndex}]`);
  const sources = typeof base === 'string' ? readsOf(base, params) : [];
  // A plain field elsewhere is compared at each event. A value derived from a field would not be recognized there.
  const isGuessed = typeof base !== 'string' || !chain.test(expression.trim());
  const reads = readsOf(expression, params);
  return rules.find(({ path }) => {
    const steps = path === '' ? [] : parseRulePath(path);
    if (typeof steps === 'string') return false;
    const isNamed = typeof steps[0] === 'object';
    const isDeep = steps[0] === '**' && typeof steps[1] === 'object';
    return reads.some(
      ({ keys }) =>
        (isDeep && covers(steps, keys)) ||
        (isGuessed && isNamed && covers(steps, keys.slice(keys[0] === 'args' ? 2 : 1))) ||
        sources.some(
          (source) =>
            source.keys.every((part, index) => part === keys[index]) &&
            covers(steps, [...source.labels, ...keys.slice(source.keys.length)]),
        ),
    );
  });
}

/** A value that an expression reads. */
interface Read {
  /** Starts with the name of a value of the call. `anyKey`: a computed key. */
  readonly keys: readonly string[];
  /** Keys of the enclosing map literals. */
  readonly labels: readonly string[];
}

type Paths = readonly (readonly string[])[];

const anyKey = '*';
const firstOfName = lazyPattern(String.raw`^#?[\p{ID_Start}$_]`, 'u');
const isName = (part = ''): boolean => firstOfName().test(part);
const isText = (part = ''): boolean => /^['"]/.test(part);
const bare = (part: string): string => part.replace(/^(['"])(.*)\1$/s, '$2');

const token = lazyPattern(
  String.raw`'(?:[^']|'')*'|"(?:[^"]|"")*"|#?[\p{ID_Start}$_][\p{ID_Continue}$]*|\d+(?:\.\d+)?|\?\.|\?:|\?\?|\S`,
  'gu',
);

/** Reads any text to its end. The compiler checks the syntax. */
function readsOf(text: string, params: readonly string[] = []): readonly Read[] {
  const tokens = text.match(token()) ?? [];
  const reads: Read[] = [];
  let at = 0;

  function rootOf(name: string): readonly string[] {
    const position = /^[pa](\d+)$/.exec(name)?.[1] ?? String(params.lastIndexOf(name));
    return position === '-1' ? [name] : ['args', position];
  }

  /** Reads up to and including the closing symbol. Returns the paths of its operands. */
  function sequence(close: string | undefined, labels: readonly string[], element: Paths): Paths {
    const ends: (readonly string[])[] = [];
    let inside = labels;
    for (let isFirst = true; at < tokens.length; isFirst = false) {
      const part = tokens[at++] as string;
      if (part === close) break;
      if (close === '}' && (isFirst || tokens[at - 2] === ',') && tokens[at] === ':') {
        inside = [...labels, bare(part)];
        at++;
      } else if (part === '(') ends.push(...accesses(sequence(')', inside, element), inside, element));
      else if (part === '{') ends.push(...accesses(sequence('}', inside, element), inside, element));
      else if (part === '#this' && element.length > 0) ends.push(...accesses(element, inside, element));
      else if (isName(part)) {
        const isOfElement = element.length > 0 && !part.startsWith('#');
        const start = isOfElement ? append(element, part) : [rootOf(part.replace(/^#/, ''))];
        ends.push(...accesses(start, inside, element));
      } else if (isText(part)) accesses([], inside, element);
    }
    return ends;
  }

  /** Reads what follows a value: properties, elements, methods, projections. */
  function accesses(start: Paths, labels: readonly string[], element: Paths): Paths {
    let paths = start;
    for (;;) {
      const isIndex = tokens[at] === '[' || (tokens[at] === '?.' && tokens[at + 1] === '[');
      const next = tokens[at + 1] ?? '';
      if (isIndex) {
        at += tokens[at] === '[' ? 1 : 2;
        const key = tokens[at] ?? '';
        const isLiteral = tokens[at + 1] === ']' && (isText(key) || /^\d/.test(key));
        sequence(']', labels, element);
        paths = append(paths, isLiteral ? bare(key) : anyKey);
      } else if (tokens[at] !== '.' && tokens[at] !== '?.') break;
      else if ((next === '!' || next === '?') && tokens[at + 2] === '[') {
        at += 3;
        const found = sequence(']', labels, append(paths, '0'));
        if (next === '!') paths = found;
      } else if (isName(next) && tokens[at + 2] === '(') {
        at += 3;
        const getter = /^get([A-Z])(.*)$/.exec(next);
        if (getter !== null) paths = append(paths, `${getter[1]?.toLowerCase()}${getter[2]}`);
        sequence(')', labels, element);
      } else {
        at += 2;
        paths = append(paths, next);
      }
    }
    for (const keys of paths) reads.push({ keys, labels });
    return paths;
  }

  sequence(undefined, [], []);
  return reads;
}

function append(paths: Paths, key: string): Paths {
  return paths.map((keys) => [...keys, key]);
}

/** Whether a rule covers the value at these keys or a parent of it. */
function covers(steps: readonly PathStep[], keys: readonly string[]): boolean {
  const [step, ...rest] = steps;
  if (step === undefined) return true;
  if (step === '**') return covers(rest, keys) || (keys.length > 0 && covers(steps, keys.slice(1)));
  const [key, ...more] = keys;
  if (key === undefined) return false;
  if (step === '*' || key === anyKey || step.key === key) return covers(rest, more);
  return /^\d+$/.test(key) && covers(steps, more);
}

type Rule = Pick<PathRule, 'strategy' | 'keyId'>;

const crypto = 'svc.pii.crypto';
const kms = 'svc.pii.kms';

/** Checks the keys and the salt that rules need. A value that cannot be protected later is refused here. */
function checkPii(findings: Findings, targets: readonly TargetConfig[]): void {
  const { values, settings, invalid, isGiven, add } = findings;
  if (values.get('svc.pii.enabled') === false) {
    const message = 'has no effect while svc.pii.enabled is false: personal data is published in clear';
    for (const name of settings.keys())
      if (name.startsWith('svc.pii.') && name !== 'svc.pii.enabled') findings.warn(name, message);
    return;
  }

  const rules: readonly Rule[] = [
    ...findings.rules,
    ...(values.get('svc.pii.fields') as readonly PathRule[]),
    ...targets.flatMap(({ pii = [] }) => pii),
  ];
  const key = values.get(`${crypto}.default-key`) as string | undefined;
  const wrong = key === undefined ? undefined : wrongKey(key);
  if (wrong !== undefined) add(`${crypto}.default-key`, wrong, 'Make one with openssl rand -base64 32');
  if (values.get(`${kms}.enabled`) === true) checkService(findings, rules);
  else if (!invalid.has(`${crypto}.keys`) && !invalid.has(`${crypto}.default-key`))
    checkConfigured(findings, rules, key);

  const hashes = rules.some(({ strategy }) => strategy === 'HASH');
  const mustSalt = values.get(`${crypto}.require-salt`) ?? findings.env.NODE_ENV === 'production';
  if (hashes && mustSalt === true && !isGiven(`${crypto}.salt`)) {
    const why = isGiven(`${crypto}.require-salt`) ? 'require-salt is set' : 'NODE_ENV is production';
    add(
      `${crypto}.salt`,
      `is required to hash: ${why}`,
      `Set ${variableOf(`${crypto}.salt`)} or PII_HASH_SALT`,
    );
  }
}

function checkConfigured(
  { values, add }: Findings,
  rules: readonly Rule[],
  defaultKey: string | undefined,
): void {
  const keys = (values.get(`${crypto}.keys`) ?? []) as readonly EncryptionKeyConfig[];
  const encrypting = rules.filter(({ strategy }) => strategy === 'ENCRYPT');
  const hasDefault =
    defaultKey !== undefined || keys.length === 1 || keys.some(({ status }) => status === 'primary');
  if (defaultKey !== undefined && keys.some(({ id }) => id === 'default')) {
    const message = 'has the id "default", which svc.pii.crypto.default-key also has';
    add(`${crypto}.keys`, message, 'Remove one of them');
  }
  if (!hasDefault && encrypting.some(({ keyId }) => keyId === undefined)) {
    const message = 'PII encryption key is not configured';
    const fix = 'Set PII_ENCRYPTION_KEY to Base64 of 32 random bytes (openssl rand -base64 32)';
    add(`${crypto}.default-key`, message, fix, `${crypto}.keys`);
  }
  const usable = keys.filter(({ status }) => status !== 'decrypt').map(({ id }) => id);
  if (defaultKey !== undefined) usable.push('default');
  for (const id of new Set(encrypting.map(({ keyId }) => keyId))) {
    if (id === undefined || usable.includes(id)) continue;
    const message = `has no key with the id "${id}" to encrypt with, which a rule names`;
    add(`${crypto}.keys`, message, 'Add it, or correct the keyId of the rule');
  }
}

function checkService({ values, isGiven, add }: Findings, rules: readonly Rule[]): void {
  const require = (name: string, message: string) => {
    if (!isGiven(name)) add(name, message, `Set ${name}`, `${kms}.enabled`);
  };
  require(`${kms}.type`, 'is required when svc.pii.kms.enabled is true: aws or vault');
  for (const name of [`${crypto}.default-key`, `${crypto}.keys`]) {
    const message = 'is set, although svc.pii.kms.enabled is true: svc must not guess which of them encrypts';
    if (isGiven(name)) add(name, message, 'Remove one of them');
  }
  const type = values.get(`${kms}.type`);
  const names = (values.get(`${kms}.keys`) ?? {}) as Names;
  const usesDefault = rules.some(({ strategy, keyId }) => strategy === 'ENCRYPT' && keyId === undefined);
  if (usesDefault && !Object.hasOwn(names, 'default')) {
    const message = 'PII encryption key is not configured: rules without keyId need it';
    if (type === 'aws') require(`${kms}.aws.default-key-arn`, message);
    if (type === 'vault') require(`${kms}.vault.default-key-path`, message);
  }
  if (type === 'vault') {
    const [token, file] = [`${kms}.vault.token`, `${kms}.vault.token-file`];
    if (!isGiven(file)) require(token, 'is required for Vault (or token-file)');
    else if (isGiven(token)) add(file, `is given beside ${token}`, 'Keep one of them');
  }
}

const prefix = 'svc.broker.sasl.';
const byToken = 'oauthbearer';
const inTokens = (name: string): string => `${prefix}${byToken}.${name}`;
const sources = ['token-endpoint-url', 'token-file', 'token'].map(inTokens);
const ofEndpoint = ['client-id', 'client-secret'].map(inTokens);
const user = ['username', 'password'].map((name) => prefix + name);

/** Checks the authentication with the brokers, by mechanism. */
function checkSasl(findings: Findings): void {
  const { values, settings, invalid, isGiven, require, warn } = findings;
  const mechanismName = `${prefix}mechanism`;
  // An empty list has no effect.
  const isEmpty = (name: string): boolean => Array.isArray(values.get(name)) && `${values.get(name)}` === '';
  const all = [...settings.keys()].filter((name) => name.startsWith(prefix) && !isEmpty(name));
  if (all.length === 0) return;
  require(mechanismName, 'is required to sign in to the brokers');
  if (invalid.has(mechanismName)) return;
  const mechanism = values.get(mechanismName) as string | undefined;
  const isToken = mechanism === byToken;
  const isTokenOnly = mechanism === undefined && !user.some(isGiven);

  if (!isToken && !isTokenOnly)
    for (const name of user) require(name, 'is required to sign in to the brokers');
  if (isToken) checkTokens(findings, mechanismName);
  for (const name of mechanism === undefined ? [] : isToken ? user : all.filter(isOfTokens))
    if (isGiven(name)) warn(name, `has no effect with mechanism ${mechanism}`, 'Remove it');

  if (values.get('svc.broker.tls.enabled') === false && mechanism !== undefined) {
    const message = `${inClear[mechanism] ?? guessable}, because svc.broker.tls.enabled is false`;
    warn(mechanismName, message, 'Set svc.broker.tls.enabled: true');
  }
}

function checkTokens({ values, isGiven, add, require, warn }: Findings, mechanismName: string): void {
  const given = sources.filter(isGiven);
  const [endpoint = ''] = sources;
  if (given.length === 0) add(mechanismName, `${byToken} needs a token`, `Set one of ${sources.join(', ')}`);
  for (const name of given.slice(1))
    add(
      name,
      `cannot be combined with ${given[0]}: there can be only one source of tokens`,
      'Keep one of them',
    );
  if (isGiven(endpoint)) for (const name of ofEndpoint) require(name, 'is required by the token endpoint');
  if (String(values.get(endpoint)).startsWith('http:'))
    warn(endpoint, 'sends the client secret unencrypted', 'Use an https address');
}

const inClear: Readonly<Record<string, string>> = {
  plain: 'sends the password unencrypted',
  [byToken]: 'sends the token unencrypted',
};
/** SCRAM sends no password, but enough to test guesses, and the events themselves are unencrypted. */
const guessable = 'lets anyone on the network guess passwords and read the events';

const isOfTokens = (name: string): boolean => name.startsWith(inTokens(''));

const type = 'svc.serde.type';
const ofSchemas = 'svc.serde.schemas';
const ofRegistry = (part: string): string => `svc.serde.schema-registry-${part}`;

/** Checks the limits of CloudEvents. */
function checkCloudEvents({ values, isGiven, add, warn }: Findings, targets: readonly TargetConfig[]): void {
  const envelope = 'svc.serde.envelope';
  if (values.get(envelope) !== 'cloudevents') {
    const given = ['mode', 'source'].map((part) => `svc.serde.cloudevents.${part}`).find(isGiven);
    if (given !== undefined)
      warn(given, `has no effect while ${envelope} is svc`, `Set ${envelope}: cloudevents`);
    return;
  }
  if (values.get(type) === 'AVRO') {
    const message = `must be svc when ${type} is AVRO: the schemas of svc hold its own envelope`;
    add(envelope, message, `Keep one of them: remove ${envelope}, or ${type}`);
  }
  for (const { index, eventType, headers } of targets) {
    const name = `svc.targets[${index}]`;
    const own = Object.keys(headers ?? {}).some(isAttributeHeader);
    if (own) {
      const message = `has a header that begins with ${attributePrefix}, the prefix of CloudEvents attributes`;
      add(`${name}.headers`, message, 'Give it another name', targetsName);
    }
    if (eventType !== undefined && !isAttributeText(eventType)) {
      const message = 'holds a control or other character that CloudEvents attributes do not allow';
      add(`${name}.eventType`, message, 'Give it another name', targetsName);
    }
  }
}

/** Checks the settings of AVRO, and settings without effect with JSON. */
function checkSerde(input: Findings, targets: readonly TargetConfig[]): void {
  const { values, settings, baseDir, ...findings } = input;
  const { isGiven, where, add, warn } = findings;
  checkCloudEvents(input, targets);
  if (values.get(type) !== 'AVRO') {
    // A variable that other programs use, too, causes no warning.
    const isShared = (name: string): boolean => /(?<!SVC_SERDE_)SCHEMA_REGISTRY_URL/.test(where(name) ?? '');
    const given = [...settings.keys()].find((name) => name.startsWith('svc.serde.schema') && !isShared(name));
    if (given !== undefined)
      warn(given, 'has no effect while svc.serde.type is JSON', 'Set svc.serde.type: AVRO');
    return;
  }
  const url = ofRegistry('url');
  if (values.get(url) === undefined) {
    const fix = `Set ${url}, such as http://localhost:8081`;
    add(url, 'is required when svc.serde.type is AVRO', fix, type);
  }
  const client = values.get('svc.broker.client') as string | undefined;
  if (clientOf(client ?? usualClient(isGiven('svc.broker.bootstrap-servers'))).isFiles) {
    const message = 'must be JSON if events go to files (svc.broker.client: file)';
    const fix =
      'Send them to Kafka (svc.broker.bootstrap-servers), or set the environment variable SVC_SERDE_TYPE=JSON';
    add(type, message, fix);
  }
  const [first, second] = ['username', 'token', 'token-file'].filter((way) => isGiven(ofRegistry(way)));
  if (second !== undefined) {
    const message = `is a second way to sign in, besides schema-registry-${first}`;
    add(ofRegistry(second), message, 'Keep one of them');
  }
  const address = String(values.get(url) ?? '');
  if (
    first !== undefined &&
    address.startsWith('http:') &&
    !isLoopback(new URL(address).hostname.replace(/^\[|\]$/g, ''))
  ) {
    const what = first === 'username' ? 'password' : 'token';
    warn(url, `sends the ${what} of the schema registry unencrypted`, 'Use an https address');
  }
  for (const part of ['token-file', 'ca-file']) findings.mustBeReadable(ofRegistry(part));
  for (const [eventType, [file = '', ...more]] of Object.entries((values.get(ofSchemas) ?? {}) as Names)) {
    const why = more.length > 0 ? 'names more than one file' : noSchema(resolve(baseDir, file));
    if (why === undefined) continue;
    add(ofSchemas, `of event type ${eventType} ${why}`, 'Name one file with an Avro schema (.avsc)');
  }
}

/** The Avro library checks the types of the schema. */
function noSchema(path: string): string | undefined {
  const why = unreadable(path);
  if (why !== undefined) return why;
  try {
    const schema: unknown = JSON.parse(readBoundedSync(path).toString());
    return typeof schema === 'object' && schema !== null ? undefined : 'names a file without an Avro schema';
  } catch {
    return 'names a file that is not JSON';
  }
}
