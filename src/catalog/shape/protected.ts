import type { FieldRule, PathRule } from '../../ground/pii-rule.ts';
import { isCipherText } from '../../protect/keys/cipher-text.ts';
import { deadState, type PathState } from '../../protect/marks/path-states.ts';
import { compilePolicy, type Policy } from '../../protect/marks/policy.ts';
import { type Kind, kindsOf, type Protection, propertiesOf, type Shape } from './shape.ts';

const protections = { MASK: 'masked', ENCRYPT: 'encrypted', HASH: 'hashed' } as const;
const leaves: readonly Kind[] = ['string', 'integer', 'number', 'boolean'];

/** How a text of an event was protected, as far as it shows. */
export function protectionOf(text: string): Protection | undefined {
  if (isCipherText(text)) return 'encrypted';
  return text.startsWith('HASH(') && text.endsWith(')') ? 'hashed' : undefined;
}

/** What the rules make of a payload: texts of what is protected, and nothing of what is left out. */
export function protectedShape(shape: Shape, policy: Policy): Shape {
  return visit(shape, policy.root, policy.root.rule) ?? {};
}

/** Whether a value at the path of a rule may stand in a payload of this shape. */
export function mayMeet(rule: PathRule, shape: Shape): boolean {
  const { root, valueRoot } = compilePolicy([rule]);
  const isObject = shape.type === undefined || shape.type.includes('object');
  return mayReach(shape, isObject ? root : valueRoot);
}

function mayReach({ type, properties = {}, items = {}, isClosed }: Shape, state: PathState): boolean {
  if (state === deadState) return false;
  if (state.rule !== undefined || type === undefined) return true;
  if (type.includes('object') && !isClosed) return true;
  if (type.includes('array') && mayReach(items, state.element())) return true;
  return Object.entries(properties).some(([name, each]) => mayReach(each, state.next(name)));
}

function visit(shape: Shape, state: PathState, rule: FieldRule | undefined): Shape | undefined {
  if (rule?.strategy === 'EXCLUDE') return undefined;
  const { properties, required, additionalProperties, items } = shape;
  const below = (each: Shape, next: PathState) => visit(each, next, next.rule ?? rule);
  const inside = Object.entries(properties ?? {}).flatMap(([name, each]) => {
    const after = below(each, state.next(name));
    return after === undefined ? [] : [[name, after] as const];
  });
  const names = new Set(inside.map(([name]) => name));
  const others = additionalProperties && below(additionalProperties, state.other());
  const element = items && below(items, state.element());
  return {
    ...leafOf(shape, rule),
    ...(properties !== undefined && { properties: propertiesOf(inside) }),
    ...(required !== undefined && { required: required.filter((name) => names.has(name)) }),
    ...(others !== undefined && { additionalProperties: others }),
    ...(element !== undefined && { items: element }),
  };
}

function leafOf({ type, protection }: Shape, rule: FieldRule | undefined): Shape {
  if (rule === undefined || rule.strategy === 'EXCLUDE')
    return { ...(type !== undefined && { type }), ...(protection !== undefined && { protection }) };
  // Mostly a text or a number, which are texts afterwards; of an object the events will tell.
  const after = (type ?? ['string']).map((kind): Kind => (leaves.includes(kind) ? 'string' : kind));
  const isText = after.includes('string');
  return { type: kindsOf(after), ...(isText && { protection: protections[rule.strategy] }) };
}
