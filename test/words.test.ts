import assert from 'node:assert/strict';
import { test } from 'node:test';
import { projectFiles, readProjectFile } from './support/project-files.ts';

/** Words that the field does not use, or uses for something else, and the words to write. */
const wordsToReplace: readonly [find: RegExp, write: string][] = [
  [/\bmend(?:s|ed|ing)?\b/i, 'fix'],
  [/\bin earnest\b/i, 'for production'],
  [/\bof today\b/i, "today's"],
  [/\bwhat it rests on\b/i, 'infrastructure'],
  [/\bcode of its own\b/i, 'custom code'],
  [/\bsettings of its runs\b/i, 'run settings'],
  [/\bactive at once\b/i, 'activate immediately'],
  [/\bbegins? again\b/i, 'start over'],
  [/\blooking after it\b/i, 'administration'],
  [/\b(?:is|are|was|be) told of\b|\btells of\b/i, 'is reported, reports'],
  [/\bundelivered\b|\btakes? nothing\b|\btook nothing\b/i, 'dead letters, failed'],
  [
    /\bits address\b.*\b(?:request|endpoint)s?\b|\b(?:request|endpoint)s?\b.*\bits address\b/i,
    'endpoint URL',
  ],
  [/\b(?:nobody|somebody|anybody|whoever)\b/i, 'the role: user, caller, receiver, operator'],
  [/\b(?:goes|go|went|going) on\b(?! (?:a|as)\b)/i, 'continues'],
  [/\bany more\b(?! than)/i, 'no longer'],
  [/\bown apps?\b/i, 'custom app'],
  [
    /\b(?:is|be) at an end of\b|\bcan be of\b|\bperson stands\b/i,
    'emitter or listener; apps you can connect; current working directory',
  ],
  [/\bmeans well\b|\bby now\b/i, 'say what it is'],
];

/** In names: what the field calls otherwise. */
const namesToReplace: readonly [find: RegExp, write: string][] = [
  [/\b#?on(?:Ask|Stray)\b/, 'onHostCall, onUnattributedError'],
  [/\bbePatient\b|\bsubmitPatiently\b/, 'scheduleFlush, submitLazily'],
  [/\bwhoAsks\b/, 'describeRequester'],
  [/\brunAlone\b|\bLoneTools\b/, 'runOffline, OfflineContext'],
  [/\bsleeperMs\b/, 'staleLeaseGraceMs'],
  [/[aA]rrivingJob\b|\barriving-job\b|\.arriving\b|\bwithdraw(?:n|s)?\b/, 'UnpersistedJob, cancelWrite'],
  [/[uU]ntold\b|\bsetTold\b/, 'pending, notified'],
  [/\bQueueWish\b|\bwish\b/, 'QueueRequest, request'],
  [/\binterface Given\b|: Given\b/, 'UnstoredGrant, CommandOptions'],
  [/\brunWords\b|\brun-words\b/, 'runCli'],
  [/\bquestionOf\b|\bRoute(?:Question|Answer)\b|\bMadeDeliveries\b/, 'prefetchSubscribers, RoutedDeliveries'],
  [/\bbelieved(?:Ms)?\b/, 'estimate, TTL'],
  [
    /\b(?:interface|type) \w+(?:Parts|Deps|Tools)\b|constructor\((?:parts|deps|tools):|#(?:deps|tools)\b/,
    'Options, in one spelling',
  ],
];

/** What readers of Millrace see: the manual, the pages, the command line and the descriptions of the API. */
const isPublicText = (file: string): boolean =>
  /^(?:README\.md|CHANGELOG\.md|docs\/.*\.md|dashboard\/src\/.*\.tsx?|cli\/.*\.ts|src\/http\/.*\.ts)$/.test(
    file,
  ) && !file.endsWith('.test.ts');

function found(files: readonly string[], words: readonly [find: RegExp, write: string][]): string[] {
  return files.flatMap((file) =>
    readProjectFile(file)
      .split('\n')
      .flatMap((line, index) =>
        words
          .filter(([find]) => find.test(line))
          .map(([find, write]) => `${file}:${index + 1}: ${find.exec(line)?.[0]}: write ${write}`),
      ),
  );
}

test('public texts use the words of the field', () => {
  assert.deepEqual(found(projectFiles().filter(isPublicText), wordsToReplace), []);
});

/** Texts in quotes outside of public files: error messages, mostly. */
test('error messages name roles, and say what is so now', () => {
  const files = projectFiles().filter((file) => /^src\/.*\.ts$/.test(file) && !file.endsWith('.test.ts'));
  const riddle = /\b(?:nobody|somebody|anybody|whoever|goes on|gone on|any more)\b/i;
  const wrong = files.flatMap((file) =>
    readProjectFile(file)
      .split('\n')
      .filter((line) => !/^\s*(?:\/\/|\/?\*)/.test(line))
      .flatMap((line) => line.replace(/\s\/\/ .*$/, '').match(/'[^']*'|`[^`]*`/g) ?? [])
      .filter((text) => riddle.test(text))
      .map((text) => `${file}: ${text}`),
  );
  assert.deepEqual(wrong, []);
});

test('names use the words of the field', () => {
  const code = projectFiles().filter((file) => /^(?:src|cli|sdk)\/.*\.ts$/.test(file));
  assert.deepEqual(found(code, namesToReplace), []);
});

test('error messages name sizes in KB and MB, not in bytes', () => {
  const files = projectFiles().filter((file) => /^(?:src|cli)\/.*\.ts$/.test(file));
  const counted = /\$\{[^}]*Max\} bytes/;
  assert.deepEqual(
    files.filter((file) => counted.test(readProjectFile(file))),
    [],
  );
});

test('log events are named area.past-tense-verb, in kebab case', () => {
  const files = projectFiles().filter((file) => /^src\/.*\.ts$/.test(file) && !file.endsWith('.test.ts'));
  const names = files.flatMap((file) => logEventsIn(readProjectFile(file)));
  assert.ok(names.length > 100, `only ${names.length} log events were found`);
  const past = /(?:ed|begun|built|kept|left|lost|overtaken|read|run|sent|set|taken|undone)(?:-|$)/;
  const wrong = names.filter(
    (name) => !/^[a-z]+(?:-[a-z]+)*\.[a-z]+(?:-[a-z]+)*$/.test(name) || !past.test(name),
  );
  assert.deepEqual(wrong, []);
});

/** The last argument of each call of a logger, and the names that loops get for their failures, where they are literals. */
function logEventsIn(source: string): string[] {
  const calls = [...source.matchAll(/ogger\.(?:debug|info|warn|error|fatal)\(/g)].map(
    ({ index, 0: { length } }) => argumentsFrom(source, index + length),
  );
  const names = calls.flatMap((text) => /'([^'\n]*)',?\s*$/.exec(text)?.[1] ?? []);
  return [...names, ...[...source.matchAll(/\bfailure: '([^'\n]*)',\n/g)].flatMap(([, name]) => name ?? [])];
}

/** The text up to the bracket that closes the call. */
function argumentsFrom(source: string, start: number): string {
  let depth = 1;
  let end = start;
  for (; depth > 0 && end < source.length; end += 1) {
    if ('([{'.includes(source[end] ?? '')) depth += 1;
    if (')]}'.includes(source[end] ?? '')) depth -= 1;
  }
  return source.slice(start, end - 1);
}
