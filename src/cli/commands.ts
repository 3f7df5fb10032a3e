import { Command, Help, type Option } from 'commander';
import { version } from '../ground/version.ts';
import { addCatalog } from './catalog.ts';
import { addCheck } from './check.ts';
import { addInbox } from './inbox.ts';
import { addInit } from './init.ts';
import { addOutbox } from './outbox.ts';
import { addRecovery } from './recovery.ts';
import { addRunning } from './running.ts';
import { addReaders } from './tail.ts';
import { does, program, WrongUse } from './terminal.ts';

/**
 * The tree of all commands and options, for parsing, help and completion. Errors are thrown. `process.exitCode` is the command's result.
 */
export function commandTree(): Command {
  const svc = new Command(program)
    .description(`svc ${version}: function calls of a Node application as events in Kafka`)
    .version(version, '-v, --version', 'the version')
    .helpOption('-h, --help', 'this text, or that of a command')
    .helpCommand(false)
    .usage('<command> [--help], or help, or version')
    .configureHelp({
      subcommandTerm: (command) => command.name(),
      // The root lists only commands, so that its help fits one screen.
      visibleOptions: (command) => (command.parent === null ? [] : new Help().visibleOptions(command)),
    })
    .configureOutput({ outputError: () => {} })
    .exitOverride()
    .addHelpText(
      'after',
      `
Examples:
  ${program} doctor                    what is wrong here, and how to fix it
  ${program} dlq list --since 2h       what did not reach its topic, and why`,
    );
  addInit(svc);
  addCheck(svc);
  addCatalog(svc);
  addRunning(svc);
  addRecovery(svc);
  addOutbox(svc);
  addInbox(svc);
  addReaders(svc);
  const completion = svc
    .command('completion')
    .description(`print the completion script for a shell: ${shells.join(', ')}`)
    .argument('<shell>');
  does(completion, (_, shell = '') => runCompletion(svc, shell), { json: false, config: false });
  return svc;
}

/** A position in a command line and the words that may follow. */
interface Place {
  /** `''` for the root, or the commands so far: `outbox replay`. */
  readonly path: string;
  readonly words: readonly Word[];
}

interface Word {
  readonly word: string;
  readonly text: string;
  /** The next word is its value. */
  readonly takesValue: boolean;
}

const shells = ['bash', 'zsh', 'fish'] as const;

/**
 * Prints a completion script. It completes `svc`, not `npx svc`.
 *
 * @throws WrongUse
 */
async function runCompletion(tree: Command, shell: string): Promise<number> {
  const made = { bash, zsh, fish }[shell];
  if (made === undefined) throw new WrongUse(`svc completion takes ${shells.join(', ')}`);
  process.stdout.write(made(placesOf(tree)));
  return 0;
}

function placesOf(command: Command, path = ''): Place[] {
  const inside = command.commands.map((each) => ({
    word: each.name(),
    text: each.summary() || each.description(),
    takesValue: false,
  }));
  const options = [...command.options, help].flatMap(wordsOf);
  const below = command.commands.flatMap((each) => placesOf(each, `${path} ${each.name()}`.trim()));
  return [{ path, words: [...inside, ...options] }, ...below];
}

const help = { long: '--help', description: 'this text', required: false, optional: false } as const;

function wordsOf({
  long,
  description,
  required,
  optional,
}: Pick<Option, 'long' | 'description' | 'required' | 'optional'> | typeof help): Word[] {
  return long ? [{ word: long, text: description, takesValue: required || optional }] : [];
}

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
const firstLine = (text: string): string => text.split('\n')[0] ?? '';

/** A `case` on the commands so far, which bash and zsh share. */
function cases(places: readonly Place[], line: (place: Place) => string): string {
  return places.map((place) => `    ${quoted(place.path)}) ${line(place)} ;;`).join('\n');
}

/** Collects the commands before the cursor, without options and their values. The name `path` would be PATH in zsh. */
const pathLoop = (
  places: readonly Place[],
  words: string,
  from: string,
  to: string,
): string => `  local typed='' word i takes=0
  for ((i = ${from}; i < ${to}; i++)); do
    word="\${${words}[i]}"
    if ((takes)); then takes=0; continue; fi
    case " ${valued(places)} " in *" $word "*) takes=1; continue ;; esac
    case "$word" in -*) continue ;; esac
    case "\${typed:+$typed }$word" in
${places
  .filter(({ path }) => path !== '')
  .map(({ path }) => `      ${quoted(path)}) typed=${quoted(path)} ;;`)
  .join('\n')}
    esac
  done`;

function valued(places: readonly Place[]): string {
  const all = places.flatMap(({ words }) =>
    words.filter(({ takesValue }) => takesValue).map(({ word }) => word),
  );
  return [...new Set(all)].join(' ');
}

function bash(places: readonly Place[]): string {
  return `# svc completion for bash: source <(svc completion bash)
_svc() {
${pathLoop(places, 'COMP_WORDS', '1', 'COMP_CWORD')}
  local current="\${COMP_WORDS[COMP_CWORD]}" words=''
  if ((takes)); then COMPREPLY=($(compgen -f -- "$current")); return; fi
  case "$typed" in
${cases(places, ({ words }) => `words=${quoted(words.map(({ word }) => word).join(' '))}`)}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _svc svc
`;
}

function zsh(places: readonly Place[]): string {
  const described = ({ words }: Place): string =>
    `all=(${words.map(({ word, text }) => quoted(`${word}:${firstLine(text).replaceAll(':', '\\:')}`)).join(' ')})`;
  return `#compdef svc
# svc completion for zsh: source <(svc completion zsh)
_svc() {
  local -a all
${pathLoop(places, 'words', '2', 'CURRENT')}
  if ((takes)); then _files; return; fi
  case "$typed" in
${cases(places, described)}
  esac
  _describe 'svc' all || _files
}
compdef _svc svc
`;
}

function fish(places: readonly Place[]): string {
  const lines = places.flatMap(({ path, words }) => {
    const inside = path === '' ? [] : path.split(' ');
    const seen = inside.map((word) => `__fish_seen_subcommand_from ${word}`);
    const next = places.filter(
      (each) =>
        each.path !== path && each.path.startsWith(path) && each.path.split(' ').length === inside.length + 1,
    );
    const names = next.map((each) => each.path.split(' ').at(-1));
    const when = [
      ...seen,
      ...(names.length > 0 ? [`not __fish_seen_subcommand_from ${names.join(' ')}`] : []),
    ].join('; and ');
    const condition = when === '' ? '' : ` -n ${quoted(when)}`;
    return words.map(({ word, text, takesValue }) => {
      const what = word.startsWith('--') ? `-l ${word.slice(2)}${takesValue ? ' -r' : ''}` : `-f -a ${word}`;
      return `complete -c svc${condition} ${what} -d ${quoted(firstLine(text))}`;
    });
  });
  return `# svc completion for fish: svc completion fish | source\n${lines.join('\n')}\n`;
}
