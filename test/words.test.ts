import assert from 'node:assert/strict';
import { test } from 'node:test';
import { projectFiles, readProjectFile } from './support/project-files.ts';

/** The worst of them: no text has these, comments and names of tests neither. */
const wordsToReplaceEverywhere: readonly [find: RegExp, write: string][] = [
  [/\bmend(?:s|ed|ing)?\b/i, 'fix'],
  [/\bin earnest\b/i, 'for production'],
  [/\banew\b/i, 'again, or a verb with re-'],
  [/\b(?:is|are|was|were|be) told of\b|\btells? of\b/i, 'is reported, reports'],
  [/\bwhat (?:became|becomes|came) of\b/i, 'the outcome of'],
  [
    /\b(?:nobody|somebody|anybody|everybody|whoever|whomever)\b/i,
    'the role: user, caller, receiver, operator, all users',
  ],
  [/\b(?:goes|go|went|gone|going) on\b(?! (?:a|as)\b)/i, 'continues'],
  [/\bany more\b(?! than)/i, 'no longer'],
  [/\bbesides\b/i, 'in addition to, apart from'],
  [/\bby now\b/i, 'say what it is'],
];

/** Words that the field does not use, or uses for something else, and the words to write. */
const wordsToReplace: readonly [find: RegExp, write: string][] = [
  ...wordsToReplaceEverywhere,
  [/\bof today\b/i, "today's"],
  [/\bwhat it rests on\b/i, 'infrastructure'],
  [/\bcode of its own\b/i, 'custom code'],
  [/\bsettings of its runs\b/i, 'run settings'],
  [/\bactive at once\b/i, 'activate immediately'],
  [/\bbegins? again\b/i, 'start over'],
  [/\blooking after it\b/i, 'administration'],
  [/\bundelivered\b|\btakes? nothing\b|\btook nothing\b/i, 'dead letters, failed'],
  [
    /\bits address\b.*\b(?:request|endpoint)s?\b|\b(?:request|endpoint)s?\b.*\bits address\b/i,
    'endpoint URL',
  ],
  [/\bown apps?\b/i, 'custom app'],
  [
    /\b(?:is|be) at an end of\b|\bcan be of\b|\bperson stands\b/i,
    'emitter or listener; apps you can connect; current working directory',
  ],
  [/\bmeans well\b/i, 'say what it is'],
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
  [/\b(?:\w+W|w)ish(?:es)?\b/, 'QueueRequest, request'],
  [/\b(?:mend|mended|\w+Mended)\b/, 'fix, fixed'],
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

/** `textIn` answers the part of a line that is held to the words. */
function found(
  files: readonly string[],
  words: readonly [find: RegExp, write: string][],
  textIn: (line: string) => string = (line) => line,
): string[] {
  return files.flatMap((file) =>
    readProjectFile(file)
      .split('\n')
      .map(textIn)
      .flatMap((text, index) =>
        words
          .filter(([find]) => find.test(text))
          .map(([find, write]) => `${file}:${index + 1}: ${find.exec(text)?.[0]}: write ${write}`),
      ),
  );
}

/** Code whose comments are held to the words. */
const commentedFiles = (): string[] =>
  projectFiles().filter((file) =>
    /^(?:src|cli|sdk|dashboard|test|bench|scripts|components|examples)\/.*\.(?:tsx?|mjs|js)$/.test(file),
  );

/** The prose in a line of code: its comment, or the name of a test. */
function commentOrTestName(line: string): string {
  if (/^\s*(?:\/\/|\/?\*)/.test(line)) return line;
  return /\s\/\/ .*$|(?<![.\w])(?:test|describe)(?:\.\w+)?\(.*$/.exec(line)?.[0] ?? '';
}

test('public texts use the words of the field', () => {
  assert.deepEqual(found(projectFiles().filter(isPublicText), wordsToReplace), []);
});

test('comments and names of tests use the words of the field', () => {
  // The name of a user of the machine is no prose.
  const names = /`nobody`/g;
  const wrong = found(commentedFiles(), wordsToReplaceEverywhere, (line) =>
    commentOrTestName(line.replace(names, '')),
  );
  assert.deepEqual(wrong, []);
});

test('comments begin with what a thing is, not with "Of", "Who" or "Whether"', () => {
  const fragments: [find: RegExp, write: string][] = [
    [/\/\*\* (?:Of|Who|Whose|Whom)\b/, 'a noun ("Maximum of …", "The user who …") or a sentence'],
    [/^\s*(?:\/\/|\/?\*+) Whether\b/, '"True when …"'],
  ];
  // Comments of the generated client are the descriptions of the API.
  const files = commentedFiles().filter((file) => !file.startsWith('sdk/src/generated/'));
  assert.deepEqual(found(files, fragments), []);
});

test('pages for contributors use the words of the field', () => {
  const pages = projectFiles().filter((file) =>
    /^(?:ARCHITECTURE|CONTRIBUTING)\.md$|^(?:src|dashboard|sdk|examples)\/.*\.md$/.test(file),
  );
  assert.ok(pages.length > 3, `${pages.length} pages`);
  assert.deepEqual(found(pages, wordsToReplaceEverywhere), []);
});

/** Texts in quotes outside of public files: error messages, mostly. */
test('error messages name roles, and say what is so now', () => {
  const files = projectFiles().filter((file) => /^src\/.*\.ts$/.test(file) && !file.endsWith('.test.ts'));
  const riddle = /\b(?:nobody|somebody|anybody|everybody|whoever|goes on|gone on|any more)\b/i;
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
  const code = projectFiles().filter(
    (file) =>
      /^(?:src|cli|sdk|dashboard|test|bench|scripts)\/.*\.tsx?$/.test(file) && file !== 'test/words.test.ts',
  );
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
