import type { ApiParameter, Operation, Schema } from './api-document.ts';
import { exampleText } from './api-examples.ts';
import {
  anchor,
  fileOf,
  groupOf,
  link,
  type NamedShape,
  namedShapes,
  shapeOf,
  shapeTitle,
} from './api-shapes.ts';
import { fieldRows, meaning, plain, requiredMarked, table, typeText } from './api-tables.ts';
import { clientMethods } from './client-methods.ts';
import { type ClientOperation, clientOperations } from './client-operations.ts';

/**
 * A page of docs/reference/api for each group of operations: parameters, bodies, answers, an example with curl and one with the
 * client. What every operation takes stands once, in docs/reference/api.md.
 */
export function apiPages(operations: readonly Operation[], notice: string): { path: string; text: string }[] {
  const shapes = namedShapes(operations);
  const methods = new Map(clientOperations(operations).map((one) => [one.operation.operationId, one]));
  const common = commonNames(operations);
  return [...Map.groupBy(operations, groupOf)].map(([group, all]) => {
    const members = ownFirst(group, all);
    const own = shapes.filter((shape) => shape.group === group);
    const text = [
      `${notice}\n# ${sentence(group)}`,
      `With every operation of this group you can use the [common parameters](../api.md#parameters-of-every-operation); what goes wrong is answered with [an error](../errors.md).`,
      members
        .map(
          ({ method, path, summary }) => `- \`${method} ${path}\`: [${plain(summary)}](#${anchor(summary)})`,
        )
        .join('\n'),
      ...members.map((operation) =>
        operationText(operation, methods.get(operation.operationId), { shapes, common }),
      ),
      ...own.map((shape) => shapeText(shape, shapes)),
    ].join('\n\n');
    return { path: `docs/reference/api/${fileOf(group)}`, text: `${text}\n` };
  });
}

function operationText(
  operation: Operation,
  client: ClientOperation | undefined,
  { shapes, common }: { shapes: readonly NamedShape[]; common: Common },
): string {
  const { method, path, summary, description, parameters = [], security } = operation;
  const notes = [
    ...(operation.tags?.includes('addition') === true ? ['An addition to the original specification.'] : []),
    ...(security === undefined ? ['Asks for no API key.'] : []),
    ...(clientMethods[operation.operationId]?.startsWith('same as ') === true
      ? ['The same under another address.']
      : []),
  ];
  const inPath = parameters.filter((parameter) => parameter.in === 'path');
  const inQuery = parameters.filter((parameter) => parameter.in === 'query' && !common.isIt(parameter));
  const body = operation.requestBody?.content['application/json']?.schema;
  const fields =
    body === undefined ? [] : requiredMarked(fieldRows(withoutCommon(body, common), shapes), body.required);
  const isPaged = parameters.some(({ name }) => name === 'after');
  return [
    `## ${plain(summary)}`,
    `\`${method} ${path}\``,
    ...(description === undefined ? [] : [plain(description)]),
    ...(notes.length === 0 ? [] : [notes.join(' ')]),
    ...(inPath.length + inQuery.length === 0
      ? []
      : [table(['parameter', 'in', 'type', 'meaning'], [...inPath, ...inQuery].map(parameterRow))]),
    ...(isPaged ? ['A list with [pages](../api.md#lists): `limit`, `after`, `before`.'] : []),
    ...(fields.length === 0 ? [] : ['Body:', table(['field', 'type', 'meaning'], fields)]),
    answerText(operation, shapes),
    exampleText(operation, client),
  ].join('\n\n');
}

function parameterRow({ name, in: place, required, schema, description }: ApiParameter): string[] {
  const must = required === true && place === 'query' ? 'Required. ' : '';
  return [
    `\`${name}\``,
    place,
    typeText(schema, []),
    `${must}${meaning({ ...schema, ...(description === undefined ? {} : { description }) })}`,
  ];
}

function answerText({ responses }: Operation, shapes: readonly NamedShape[]): string {
  const [status = '', response] = Object.entries(responses).find(([code]) => code.startsWith('2')) ?? [];
  const [contentType = '', content] = Object.entries(response?.content ?? {})[0] ?? [];
  if (content === undefined) return `Answer: \`${status}\`, without a body.`;
  if (contentType !== 'application/json') return `Answer: \`${status}\`, \`${contentType}\`.`;
  const { schema } = content;
  const names = Object.keys(schema.properties ?? {});
  const data = schema.properties?.data;
  if (data === undefined || names.some((name) => name !== 'data' && name !== 'page_info')) {
    const rows = fieldRows(schema, shapes);
    return rows.length === 0
      ? `Answer: \`${status}\`, JSON.`
      : `Answer: \`${status}\`\n\n${table(['field', 'type', 'meaning'], rows)}`;
  }
  const envelope = names.includes('page_info') ? '{ "page_info": …, "data": [ … ] }' : '{ "data": … }';
  const named = shapeOf(data.items ?? data, shapes);
  const what = `Answer: \`${status}\`, \`${envelope}\``;
  if (named !== undefined)
    return `${what}, where \`data\` is ${data.items === undefined ? 'one' : 'a list of'} ${link(named)}.`;
  const rows = fieldRows(data.items ?? data, shapes);
  return rows.length === 0 ? `${what}.` : `${what} with\n\n${table(['field', 'type', 'meaning'], rows)}`;
}

function shapeText({ name, schema }: NamedShape, shapes: readonly NamedShape[]): string {
  const others = shapes.filter((shape) => shape.name !== name);
  const tables = (schema.anyOf ?? [schema]).map((one) => {
    const rows = (one.allOf ?? [one]).flatMap((part) => {
      const named = shapeOf(part, others);
      return named === undefined ? fieldRows(part, others) : [['…', '', `All fields of ${link(named)}`]];
    });
    return table(['field', 'type', 'meaning'], rows);
  });
  return [
    `## ${shapeTitle(name)}`,
    ...(schema.description === undefined ? [] : [plain(schema.description)]),
    ...(tables.length === 1 ? tables : ['One of these:', tables.join('\n\nor\n\n')]),
  ].join('\n\n');
}

interface Common {
  isIt: (parameter: ApiParameter) => boolean;
  names: ReadonlyMap<string, string>;
}

/** What operations and lists take as such. */
function commonNames(operations: readonly Operation[]): Common {
  const list = operations.find(({ operationId }) => operationId === 'listMySources')?.parameters ?? [];
  const names = new Map(
    list
      .filter(({ in: place }) => place === 'query')
      .map(({ name, schema, description }) => [name, JSON.stringify({ ...schema, description })]),
  );
  names.delete('q');
  return {
    names,
    isIt: ({ name, schema, description }) => names.get(name) === JSON.stringify({ ...schema, description }),
  };
}

function withoutCommon(schema: Schema, { names }: Common): Schema {
  const rest = Object.entries(schema.properties ?? {}).filter(
    ([name, field]) => names.get(name) !== JSON.stringify({ ...field, description: field.description }),
  );
  return { ...schema, properties: Object.fromEntries(rest) };
}

/** Those at the address of the group come first. */
function ownFirst(group: string, operations: readonly Operation[]): Operation[] {
  const own = `/v1/${group.replaceAll(' ', '_')}`;
  const rank = ({ path }: Operation) => (path === own || path.startsWith(`${own}/`) ? 0 : 1);
  return operations.toSorted((a, b) => rank(a) - rank(b));
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
