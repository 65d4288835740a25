import type { Operation, Schema } from './api-document.ts';
import { typeNames } from './client-methods.ts';

/** A shape that has a name, and the page that describes it. */
export interface NamedShape {
  readonly name: string;
  readonly group: string;
  readonly schema: Schema;
}

/** Those that have a name in the client, each described with the operation that `typeNames` mentions. */
export function namedShapes(operations: readonly Operation[]): NamedShape[] {
  return Object.entries(typeNames).map(([name, place]) => {
    const [operationId = '', ...steps] = place.split('.');
    const operation = operations.find((one) => one.operationId === operationId);
    if (operation === undefined) throw new Error(`${place}: no such operation`);
    const [, response] = Object.entries(operation.responses).find(([code]) => code.startsWith('2')) ?? [];
    let schema = response?.content?.['application/json']?.schema ?? {};
    for (const step of steps) {
      const next: Schema = schema.properties?.[step] ?? {};
      schema = objectOf(next.items ?? next);
    }
    return { name, group: groupOf(operation), schema };
  });
}

/** The named shape that a field is, or that the items of its list are. */
export function namedIn(schema: Schema, shapes: readonly NamedShape[]): NamedShape | undefined {
  const object = objectOf(schema);
  return shapeOf(object, shapes) ?? shapeOf(objectOf(object.items ?? {}), shapes);
}

/** By what it has, whatever its description says in this place. */
export function shapeOf(schema: Schema, shapes: readonly NamedShape[]): NamedShape | undefined {
  if ((schema.properties ?? schema.anyOf ?? schema.allOf) === undefined) return undefined;
  const key = JSON.stringify({ ...schema, description: undefined });
  return shapes.find((shape) => JSON.stringify({ ...shape.schema, description: undefined }) === key);
}

/** The object that a schema describes, which may also allow null. */
export function objectOf(schema: Schema): Schema {
  const rest = (schema.anyOf ?? []).filter(({ type }) => type !== 'null');
  return rest.length === 1 && rest[0] !== undefined ? rest[0] : schema;
}

/** The tag under which an operation stands. */
export function groupOf({ tags = [] }: Operation): string {
  return tags.find((tag) => tag !== 'addition') ?? 'operations';
}

export function fileOf(group: string): string {
  return `${group.replaceAll(' ', '-')}.md`;
}

export function link({ name, group }: NamedShape): string {
  return `[${name}](${fileOf(group)}#${anchor(shapeTitle(name))})`;
}

export function shapeTitle(name: string): string {
  return `Shape: ${name}`;
}

/** As GitHub and the served manual name headings. */
export function anchor(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(/\s/g, '-');
}
