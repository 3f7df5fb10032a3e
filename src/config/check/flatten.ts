import { isNamedValues } from '../../ground/named-values.ts';
import { nearestName } from '../../ground/nearest-names.ts';
import { kebabCase } from '../schema/option.ts';
import { isSection, knownNames, optionNamed, targetsName } from '../schema/schema.ts';
import { describeType, emptyValue, type Problem } from './problem.ts';
import { shownName } from './shown-name.ts';

/** A value as one source gives it, not yet checked. */
export interface Setting {
  /** As the documentation writes it. */
  readonly name: string;
  readonly value: unknown;
  /** For messages. A function, because the line of a file is only looked for when there is something to say. */
  readonly where: () => string;
  /** Where a list holds targets: where the target of that index stands. */
  readonly whereItem: (index: number) => string;
}

export interface Settings {
  readonly settings: ReadonlyMap<string, Setting>;
  readonly problems: readonly Problem[];
}

/** Keys as they are written, outermost first. */
export type RawPath = readonly (string | number)[];

/**
 * Takes an object apart into settings. Keys may be nested or dotted, kebab-case or camelCase. Unknown names, names that
 * are given twice and values in the place of a section become problems. Reads every property once.
 */
export function flatten(root: object, where: (path: RawPath) => string): Settings {
  const settings = new Map<string, Setting & { readonly spelled: string }>();
  const problems: Problem[] = [];

  const visit = (section: object, sectionName: string, path: RawPath): void => {
    for (const [key, value] of Object.entries(section)) {
      const rawPath = [...path, key];
      const name = sectionName === '' ? kebabCase(key) : `${sectionName}.${kebabCase(key)}`;
      if (optionNamed(name) !== undefined || name === targetsName) take(name, value, rawPath);
      else if (isSection(name)) enter(name, value, rawPath);
      else if (rawPath.length > 1 || key !== '$schema') unknown(name, rawPath);
    }
  };

  const take = (name: string, value: unknown, rawPath: RawPath): void => {
    if (value === undefined) return;
    // A list of targets of which each one is commented out; a topic that is missing where one is needed is said by its own words.
    if (value === null && (name === targetsName || name === 'svc.broker.topic')) return;
    const spelled = rawPath.join('.');
    if (value === null) {
      problems.push({ name, where: where(rawPath), ...emptyValue(`${rawPath.at(-1)}: "#…"`) });
      return;
    }
    const first = settings.get(name);
    if (first !== undefined) {
      const message = `is given twice, as ${first.spelled} and as ${spelled}`;
      problems.push({ name, message, where: where(rawPath), fix: 'Keep one of them' });
      return;
    }
    settings.set(name, {
      name,
      value,
      spelled,
      where: () => where(rawPath),
      whereItem: (index) => where([...rawPath, index]),
    });
  };

  const enter = (name: string, value: unknown, rawPath: RawPath): void => {
    if (value === null || value === undefined) return;
    if (isNamedValues(value)) {
      visit(value, name, rawPath);
      return;
    }
    const inside = knownNames().filter((known) => known.startsWith(`${name}.`) && !isSection(known));
    const fix = `Under it stand names such as ${inside.slice(0, 3).join(', ')}`;
    problems.push({
      name,
      message: 'must be a section',
      got: describeType(value),
      where: where(rawPath),
      fix,
    });
  };

  const unknown = (name: string, rawPath: RawPath): void => {
    const nearest = nearestName(name, knownNames());
    const fix =
      nearest === undefined ? 'All names stand in docs/configuration.md' : `Did you mean ${nearest}?`;
    const shown = shownName(rawPath.join('.'), knownNames());
    problems.push({ name: shown, message: 'is not a known name', where: where(rawPath), fix });
  };

  visit(root, '', []);
  return { settings, problems };
}
