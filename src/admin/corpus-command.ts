import { availableParallelism } from 'node:os';
import { extname } from 'node:path';
import { parseArgs } from 'node:util';
import type { BundleForm } from '#components/build-component.ts';
import { UsageError } from './admin-command-line.ts';

/** The options of `npm run corpus`. */
export interface CorpusRequest {
  packages: string[];
  only: RegExp | undefined;
  concurrency: number;
  /** How npm packages come; absent: as the service would take them. */
  form: BundleForm | undefined;
  /** Absent: below the data folder. */
  cache: string | undefined;
  /** File for the table. */
  output: string | undefined;
  json: boolean;
  /** Ignores what earlier runs built. */
  rebuild: boolean;
  help: boolean;
}

const outputEndings = ['.md', '.csv', '.tsv', '.json'];
const concurrencyMax = 32;

export const corpusHelp = `usage: npm run corpus -- <package[@version] or ./folder>… [options]

Builds every component of npm packages and folders, evaluates it in the sandbox and calls the functions of its props, without
any account and with no way out to the network, and says what does not work. The exit code is 1 when a component fails.

  --only REGEX         only components whose key matches
  --concurrency N      components at the same time (four times as many as there are processors)
  --form FORM          inline: npm packages in one text with the component; tree: as files beside it (as the service would)
  --cache FOLDER       where packages and bundles are kept (corpus in the data folder)
  --rebuild            build also what an earlier run has built
  --output FILE        write the report: a table in .md; figures in .csv or .tsv; everything in .json
  --json               print everything as JSON
`;

/** Reads the command line. Throws `UsageError` that says what is wrong with it. */
export function readCorpusRequest(argv: readonly string[]): CorpusRequest {
  const { values, positionals } = parse(argv);
  const { only, concurrency, form, cache, output, json = false, rebuild = false, help = false } = values;
  if (positionals.length === 0 && !help) throw new UsageError('say which packages or folders');
  if (output !== undefined && !outputEndings.includes(extname(output)))
    throw new UsageError(`--output: expected a name that ends with ${outputEndings.join(', ')}`);
  return {
    ...{ packages: positionals, cache, output, json, rebuild, help },
    only: only === undefined ? undefined : patternOf(only),
    form: form === undefined ? undefined : formOf(form),
    concurrency: concurrency === undefined ? 4 * availableParallelism() : countOf(concurrency),
  };
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({
      args: [...argv],
      allowPositionals: true,
      options: {
        only: { type: 'string' },
        concurrency: { type: 'string' },
        form: { type: 'string' },
        cache: { type: 'string' },
        output: { type: 'string' },
        json: { type: 'boolean' },
        rebuild: { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
      },
    });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

function patternOf(text: string): RegExp {
  try {
    return new RegExp(text);
  } catch {
    throw new UsageError(`--only: ${JSON.stringify(text)} is no regular expression`);
  }
}

function formOf(text: string): BundleForm {
  if (text === 'inline' || text === 'tree') return text;
  throw new UsageError('--form: expected inline or tree');
}

function countOf(text: string): number {
  const count = Number(text);
  if (Number.isInteger(count) && count >= 1 && count <= concurrencyMax) return count;
  throw new UsageError(`--concurrency: expected a number from 1 to ${concurrencyMax}`);
}
