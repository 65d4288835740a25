import type { Operation } from './api-document.ts';
import { sampleBody, sampleQuery, sampleText } from './api-samples.ts';
import { hasMethod } from './client-methods.ts';
import type { ClientOperation } from './client-operations.ts';

/** They begin a session of a browser, and answer only pages of the service, which send these headers. */
const pageOperations: ReadonlySet<string> = new Set(['startSession', 'startSingleSignOn']);

/** With curl, and with the client where it has a method. Parameters of the path are as their descriptions begin. */
export function exampleText(operation: Operation, client: ClientOperation | undefined): string {
  const { method, path, parameters = [], security } = operation;
  const address = path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    sampleText(parameters.find((parameter) => parameter.name === name)?.description),
  );
  const query = sampleQuery(operation);
  const queryText = Object.entries(query)
    .map(([name, value]) => `${name}=${value}`)
    .join('&');
  const body = sampleBody(operation);
  const sends = body !== undefined && Object.keys(body).length > 0;
  const isStream = client?.answer.kind === 'stream';
  const url = `"$URL${address.replaceAll('$', '\\$')}${queryText === '' ? '' : `?${queryText}`}"`;
  const lines = [
    `curl ${isStream ? '-N ' : ''}${method === 'GET' ? '' : `-X ${method} `}${url}`,
    ...(security === undefined ? [] : ['-H "Authorization: Bearer $KEY"']),
    ...(pageOperations.has(operation.operationId) ? [`-H 'x-millrace-csrf: 1'`, '-H "Origin: $URL"'] : []),
    ...(sends
      ? [`-H 'content-type: application/json'`, `-d '${jsonText(body).replaceAll("'", "'\\''")}'`]
      : []),
  ];
  const curl = `\`\`\`sh\n${lines.join(' \\\n  ')}\n\`\`\``;
  if (client === undefined || !hasMethod(operation.operationId)) return curl;
  const ids = client.pathParameters.map(({ description }) => `'${sampleText(description)}'`);
  const given =
    sends && body !== undefined ? [literal(body, '')] : queryText !== '' ? [literal(query, '')] : [];
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
  if (typeof value === 'string') return /['\\\n]/.test(value) ? JSON.stringify(value) : `'${value}'`;
  if (Array.isArray(value)) return `[${value.map((item) => literal(item, indent)).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return String(value);
  const entries = Object.entries(value).map(
    ([name, item]) => `${/^\w+$/.test(name) ? name : `'${name}'`}: ${literal(item, `${indent}  `)}`,
  );
  const short = `{ ${entries.join(', ')} }`;
  if (entries.length === 0) return '{}';
  if (short.length <= 70) return short;
  return `{\n${entries.map((entry) => `${indent}  ${entry},\n`).join('')}${indent}}`;
}
