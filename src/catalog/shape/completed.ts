import { isKnown, kindsOf, namesOf, propertiesOf, propertyNamed, type Shape, unknownShape } from './shape.ts';

/**
 * What is declared of a payload, with what was learned of it. What configuration or code spells out says which names there are;
 * events say what stands behind them.
 */
export function completed(declared: Shape, learned: Shape | undefined): Shape {
  if (learned === undefined || !isKnown(learned)) return open(declared);
  const spelled = declared.properties;
  if (spelled === undefined) return isKnown(declared) ? open(declared) : learned;
  const names = declared.isClosed
    ? namesOf(declared)
    : [...new Set([...namesOf(declared), ...namesOf(learned)])];
  const required = learned.required?.filter((name) => names.includes(name));
  const { additionalProperties, items } = declared.isClosed ? {} : learned;
  return {
    type: declared.isClosed ? ['object'] : kindsOf([...(learned.type ?? []), 'object']),
    properties: propertiesOf(
      names.map((name) => [
        name,
        completed(propertyNamed(declared, name) ?? unknownShape, propertyNamed(learned, name)),
      ]),
    ),
    ...(required !== undefined && { required }),
    ...(additionalProperties !== undefined && { additionalProperties }),
    ...(items !== undefined && { items }),
  };
}

/** As the file holds it. */
function open({ isClosed: _, properties, ...rest }: Shape): Shape {
  if (properties === undefined) return rest;
  return {
    ...rest,
    properties: propertiesOf(Object.entries(properties).map(([name, each]) => [name, open(each)])),
  };
}
