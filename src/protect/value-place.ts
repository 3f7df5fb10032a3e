import type { FieldRule } from '../ground/pii-rule.ts';
import { kindOf } from './kind.ts';
import type { ClassMarks } from './marks/class-marks.ts';
import { deadState, type PathState } from './marks/path-states.ts';
import type { Policy } from './marks/policy.ts';
import type { MarkedValues } from './to-json.ts';

/** What holds for the value at hand. */
export interface Place {
  readonly state: PathState;
  /** Of the value itself, or inherited from what it stands in. */
  readonly rule: FieldRule | undefined;
  /** Of the object whose `toJSON` returned it. */
  readonly json: MarkedValues | undefined;
}

/** What is no object with keys is published as `{ "value": … }`. */
export function rootPlace(payload: unknown, { root, valueRoot }: Policy): Place {
  if (root === valueRoot) return root;
  return typeof payload === 'object' && payload !== null && hasKeys(payload) ? root : valueRoot;
}

function hasKeys(payload: object): boolean {
  const kind = kindOf(payload, Object.getPrototypeOf(payload));
  return kind === 'plain' || kind === 'map';
}

/** Where the value of a key stands. The rules of paths go before marks, and both before the rule of the whole object. */
export function placeOf(key: string, { state, rule, json }: Place, marks: ClassMarks | null): Place {
  const next = state === deadState ? deadState : state.next(key);
  if (marks === null && rule === undefined && json === undefined) return next;
  const own = next.rule ?? marks?.get(key) ?? json?.marks.get(key) ?? rule;
  return own === next.rule && json === undefined ? next : { state: next, rule: own, json };
}

export function elementPlace(place: Place): Place {
  if (place.state === deadState) return place;
  const state = place.state.element();
  if (place.rule === undefined && place.json === undefined) return state;
  return { state, rule: state.rule ?? place.rule, json: place.json };
}

/** Where an object stands that a marked field holds, and `toJSON` has returned under whatever name. */
export function placeOfObject(value: object, place: Place): Place {
  const rule = place.rule ?? place.json?.ruleOfObject(value);
  return rule === place.rule ? place : { state: place.state, rule, json: place.json };
}
