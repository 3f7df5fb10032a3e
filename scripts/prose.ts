import { globSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { TextlintKernel, type TextlintKernelRule } from '@textlint/kernel';
import markdown from '@textlint/textlint-plugin-markdown';
import text from '@textlint/textlint-plugin-text';
import { load } from 'js-yaml';
import ts from 'typescript';

// `npm run lint`: the English of pages, of messages and of comments in the source. `node scripts/prose.ts <file or folder>…` checks some.
const { positionals } = parseArgs({ allowPositionals: true });
const root = resolve(import.meta.dirname, '..');
const PAGES = ['*.md', 'docs/**/*.md', 'examples/*/README.md'];
const SOURCES = ['src/**/*.ts', 'console/*.{ts,tsx}', 'scripts/dashboard.ts', 'ops/*.yaml', 'register.ts'];
const MAX_WORDS = 25;
/** Up to a full stop that something other than a small letter follows; `svc` begins sentences as it is. */
const SENTENCE = /\S[\s\S]*?(?:[.!?][)"”’*_]*(?=\s+(?:[^a-z]|svc\b))|$)/g;
/** On the line before a literal whose text comes from elsewhere. */
const EXCEPTION = 'prose: as is';

/** Turns of phrase that read as translated, and what to write instead. */
const DIALECT: readonly (readonly [RegExp, string])[] = [
  [
    /^what (?!happens)(?=(\S+ ){5})[^?]*\b(is|are|was|has|have|can|does|goes|comes|waits|needs)\b[^?]*$/i,
    'Name the subject first, not “What … is …”',
  ],
  [
    /^who(ever)? (?=(\S+ ){4})[^?]*$/i,
    'Name the subject: “A process that …”, or address the reader as “you”',
  ],
  [/\b(is|are|was|were|has|have) none\b/i, 'Negate the verb: “is not a …”, “has no …”'],
  [
    /(?<!\bthere )\b(is|are|was|were) no (?!longer\b|more\b|such\b|different\b|better\b)/i,
    'Negate the verb: “is not a …”, or “does not exist”',
  ],
  [/\b(that|which) none can have\b/i, 'Use “invalid”'],
  [/\b(is|are) not there\b/i, 'Use “does not exist”, “is missing”'],
  [/\bwas given (to|something)\b/i, 'Name the argument'],
  [/\bany more\b/i, 'Use “no longer”'],
  [
    /\bnobody (but|hears|sees|takes|waits|knows|needs|asks|reads|uses|handles|acts)\b|\bsomebody\b/i,
    'Say which process or person, or use the passive',
  ],
  [
    /\bhears? (of|about|from)\b|\bheard (of|about|from)\b/i,
    'Machines do not hear: “is told”, “sees”, “learns”',
  ],
  [/\b(has|have|had) to be there\b|\bis there\b(?! a)/i, 'Use “must exist”, “exists”'],
  [/(?<!\b(one|prefix) )of its own\b/i, 'Use “its own …” or “separate”'],
  [/\b(is|are) said\b/i, 'Say who reports it: “svc logs …”'],
  [/\bno longer is\b|\bno more\b(?! than)/i, 'Use “no longer”'],
  [/\bmade anew\b|\banew\b/i, 'Use “again”'],
  [/\bas well as such\b|\bthe one of\b/i, 'Repeat the noun'],
  [/\bshall\b/i, 'Use “must” or “should”'],
  [/\bunder way\b/i, 'Use “in progress”, “in flight”'],
  [
    /\bwhether or not\b|\bin order to\b|\bdue to the fact\b|\bat this (point in time|moment)\b|\boutside of\b/i,
    'Use fewer words',
  ],
  [/\bin all(?= *[,.;:)]| *$)/i, 'Use “in total”'],
  [/\b(can ?not|could not) be said\b/i, 'Use “is unknown”'],
  [/\bsay so\b|\bsays so\b/i, 'Name what to configure or what the log says'],
];

/** Terms of the default list that we write as the code and the field do. */
const NOT_OURS = ['ID', "id['’]?s", 'readme(s)?', 'regexp?(s)?', '(?<=(?:\\w+[^.?!])? )base64\\b'];

/** A sentence has 25 words at most, and none of the turns above. */
const sentences: TextlintKernelRule['rule'] = (context) => {
  const check = (node: Parameters<typeof context.getSource>[0]): void => {
    if (node === undefined) return;
    // Code and the addresses of links are not words. They keep their length, so that positions stay right.
    const source = context
      .getSource(node)
      .replace(/`[^`]*`/g, (code) => '`'.repeat(code.length))
      .replace(/\]\([^)]*\)/g, (address) => ']'.padEnd(address.length));
    for (const { 0: sentence, index } of source.matchAll(SENTENCE)) {
      const report = (message: string, at = 0): void =>
        context.report(node, new context.RuleError(message, { padding: context.locator.at(index + at) }));
      const words = sentence.split(/\s+/).filter((word) => /\w/.test(word)).length;
      if (words > MAX_WORDS) report(`${words} words, ${MAX_WORDS} at most: “${sentence.slice(0, 40)}…”`);
      for (const [pattern, remedy] of DIALECT) {
        const found = pattern.exec(sentence);
        if (found !== null) report(`“${found[0].slice(0, 40)}”: ${remedy}`, found.index);
      }
    }
  };
  return { [context.Syntax.Paragraph]: check, [context.Syntax.TableCell]: check };
};

/** Rules come without types. */
const ruleOf = async (name: string) => (await import(name)).default;
const rules: TextlintKernelRule[] = [
  { ruleId: 'sentences', rule: sentences },
  { ruleId: 'terminology', rule: await ruleOf('textlint-rule-terminology'), options: { exclude: NOT_OURS } },
];
const kernel = new TextlintKernel();
const plugins = [
  { pluginId: 'markdown', plugin: markdown.default },
  { pluginId: 'text', plugin: text.default },
];

interface Message {
  readonly line: number;
  readonly text: string;
}

const isSentence = (message: string): boolean =>
  (message.match(/(^|\s)[“"'(]?[A-Za-z][a-z'’-]*(?=[\s.,:;)!?”"']|$)/g) ?? []).length >= 4 &&
  !/^\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|WITH|MERGE|LOCK|SET|BEGIN|FROM|WHERE|AND|ON|ORDER|GRANT|REPLACE|VALUES)\b/.test(
    message,
  ) &&
  !/\n\s*\n|\n {2}|^[\w\s]{200,}$/.test(message);

/** The text of a literal, a template or a sum of them, with `X` for each computed part. */
function textOf(node: ts.Node): string | undefined {
  if (ts.isStringLiteralLike(node) || ts.isJsxText(node)) return node.text;
  if (ts.isTemplateExpression(node)) {
    return node.head.text + node.templateSpans.map((span) => `X${span.literal.text}`).join('');
  }
  if (ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.PlusToken) {
    const [left, right] = [textOf(node.left), textOf(node.right)];
    if (left !== undefined || right !== undefined) return `${left ?? 'X'}${right ?? 'X'}`;
  }
  return undefined;
}

function messagesOf(file: string, source: string): Message[] {
  const tree = ts.createSourceFile(file, source, ts.ScriptTarget.Latest, true);
  const lines = source.split('\n');
  const found: Message[] = [];
  const visit = (node: ts.Node, isPart = false): void => {
    if (ts.isImportDeclaration(node) || ts.isTaggedTemplateExpression(node)) return;
    const message = textOf(node);
    const line = tree.getLineAndCharacterOfPosition(node.getStart(tree)).line;
    if (!isPart && message !== undefined && isSentence(message) && !lines[line - 1]?.includes(EXCEPTION)) {
      found.push({ line: line + 1, text: message.replace(/\s+/g, ' ').trim() });
    }
    ts.forEachChild(node, (child) => visit(child, message !== undefined && textOf(child) !== undefined));
  };
  visit(tree);
  return found;
}

/** Consecutive `//` lines are one text, as is a block; its tags and its code are not prose. */
function commentsOf(file: string, source: string): Message[] {
  const tree = ts.createSourceFile(file, source, ts.ScriptTarget.Latest, true);
  const lineOf = (at: number): number => tree.getLineAndCharacterOfPosition(at).line + 1;
  const ranges = new Map<number, ts.CommentRange>();
  const visit = (node: ts.Node): void => {
    for (const range of ts.getLeadingCommentRanges(source, node.getFullStart()) ?? [])
      ranges.set(range.pos, range);
    for (const range of ts.getTrailingCommentRanges(source, node.getEnd()) ?? [])
      ranges.set(range.pos, range);
    for (const child of node.getChildren(tree)) if (!ts.isJSDoc(child)) visit(child);
  };
  visit(tree);
  const found: (Message & { end: number })[] = [];
  for (const { pos, end } of [...ranges.values()].sort((a, b) => a.pos - b.pos)) {
    const text = source
      .slice(pos, end)
      .replace(/^\/\*\*?|\*\/$|^\/\/ ?/g, '')
      .replace(/^ *\* ?/gm, '')
      .replace(/^ *@.*$/gm, '')
      // Each entry of a list is a sentence.
      .replace(/[.;:,]?\s*\n\s*- /g, '. ')
      .replace(/\s+/g, ' ')
      .trim();
    const last = found.at(-1);
    if (source.startsWith('//', pos) && last !== undefined && last.end === lineOf(pos) - 1) {
      found[found.length - 1] = { ...last, text: `${last.text} ${text}`, end: lineOf(end) };
    } else found.push({ line: lineOf(pos), text, end: lineOf(end) });
  }
  return found.filter(({ text }) => text !== '' && !/^(biome-ignore|@ts-|<reference)/.test(text));
}

/** The texts of alerts. */
function annotationsOf(source: string): Message[] {
  const { groups = [] } = load(source) as {
    groups?: { rules: { annotations?: Record<string, string> }[] }[];
  };
  const texts = groups.flatMap(({ rules: some }) =>
    some.flatMap(({ annotations }) => Object.values(annotations ?? {})),
  );
  return texts.filter(isSentence).map((each) => ({
    line: source.slice(0, source.indexOf(each)).split('\n').length,
    text: each.replace(/\{\{.*?\}\}/g, 'X'),
  }));
}

async function check(file: string): Promise<string[]> {
  const source = readFileSync(join(root, file), 'utf8');
  if (file.endsWith('.md')) {
    const filterRules = [
      {
        ruleId: 'comments',
        rule: await ruleOf('textlint-filter-rule-comments'),
        options: { enablingComment: 'prose-enable', disablingComment: 'prose-disable' },
      },
    ];
    const { messages } = await kernel.lintText(source, {
      ext: '.md',
      filePath: file,
      plugins,
      rules,
      filterRules,
    });
    return messages.map(({ loc, message }) => `${file}:${loc.start.line} ${message}`);
  }
  const found = file.endsWith('.yaml')
    ? annotationsOf(source)
    : [...messagesOf(file, source), ...commentsOf(file, source)];
  const { messages } = await kernel.lintText(found.map((each) => each.text).join('\n'), {
    ext: '.txt',
    filePath: `${file}.txt`,
    plugins,
    rules: rules.slice(0, 1),
  });
  return messages.map(({ loc, message }) => {
    const { line, text: whole } = found[loc.start.line - 1] as Message;
    return `${file}:${line} ${message}\n    ${whole}`;
  });
}

const files =
  positionals.length > 0
    ? positionals.flatMap((name) =>
        /\.\w+$/.test(name) ? [name] : globSync(`${name}/**/*.{ts,tsx,md}`, { cwd: root }),
      )
    : globSync([...PAGES, ...SOURCES], { cwd: root });
const remarks = (await Promise.all(files.sort().map(check))).flat();
for (const remark of remarks) process.stdout.write(`${remark}\n`);
process.stdout.write(
  `prose: ${files.length} files, ${remarks.length === 0 ? 'nothing to say' : `${remarks.length} remarks`}\n`,
);
process.exitCode = remarks.length === 0 ? 0 : 1;
