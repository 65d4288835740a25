import type { ApiParameter, Operation, Schema } from './api-document.ts';
import { sampleBody, sampleText } from './api-samples.ts';
import { clientMethods, hasMethod, typeNames } from './client-methods.ts';
import { type ClientOperation, clientOperations } from './client-operations.ts';

/** A shape that has a name, and the page that describes it. */
interface NamedShape {
  readonly name: string;
  readonly group: string;
  readonly schema: Schema;
}

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

/** With curl, and with the client where it has a method. Parameters of the path are as their descriptions begin. */
function exampleText(operation: Operation, client: ClientOperation | undefined): string {
  const { method, path, parameters = [], security } = operation;
  const address = path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    sampleText(parameters.find((parameter) => parameter.name === name)?.description),
  );
  const query = parameters
    .filter((parameter) => parameter.in === 'query' && parameter.required === true)
    .map(({ name, description }) => `${name}=${sampleText(description)}`)
    .join('&');
  const body = client === undefined ? undefined : sampleBody(client);
  const sends = body !== undefined && Object.keys(body).length > 0;
  const isStream = client?.answer.kind === 'stream';
  const url = `"$URL${address.replaceAll('$', '\\$')}${query === '' ? '' : `?${query}`}"`;
  const lines = [
    `curl ${isStream ? '-N ' : ''}${method === 'GET' ? '' : `-X ${method} `}${url}`,
    ...(security === undefined ? [] : ['-H "Authorization: Bearer $KEY"']),
    ...(sends
      ? [`-H 'content-type: application/json'`, `-d '${jsonText(body).replaceAll("'", "'\\''")}'`]
      : []),
  ];
  const curl = `\`\`\`sh\n${lines.join(' \\\n  ')}\n\`\`\``;
  if (client === undefined || !hasMethod(operation.operationId)) return curl;
  const ids = client.pathParameters.map(({ description }) => `'${sampleText(description)}'`);
  const needed = Object.entries(client.query?.properties ?? {}).filter(([name]) =>
    client.query?.required?.includes(name),
  );
  const given =
    sends && body !== undefined
      ? [literal(body, '')]
      : needed.length > 0
        ? [`{ ${needed.map(([name, schema]) => `${name}: '${sampleText(schema.description)}'`).join(', ')} }`]
        : [];
  const call = `client.${client.resource}.${client.method}(${[...ids, ...given].join(', ')})`;
  const isMany = client.answer.kind === 'page' || isStream;
  const item = isStream ? 'message' : 'item';
  const code = isMany
    ? `for await (const ${item} of ${call}) console.log(${item});`
    : client.answer.kind === 'nothing'
      ? `await ${call};`
      : `const answer = await ${call};`;
  return `${curl}\n\n\`\`\`ts\n${code}\n\`\`\``;
}

/** On one line where it fits there. */
function jsonText(value: unknown): string {
  const short = JSON.stringify(value, null, 1).replaceAll(/\n\s*/g, ' ');
  return short.length <= 90 ? short : JSON.stringify(value, null, 2);
}

function literal(value: unknown, indent: string): string {
  if (typeof value === 'string') return value.includes("'") ? JSON.stringify(value) : `'${value}'`;
  if (Array.isArray(value)) return `[${value.map((item) => literal(item, indent)).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return String(value);
  const entries = Object.entries(value).map(([name, item]) => `${name}: ${literal(item, `${indent}  `)}`);
  const short = `{ ${entries.join(', ')} }`;
  if (entries.length === 0) return '{}';
  if (short.length <= 70) return short;
  return `{\n${entries.map((entry) => `${indent}  ${entry},\n`).join('')}${indent}}`;
}

function shapeText({ name, schema }: NamedShape, shapes: readonly NamedShape[]): string {
  const others = shapes.filter((shape) => shape.name !== name);
  return [
    `## ${shapeTitle(name)}`,
    ...(schema.description === undefined ? [] : [plain(schema.description)]),
    table(['field', 'type', 'meaning'], fieldRows(schema, others)),
  ].join('\n\n');
}

/** Fields of an object, those of objects in it too, as `settings.name` and `steps[].namespace`. */
function fieldRows(schema: Schema, shapes: readonly NamedShape[], prefix = ''): string[][] {
  const object = objectOf(schema);
  return Object.entries(object.properties ?? {}).flatMap(([name, field]) => {
    const path = `${prefix}${name}`;
    const row = [`\`${path}\``, typeText(field, shapes), meaning(field)];
    if (namedIn(field, shapes) !== undefined) return [row];
    const inner = objectOf(field);
    const item = objectOf(inner.items ?? {});
    if (inner.properties !== undefined) return [row, ...fieldRows(inner, shapes, `${path}.`)];
    return item.properties === undefined ? [row] : [row, ...fieldRows(item, shapes, `${path}[].`)];
  });
}

function requiredMarked(rows: string[][], required: readonly string[] = []): string[][] {
  return rows.map(([name = '', type = '', text = '']) =>
    required.some((field) => name === `\`${field}\``)
      ? [name, type, `Required. ${text}`.trim()]
      : [name, type, text],
  );
}

/** The object that a schema is, besides perhaps null. */
function objectOf(schema: Schema): Schema {
  const rest = (schema.anyOf ?? []).filter(({ type }) => type !== 'null');
  return rest.length === 1 && rest[0] !== undefined ? rest[0] : schema;
}

function typeText(schema: Schema, shapes: readonly NamedShape[]): string {
  const named = shapeOf(schema, shapes);
  if (named !== undefined) return link(named);
  if (schema.enum !== undefined) return schema.enum.map((value) => `\`${String(value)}\``).join(', ');
  if (schema.anyOf !== undefined) {
    const types = new Set(schema.anyOf.map((one) => typeText(one, shapes)));
    return [...types].join(' or ');
  }
  if (schema.type === 'array') {
    const item = typeText(schema.items ?? {}, shapes);
    return item === 'any' ? 'array' : `array of ${item}`;
  }
  return schema.type ?? (schema.allOf === undefined ? 'any' : 'object');
}

/** The description, then bounds and default. */
function meaning(schema: Schema): string {
  const { description = '', minimum, maximum, minLength, maxLength } = schema;
  const bounds = [
    ...(minimum !== undefined && maximum !== undefined
      ? [`${minimum} to ${maximum}`]
      : minimum !== undefined
        ? [`at least ${minimum}`]
        : maximum !== undefined
          ? [`at most ${maximum}`]
          : []),
    ...(maxLength === undefined
      ? []
      : [
          `${minLength !== undefined && minLength > 0 ? `${minLength} to` : 'at most'} ${maxLength} characters`,
        ]),
    ...(schema.default === undefined ? [] : [`default \`${JSON.stringify(schema.default)}\``]),
  ].join(', ');
  return [plain(description), bounds].filter((text) => text !== '').join('; ');
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

function namedShapes(operations: readonly Operation[]): NamedShape[] {
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

function namedIn(schema: Schema, shapes: readonly NamedShape[]): NamedShape | undefined {
  const object = objectOf(schema);
  return shapeOf(object, shapes) ?? shapeOf(objectOf(object.items ?? {}), shapes);
}

/** By what it has, whatever its description says in this place. */
function shapeOf(schema: Schema, shapes: readonly NamedShape[]): NamedShape | undefined {
  if (schema.properties === undefined) return undefined;
  const key = JSON.stringify({ ...schema, description: undefined });
  return shapes.find((shape) => JSON.stringify({ ...shape.schema, description: undefined }) === key);
}

function shapeTitle(name: string): string {
  return `Shape: ${name}`;
}

function link({ name, group }: NamedShape): string {
  return `[${name}](${fileOf(group)}#${anchor(shapeTitle(name))})`;
}

/** Those at the address of the group come first. */
function ownFirst(group: string, operations: readonly Operation[]): Operation[] {
  const own = `/v1/${group.replaceAll(' ', '_')}`;
  const rank = ({ path }: Operation) => (path === own || path.startsWith(`${own}/`) ? 0 : 1);
  return operations.toSorted((a, b) => rank(a) - rank(b));
}

function groupOf({ tags = [] }: Operation): string {
  return tags.find((tag) => tag !== 'addition') ?? 'operations';
}

function fileOf(group: string): string {
  return `${group.replaceAll(' ', '-')}.md`;
}

function anchor(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(/\s/g, '-');
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A sentence of the document, with what Markdown would take for HTML as text. */
function plain(text: string): string {
  return text.replaceAll('<', '\\<').replaceAll('*', '\\*');
}

function table(head: string[], rows: string[][]): string {
  const line = (cells: string[]) =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|').replaceAll('\n', ' ')).join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}
