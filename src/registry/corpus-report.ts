import type { CheckedPackage } from './run-corpus.ts';

/** Figures of one package, or of all. */
export interface CorpusFigures {
  package: string;
  version: string;
  found: number;
  loaded: number;
  /** Their `configurable_props` could be computed. */
  props: number;
  options: number;
  optionsCallable: number;
  additionalProps: number;
  additionalPropsCallable: number;
  inline: number;
  tree: number;
  ownFiles: number;
  bundleBytes: number;
  /** Build time of all components together: the sum of wall-clock times, which overlap. */
  buildMs: number;
  loadMs: number;
  /** Time of the package, from its first component to its last. */
  checkMs: number;
  failed: number;
  leftOut: number;
}

type Total = { [name in keyof CorpusFigures as CorpusFigures[name] extends number ? name : never]: number };

export interface CorpusFailure {
  package: string;
  /** Key of the component, or path of a file; '' for the package as a whole. */
  where: string;
  stage: string;
  reason: string;
}

export interface CorpusReport {
  packages: CorpusFigures[];
  total: CorpusFigures;
  componentsPerSecond: number;
  /** Components that do not do what they should, and packages that could not be read. */
  failures: CorpusFailure[];
  /** Files that were not taken for components. */
  leftOut: CorpusFailure[];
}

export function makeReport(checked: readonly CheckedPackage[]): CorpusReport {
  const packages = checked.map(figuresOf);
  const total = packages.reduce<CorpusFigures>(
    (sum, one) => {
      for (const name of numbersOf(sum)) sum[name] += one[name];
      return sum;
    },
    { package: 'all', version: '', ...zeroes() },
  );
  const failures = checked.flatMap((one) => {
    const label = labelOf(one);
    const own =
      one.error === undefined ? [] : [{ package: label, where: '', stage: 'read', reason: one.error }];
    const others = one.components.flatMap(({ key, failures: found }) =>
      found.map((failure) => ({ package: label, where: key, ...failure })),
    );
    return [...own, ...others];
  });
  const leftOut = checked.flatMap((one) =>
    one.leftOut.map(({ path, message }) => ({
      ...{ package: labelOf(one), where: path, stage: 'read', reason: message },
    })),
  );
  const seconds = total.checkMs / 1000;
  return {
    ...{ packages, total, failures, leftOut },
    componentsPerSecond: seconds === 0 ? 0 : Math.round((total.found / seconds) * 10) / 10,
  };
}

function figuresOf(checked: CheckedPackage): CorpusFigures {
  const figures: CorpusFigures = { package: checked.name, version: checked.version, ...zeroes() };
  figures.checkMs = Math.round(checked.checkMs);
  figures.leftOut = checked.leftOut.length;
  for (const one of checked.components) {
    figures.found += 1;
    figures.loaded += Number(one.isLoaded);
    figures.props += Number(one.hasProps);
    figures.options += one.options;
    figures.optionsCallable += one.optionsCallable;
    figures.additionalProps += Number(one.hasAdditionalProps);
    figures.additionalPropsCallable += Number(one.additionalPropsCallable);
    if (one.form !== undefined) figures[one.form] += 1;
    figures.ownFiles += one.ownFiles;
    figures.bundleBytes += one.bundleBytes;
    figures.buildMs += Math.round(one.buildMs);
    figures.loadMs += Math.round(one.loadMs);
    figures.failed += Number(one.failures.length > 0);
  }
  return figures;
}

function zeroes(): Total {
  return {
    ...{ found: 0, loaded: 0, props: 0, options: 0, optionsCallable: 0 },
    ...{ additionalProps: 0, additionalPropsCallable: 0, inline: 0, tree: 0, ownFiles: 0 },
    ...{ bundleBytes: 0, buildMs: 0, loadMs: 0, checkMs: 0, failed: 0, leftOut: 0 },
  };
}

function numbersOf(figures: CorpusFigures): (keyof Total)[] {
  return (Object.keys(figures) as (keyof CorpusFigures)[]).filter(
    (name): name is keyof Total => typeof figures[name] === 'number',
  );
}

function labelOf({ name, version }: Pick<CheckedPackage, 'name' | 'version'>): string {
  return version === '' ? name : `${name}@${version}`;
}

const columns: readonly [title: string, value: (figures: CorpusFigures) => string][] = [
  ['package', (one) => labelOf({ name: one.package, version: one.version })],
  ['found', (one) => String(one.found)],
  ['loaded', (one) => String(one.loaded)],
  ['props', (one) => String(one.props)],
  ['options', (one) => `${one.optionsCallable}/${one.options}`],
  ['additionalProps', (one) => `${one.additionalPropsCallable}/${one.additionalProps}`],
  ['inline', (one) => String(one.inline)],
  ['tree', (one) => String(one.tree)],
  ['own files', (one) => String(one.ownFiles)],
  ['bundles kB', (one) => String(Math.round(one.bundleBytes / 1000))],
  ['build ms', (one) => String(mean(one.buildMs, one.found))],
  ['load ms', (one) => String(mean(one.loadMs, one.found))],
  ['s', (one) => (one.checkMs / 1000).toFixed(1)],
  ['per s', (one) => (one.checkMs === 0 ? '' : ((one.found * 1000) / one.checkMs).toFixed(1))],
  ['failed', (one) => String(one.failed)],
  ['left out', (one) => String(one.leftOut)],
];

function mean(sum: number, count: number): number {
  return count === 0 ? 0 : Math.round(sum / count);
}

function rowsOf({ packages, total }: CorpusReport): string[][] {
  const shown = packages.length > 1 ? [...packages, total] : packages;
  return shown.map((figures) => columns.map(([, value]) => value(figures)));
}

const titles = columns.map(([title]) => title);

/** For a terminal. `build ms` and `load ms` are means of one component. */
export function reportLines(report: CorpusReport): string[] {
  const rows = [titles, ...rowsOf(report)];
  const widths = titles.map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
  const lines = rows.map((row) =>
    row
      .map((cell, at) => (at === 0 ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0)))
      .join('  '),
  );
  return [...lines, ...listed('failed:', report.failures), ...listed('left out:', report.leftOut)];
}

function listed(title: string, entries: readonly CorpusFailure[]): string[] {
  if (entries.length === 0) return [];
  return ['', title, ...entries.map((one) => `  ${one.package} ${one.where} (${one.stage}): ${one.reason}`)];
}

export function reportMarkdown(report: CorpusReport): string {
  const table = (rows: readonly (readonly string[])[], of: readonly string[]): string[] => [
    `| ${of.join(' | ')} |`,
    `|${of.map(() => ' --- ').join('|')}|`,
    ...rows.map((row) => `| ${row.map(markdownCell).join(' | ')} |`),
  ];
  const section = (title: string, entries: readonly CorpusFailure[]): string[] =>
    entries.length === 0
      ? []
      : ['', `## ${title}`, '', ...table(entries.map(entryCells), ['package', 'where', 'stage', 'reason'])];
  return [
    '# Corpus report',
    '',
    ...table(rowsOf(report), titles),
    '',
    '`build ms` and `load ms` are wall-clock means of one component; `options` and `additionalProps` are those that could be called, of those there are.',
    ...section('Failed', report.failures),
    ...section('Left out', report.leftOut),
    '',
  ].join('\n');
}

function entryCells(one: CorpusFailure): string[] {
  return [one.package, one.where, one.stage, one.reason];
}

function markdownCell(text: string): string {
  return text.replace(/[|\\]/g, '\\$&').replace(/\s+/g, ' ');
}

/** The figures alone, in columns for a program; `separator` is a comma or a tab. */
export function reportValues({ packages }: CorpusReport, separator: ',' | '\t'): string {
  const names = Object.keys({ package: '', version: '', ...zeroes() }) as (keyof CorpusFigures)[];
  const cell = (value: string | number): string => {
    const text = String(value).replace(/[\t\r\n]+/g, ' ');
    return separator === ',' && /[",]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const rows = packages.map((figures) => names.map((name) => cell(figures[name])).join(separator));
  return `${[names.join(separator), ...rows].join('\n')}\n`;
}
