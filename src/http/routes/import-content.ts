import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import { type App, commonParameters } from '#http/route-support.ts';
import type { ProjectContent } from '#imports/project-reader.ts';
import { CallerError } from '#lib/errors.ts';
import { bytesText } from '#lib/units.ts';

/** An archive of 24 MB in base64, with room for the rest. */
export const jsonBytesMax = 33 * 1024 * 1024;
const base64CharactersMax = 32 * 1024 * 1024;
/** Maximum of an archive or a bundle that is a body itself. */
const rawBytesMax = 64 * 1024 * 1024;

/** Bodies that are the archive or the bundle, beside JSON. */
const rawTypes = ['application/zip', 'application/octet-stream'];
export const consumes = ['application/json', ...rawTypes];

export const contentFields = {
  archive: Type.Optional(
    Type.String({
      description: 'A ZIP archive, or a bundle of millrace import --save, in base64; at most 24 MB',
    }),
  ),
  files: Type.Optional(
    Type.Record(Type.String(), Type.String(), {
      description: 'In place of an archive: the texts of the files by their paths',
    }),
  ),
};

const optionFields = {
  dry_run: Type.Optional(Type.Boolean({ description: 'Only report what would be done' })),
  activate: Type.Optional(
    Type.Boolean({
      description:
        'Activate workflows and sources that were active there and need nothing by hand; default: all stay inactive',
    }),
  ),
  ask: Type.Optional(
    Type.Boolean({
      description:
        'Wait for answers where accounts or variables are missing: `state` is asking, `questions` says what, and ' +
        'POST /v1/imports/{id}/answers lets it begin. Until then, at most for 24 hours, the project is kept sealed, as credentials are',
    }),
  ),
  project_id: Type.Optional(
    Type.String({ description: 'proj_… of the workspace, which the workflows are put into' }),
  ),
};

export const ImportBody = Type.Object({
  ...contentFields,
  ...optionFields,
  accounts: Type.Optional(
    Type.Record(Type.String({ maxLength: 200 }), Type.String({ maxLength: 100 }), {
      description:
        'Accounts (apn_…) here, by the slug of an app or by the id of an account there; later imports remember them',
    }),
  ),
});

export const AnswersBody = Type.Object({
  accounts: ImportBody.properties.accounts,
  variables: Type.Optional(
    Type.Record(Type.String({ maxLength: 200 }), Type.String({ maxLength: 16_384 }), {
      description:
        'Values by the names of variables; they are set as secrets of the workspace, or of the project',
    }),
  ),
  activate: Type.Optional(Type.Boolean({ description: 'Default: as the import was started' })),
});

export const ImportQuery = Type.Object({
  ...commonParameters,
  ...optionFields,
  accounts: Type.Optional(
    Type.String({
      maxLength: 20_000,
      description: 'The accounts of the body as pairs: `slack=apn_…,apn_there=apn_here`',
    }),
  ),
});

/** How bodies are described beside JSON. */
export const rawBodies =
  `The archive or bundle may also be the body itself (${rawTypes.join(' or ')}, at most 64 MB), with the options in the query, ` +
  'which win over those of a JSON body.';

/** Lets the routes of this scope take bytes; the body of such a request is a Buffer. */
export function readRawBodies(app: App): void {
  app.addContentTypeParser(rawTypes, async (_request: FastifyRequest, payload: AsyncIterable<Buffer>) =>
    readAtMost(payload),
  );
}

/** Throws CallerError `body_too_large`. */
async function readAtMost(payload: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of payload) {
    bytes += chunk.length;
    if (bytes > rawBytesMax)
      throw new CallerError(
        'body_too_large',
        `the body is larger than ${bytesText(rawBytesMax)}: leave .git and node_modules out of the archive, or import it folder by folder`,
      );
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** What is to be imported. Throws CallerError unless it is there, once. */
export function contentOf({ body }: Pick<FastifyRequest, 'body'>): ProjectContent {
  if (Buffer.isBuffer(body)) {
    if (body.length > 0) return { bytes: body };
    throw new CallerError('missing_parameter', 'the body is empty, expected an archive or a bundle');
  }
  const { archive, files } = body as Static<typeof ImportBody>;
  if (archive !== undefined && archive.length > base64CharactersMax)
    throw new CallerError(
      'body_too_large',
      'archive: larger than 24 MB, expected it as the body itself (application/zip)',
      { parameter: 'archive' },
    );
  if (archive !== undefined && files === undefined) return { bytes: Buffer.from(archive, 'base64') };
  if (files !== undefined && archive === undefined) return { files };
  throw new CallerError(
    archive === undefined ? 'missing_parameter' : 'invalid_parameter',
    'archive: one of archive and files is required',
    { parameter: 'archive' },
  );
}

/** What the query and the body say beside the content; the query wins. Throws CallerError `invalid_parameter` for unreadable accounts. */
export function optionsOf({ query, body }: Pick<FastifyRequest, 'query' | 'body'>) {
  const asked = query as Static<typeof ImportQuery>;
  const given = Buffer.isBuffer(body) ? {} : (body as Static<typeof ImportBody>);
  return {
    isDryRun: asked.dry_run ?? given.dry_run ?? false,
    asks: asked.ask ?? given.ask ?? false,
    activate: asked.activate ?? given.activate ?? false,
    projectId: asked.project_id ?? given.project_id ?? '',
    accounts: asked.accounts === undefined ? (given.accounts ?? {}) : accountsIn(asked.accounts),
  };
}

function accountsIn(text: string): Record<string, string> {
  const pairs = text === '' ? [] : text.split(',');
  return Object.fromEntries(
    pairs.map((pair) => {
      const [, name = '', id = ''] = /^([^=]{1,200})=([^=]{1,100})$/.exec(pair) ?? [];
      if (name !== '') return [name, id];
      throw new CallerError(
        'invalid_parameter',
        `accounts: found ${JSON.stringify(pair.slice(0, 60))}, expected pairs such as slack=apn_…, with commas between them`,
        { parameter: 'accounts' },
      );
    }),
  );
}
