import { SvcError } from '../../ground/errors.ts';
import { headerNameProblem, headerText, headerTextForm, maxHeaders } from '../../ground/event-fields.ts';
import { isNamedValues, plainObject } from '../../ground/named-values.ts';
import type { ExpressionScope } from '../expression/scope.ts';
import { type Selector, selector } from '../expression/selector.ts';

/**
 * What takes the headers out of a call, as texts; those that are null or undefined are left out.
 *
 * @throws SvcError for a name that no header can have (`SVC_CAPTURE_HEADERS`) and an expression that does not fit the function;
 *   the returned function throws what a failed expression throws, and `SVC_CAPTURE_HEADERS` for a value that is no header
 */
export function headerSelector(
  spec: Readonly<Record<string, string | Selector>>,
  parameterNames: readonly string[] | undefined,
): (call: ExpressionScope) => Readonly<Record<string, string>> {
  // Code without types names what it likes.
  if (!isNamedValues(spec)) throw wrong(`headers must be ${plainObject}`);
  const entries = Object.entries(spec);
  if (entries.length > maxHeaders) throw wrong(`there can be at most ${maxHeaders} headers`);
  const selectors = entries.map(([name, given], index) => {
    const problem = headerNameProblem(name);
    if (problem !== undefined) throw wrong(`header ${index + 1} ${problem}`);
    return { name, select: selector(given, `${name} header`, parameterNames) };
  });
  return (call) => {
    const headers: Record<string, string> = {};
    for (const { name, select } of selectors) {
      const text = headerText(select(call));
      if (text === undefined) throw wrong(`the header ${name} must be ${headerTextForm}`);
      if (text !== null) headers[name] = text;
    }
    return headers;
  };
}

function wrong(message: string): SvcError {
  return new SvcError('SVC_CAPTURE_HEADERS', message);
}
