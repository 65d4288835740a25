import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { basename, dirname, posix } from 'node:path';
import { describe, test } from 'node:test';
import { jobKinds } from '#storage/tables/job-tables.ts';
import { loadErrorCatalogue, referencePages } from '../scripts/generate-reference.ts';
import { projectFiles, projectRoot, readCode, readProjectFile } from './support/project-files.ts';
import { importedSpecifiers, lineOf } from './support/source-text.ts';

/**
 * From below to above: a file may import from folders of bands below its own, and within its band from folders to the left. ARCHITECTURE.md
 * has the same table.
 */
const bands: Record<string, readonly string[]> = {
  ground: ['lib', 'telemetry', 'config', 'storage'],
  platform: [
    'jobs',
    'health',
    'identity',
    'audit',
    'metering',
    'events',
    'egress',
    'vault',
    'schedule',
    'single-sign-on',
  ],
  code: ['runner', 'components', 'registry'],
  domain: [
    'accounts',
    'user-data',
    'idempotency',
    'flow-control',
    'sources',
    'workflows',
    'delivery',
    'imports',
    'deletion',
  ],
  edges: ['ingress', 'streams', 'insights', 'web', 'http', 'admin'],
};
const folderOrder = Object.values(bands).flat();

/** Files directly in src, above every folder; each may import the ones to its left. */
const topFiles = [
  'store-readings.ts',
  'observe-service.ts',
  'view-instance.ts',
  'view-processes.ts',
  'background-jobs.ts',
  'close-foreign-descriptors.ts',
  'external-memory-limit.ts',
  'release-start-memory.ts',
  'failed-start.ts',
  'start-words.ts',
  'open-tracing.ts',
  'assemble-platform.ts',
  'assemble-user-data.ts',
  'assemble-delivery.ts',
  'assemble-accounts.ts',
  'assemble-runs.ts',
  'assemble-deployers.ts',
  'assemble-pruners.ts',
  'assemble-domain.ts',
  'assemble-single-sign-on.ts',
  'assemble-edges.ts',
  'app.ts',
  'main.ts',
  'admin.ts',
  'corpus.ts',
];

/** Exports that no other file needs, and why they are there. */
const listedValues: Record<string, string> = {
  'src/storage/tables':
    'the values of a state are exported beside its union, for the routes and tests to come',
  'src/components/provided': 'components import them',
};

/** Where `process.env` may be read apart from config/settings.ts, and why. */
const environmentReaders: Record<string, string> = {
  'src/main.ts': 'hands the environment to readSettings',
  'src/admin.ts': 'hands the environment to readSettings',
  'src/corpus.ts': 'hands the environment to readSettings',
  'src/runner/sandbox/': 'runs inside the child, whose own environment is made by us',
};

/** The one file of the TypeScript client that others import, as `#sdk`. */
const sdkEntry = 'sdk/src/millrace.ts';
/** Where the name of the store may be read outside storage: to be shown, never to decide by. */
const storeNameReaders: Record<string, string> = {
  'src/app.ts': 'hands it to the words of a start',
  'src/start-words.ts': 'tells the operator which store it is',
  'src/view-instance.ts': 'tells the admin of the instance which store it is',
  'src/admin/backup/': 'writes it into the header of a backup, and tells the operator what is replaced',
};

/**
 * The one folder that writes each table. Others call a function of a store in that folder. A change of keys (`vault`) and a restore
 * (`storage`) write all tables, by lists of their own.
 */
const tableOwners: Record<string, readonly string[]> = {
  storage: ['write_probes'],
  jobs: ['jobs', 'lane_leases', 'node_states', 'nodes'],
  health: ['health'],
  identity: [
    'api_clients',
    'api_keys',
    'api_tokens',
    'deletions',
    'members',
    'projects',
    'sessions',
    'users',
    'workspace_retention',
    'workspaces',
  ],
  'single-sign-on': ['group_memberships', 'used_sign_ins', 'user_identities'],
  audit: ['audit_records'],
  metering: ['owner_quotas', 'usage_days'],
  events: ['emitters', 'events'],
  vault: ['data_keys', 'key_rotations'],
  schedule: ['ticks', 'timers'],
  components: ['bundles', 'component_uses', 'components'],
  registry: [
    ...['registry_components', 'registry_files', 'registry_packages'],
    ...['registry_repositories', 'registry_versions'],
  ],
  accounts: [
    ...['account_audit', 'account_uses', 'accounts', 'apps', 'connect_flows', 'oauth_clients'],
    ...['deployment_accounts', 'source_accounts'],
  ],
  'user-data': [
    ...['data_store_entries', 'data_stores', 'file_buckets', 'file_chunks', 'files'],
    ...['variable_audit', 'variable_sets', 'variables'],
  ],
  idempotency: ['idempotency_keys'],
  'flow-control': ['flow_groups', 'flow_queues', 'flow_runs', 'flow_unbegun'],
  sources: ['component_dbs', 'source_apphooks', 'source_replies', 'sources'],
  workflows: [
    ...['deployment_components', 'deployments', 'templates', 'test_events', 'triggers', 'workflows'],
    ...['run_resumes', 'run_sends', 'run_steps', 'run_waits', 'runs'],
  ],
  imports: ['import_items', 'imported_objects', 'imports'],
  delivery: ['auto_subscriptions', 'deliveries', 'delivery_payloads', 'replays', 'subscriptions', 'webhooks'],
};

/** Writes of tables of another folder, and why no function of that folder does them. */
const foreignWrites: Record<string, string> = {
  'src/accounts/account-store.ts writes sources':
    'raises the revision of sources in the transaction that changes their account; sources stand above accounts',
  'src/accounts/account-uses-store.ts writes sources':
    'raises the revision of sources in the transaction that ends a grant; sources stand above accounts',
};

/** Columns named like a state that hold a text of their own, and why. */
const freeTexts: Record<string, string> = {
  'FileTable.content_type': 'as the caller gave it',
  'UserTable.disabled_reason': 'what the admin of the instance wrote',
  'AuditRecordTable.object_kind': 'the name of a collection in a path of the API',
  'FlowUnbegunTable.reason': 'a sentence with the run and the key in it',
  'HealthTable.reason': 'the error of the last failure',
  'TickTable.reason': 'a sentence with figures in it',
  'RunTable.reason': 'what user code gave to `$.flow.exit`, or a sentence',
};

const files = projectFiles();
const isTest = (file: string): boolean => /\.(test|contract)\.ts$/.test(file);
const sourceFiles = files.filter((file) => file.startsWith('src/') && file.endsWith('.ts'));
const productFiles = sourceFiles.filter((file) => !isTest(file));
const cliFiles = files.filter((file) => file.startsWith('cli/') && file.endsWith('.ts') && !isTest(file));
const typeScriptFiles = files.filter((file) => /\.tsx?$/.test(file));
const code = new Map(typeScriptFiles.map((file) => [file, readCode(file)]));
const importsOf = new Map(typeScriptFiles.map((file) => [file, importedSpecifiers(codeOf(file))]));

function codeOf(file: string): string {
  return code.get(file) ?? '';
}

/** The file of the project that a specifier names, or undefined for packages and node's own modules. */
function resolveSpecifier(from: string, specifier: string): string | undefined {
  if (specifier === '#sdk') return sdkEntry;
  if (specifier.startsWith('#')) return `src/${specifier.slice(1)}`;
  if (specifier.startsWith('~/')) return `dashboard/src/${specifier.slice(2)}`;
  if (specifier.startsWith('.')) return posix.join(dirname(from), specifier);
  return undefined;
}

/** Top folder below src, or the file's own name for files directly in src. */
function placeOf(file: string): string {
  return file.split('/')[1] ?? '';
}

function rankOf(place: string): number {
  const top = topFiles.indexOf(place);
  return top === -1 ? folderOrder.indexOf(place) : folderOrder.length + top;
}

/** Fails with every problem at once, and with what to do about it. */
function expectNone(problems: string[], advice: string): void {
  assert.equal(problems.length, 0, `${problems.join('\n')}\n\n${advice}\n`);
}

/** Places of `pattern` in a file, as `file:line: what`. */
function matchesIn(file: string, pattern: RegExp): string[] {
  return [...codeOf(file).matchAll(pattern)].map(
    (match) => `${file}:${lineOf(codeOf(file), match.index)}: ${match[0].trim()}`,
  );
}

describe('folders', () => {
  test('every folder of src has its place in the order', () => {
    const unknown = [...new Set(sourceFiles.map(placeOf))].filter((place) => {
      return rankOf(place.replace(/\.test\.ts$/, '.ts')) === -1;
    });
    expectNone(
      unknown.map((place) => `src/${place} is not in the folder order`),
      'Give it its place in folderOrder (or topFiles) of this test and in ARCHITECTURE.md.',
    );
  });

  test('a folder imports only from bands below its own, and in its band from folders to its left', () => {
    const problems: string[] = [];
    for (const file of productFiles) {
      for (const specifier of importsOf.get(file) ?? []) {
        const target = resolveSpecifier(file, specifier);
        if (target === undefined || !target.startsWith('src/')) continue;
        const [from, to] = [placeOf(file), placeOf(target)];
        if (from !== to && rankOf(to) >= rankOf(from))
          problems.push(`${file} imports ${specifier}: ${from} is left of ${to}`);
      }
    }
    expectNone(
      problems,
      `The order is ${[...folderOrder, ...topFiles].join(' < ')}.\nTake what you need as an argument, or move the shared part to the left.`,
    );
  });

  test('no import goes in a circle, types included', () => {
    const cycles: string[] = [];
    const done = new Set<string>();
    const walk = (file: string, trail: string[]): void => {
      const at = trail.indexOf(file);
      if (at !== -1) {
        cycles.push([...trail.slice(at), file].join('\n  -> '));
        return;
      }
      if (done.has(file)) return;
      for (const specifier of importsOf.get(file) ?? []) {
        const target = resolveSpecifier(file, specifier);
        if (target !== undefined && importsOf.has(target)) walk(target, [...trail, file]);
      }
      done.add(file);
    };
    for (const file of typeScriptFiles) if (/^(src|cli|sdk|dashboard)\//.test(file)) walk(file, []);
    expectNone(cycles, 'Move what both need into a file of its own.');
  });

  test('only main.ts, admin.ts and tests import app.ts', () => {
    const importers = productFiles.filter((file) =>
      (importsOf.get(file) ?? []).some((specifier) => resolveSpecifier(file, specifier) === 'src/app.ts'),
    );
    expectNone(
      importers.filter((file) => !['src/main.ts', 'src/admin.ts'].includes(file)),
      'app.ts hands each part what it needs; nothing asks it back.',
    );
  });

  test('the command line and the service import nothing from each other', () => {
    const problems: string[] = [];
    for (const file of [...productFiles, ...cliFiles]) {
      const own = file.split('/')[0];
      const other = own === 'cli' ? 'src/' : 'cli/';
      for (const specifier of importsOf.get(file) ?? []) {
        if (resolveSpecifier(file, specifier)?.startsWith(other) === true)
          problems.push(`${file} imports ${specifier}`);
      }
    }
    expectNone(problems, 'The command line talks to the REST API, as any program does.');
  });

  test('product code never imports tests, benchmarks or scripts', () => {
    const problems = productFiles.flatMap((file) =>
      (importsOf.get(file) ?? [])
        .map((specifier) => resolveSpecifier(file, specifier))
        .filter((target) => target !== undefined && (!target.startsWith('src/') || isTest(target)))
        .map((target) => `${file} imports ${target}`),
    );
    // The version, and the registry's own components, are data of the project that the product reads.
    expectNone(
      problems.filter((problem) => !problem.endsWith(' package.json')),
      'src stands on its own.',
    );
  });
});

describe('the client', () => {
  const clientFiles = files.filter((file) => file.startsWith('sdk/src/') && file.endsWith('.ts'));

  test('is what the command line and the dashboard have of the API, by its public entry; the service does not know it', () => {
    const problems: string[] = [];
    for (const file of typeScriptFiles.filter(
      (name) => !isTest(name) && /^(src|cli|dashboard)\//.test(name),
    )) {
      for (const specifier of importsOf.get(file) ?? []) {
        const target = resolveSpecifier(file, specifier);
        if (target?.startsWith('sdk/') !== true) continue;
        if (specifier !== '#sdk' || file.startsWith('src/')) problems.push(`${file} imports ${specifier}`);
      }
    }
    expectNone(problems, "Import it from '#sdk'; what that lacks, it should export. Never in src.");
  });

  test('is how the command line and the dashboard ask the API: they have no request of their own', () => {
    const allowed = {
      'cli/api.ts': 'hands fetch to the client, to write a large answer to a file as it comes',
      'cli/endpoint-request.ts': 'calls endpoints, here and elsewhere, which are not the API',
      'cli/forwarder-code.ts': 'is the text of a step that calls endpoints',
      'cli/pipedream-api.ts': 'reads the API of another service, with the key of its user',
      'cli/invoke-command.ts': 'calls endpoints, which are user code, not the API',
      'dashboard/src/api/client.ts': 'hands fetch to the client',
    };
    const callers = typeScriptFiles
      .filter((file) => !isTest(file) && /^(cli|dashboard\/src)\//.test(file) && !(file in allowed))
      .flatMap((file) => matchesIn(file, /(?<![.\w])(?:fetch|EventSource|XMLHttpRequest)\(/g));
    expectNone(callers, `Use the client of '#sdk'. Allowed: ${JSON.stringify(allowed, null, 2)}`);
  });

  test('imports nothing but its own files, so that it runs wherever there is fetch', () => {
    const problems: string[] = [];
    for (const file of clientFiles.filter((name) => !isTest(name))) {
      for (const specifier of importsOf.get(file) ?? []) {
        const target = resolveSpecifier(file, specifier);
        if (target === undefined || !target.startsWith('sdk/src/') || isTest(target))
          problems.push(`${file} imports ${specifier}`);
      }
    }
    assert.ok(clientFiles.length > 5, `${clientFiles.length} files`);
    expectNone(problems, 'sdk talks to the REST API only, and otherwise uses Web standards.');
  });
});

describe('imports', () => {
  test('are spelled ./ inside a folder, #folder/ across folders, and with their extension', () => {
    const problems: string[] = [];
    for (const file of sourceFiles) {
      for (const specifier of importsOf.get(file) ?? []) {
        const target = resolveSpecifier(file, specifier);
        if (target === undefined) continue;
        const where = `${file}: '${specifier}'`;
        // The version of the product; the one thing outside that the product reads.
        if (specifier === '../package.json') continue;
        if (specifier.startsWith('../')) {
          if (isTest(file) && target.startsWith('test/support/')) continue;
          problems.push(`${where}: write '#${target.slice('src/'.length)}'`);
        } else if (specifier.startsWith('#') && dirname(target) === dirname(file)) {
          problems.push(`${where}: write './${basename(target)}'`);
        }
        if (!/\.(ts|json)$/.test(specifier)) problems.push(`${where}: say the whole file name, with .ts`);
        else if (target.startsWith('src/') && !existsSync(`${projectRoot}${target}`))
          problems.push(`${where}: no such file`);
      }
    }
    expectNone(
      problems,
      'The head of a file is its list of dependencies; the spelling shows their direction.',
    );
  });

  test('the sandbox, which runs beside user code, imports only itself, the protocol, and lib', () => {
    const problems: string[] = [];
    for (const file of productFiles.filter((name) => name.startsWith('src/runner/sandbox/'))) {
      for (const specifier of importsOf.get(file) ?? []) {
        const target = resolveSpecifier(file, specifier);
        const isAllowed =
          target === undefined
            ? specifier.startsWith('node:')
            : target === 'src/runner/protocol.ts' ||
              target.startsWith('src/runner/sandbox/') ||
              target.startsWith('src/lib/');
        if (!isAllowed) problems.push(`${file} imports ${specifier}`);
      }
    }
    expectNone(problems, 'Everything else would be bundled into the process that runs user code.');
  });

  test('the modules provided to components import only each other and packages', () => {
    const problems = productFiles
      .filter((file) => file.startsWith('src/components/provided/'))
      .flatMap((file) =>
        (importsOf.get(file) ?? [])
          .map((specifier) => resolveSpecifier(file, specifier))
          .filter((target) => target !== undefined && !target.startsWith('src/components/provided/'))
          .map((target) => `${file} imports ${target}`),
      );
    expectNone(
      problems,
      'They are bundled into user code and must not bring parts of the service with them.',
    );
  });
});

describe('names', () => {
  test('what a file exports as a function, a constant or a class is used by another file', () => {
    const users = new Map<string, number>();
    for (const file of typeScriptFiles)
      for (const word of new Set(readProjectFile(file).match(/[\w$]+/g)))
        users.set(word, (users.get(word) ?? 0) + 1);
    const exported = /^export (?:async )?(?:function\*?|const|let|class) ([\w$]+)/gm;
    const problems = typeScriptFiles
      .filter((file) => /^(src|cli|dashboard)\//.test(file) && !Object.hasOwn(listedValues, dirname(file)))
      .flatMap((file) =>
        [...codeOf(file).matchAll(exported)]
          .filter(([, name]) => users.get(name ?? '') === 1)
          .map(([, name]) => `${file}: ${name}`),
      );
    expectNone(problems, 'Remove `export`, or the thing itself if its own file does not need it either.');
  });

  test('every file name in src is unique, so that a tab or a stack trace names its place', () => {
    const places = Map.groupBy(sourceFiles, (file) => basename(file));
    const twice = [...places].filter(([, places]) => places.length > 1);
    expectNone(
      twice.map(([name, places]) => `${name}: ${places.join(', ')}`),
      'Let each name say what its file is alone.',
    );
  });

  test('file and folder names are in kebab-case', () => {
    const kebab =
      /^(?:_?[a-z0-9]+(?:-[a-z0-9]+)*(?:\.(?:test|contract|bench|app|pg))*\.(?:ts|mts|mjs|cjs|js|json|md|sh|html|css))$/;
    const problems = files
      .filter((file) => /^(src|cli|test|bench|scripts|components|docs|sdk\/src)\//.test(file))
      .filter(
        (file) =>
          !kebab.test(basename(file)) ||
          // The folder of an app has its slug as its name.
          dirname(file)
            .replace(/^components\/[a-z0-9]+(?:_[a-z0-9]+)*/, 'components')
            .split('/')
            .some((part) => !/^[a-z0-9]+([-.][a-z0-9]+)*$/.test(part)),
      );
    expectNone(problems, 'Write such-names.ts.');
  });

  test('there are no index files and no bags of leftovers', () => {
    const problems = typeScriptFiles.filter((file) =>
      /^(index|utils?|helpers?|common|misc|manager)\.ts$/.test(basename(file)),
    );
    expectNone(problems, 'Name the file after the one idea in it.');
  });

  test('src has no default exports, but for the packages that components import by default', () => {
    const files = productFiles.filter((file) => !file.startsWith('src/components/provided/pipedream-'));
    expectNone(
      files.flatMap((file) => matchesIn(file, /^export default\b.*|\bas default\b/gm)),
      'Export it by its name, so that it has the same one everywhere.',
    );
  });
});

describe('places', () => {
  test('SQL stands only in storage and in *-store.ts', () => {
    const starters =
      /\b(?:selectFrom|insertInto|updateTable|deleteFrom|mergeInto|replaceInto)\(|\bsql(?:<[^`;]*>)?`|\bsql\.raw\(/g;
    const problems = productFiles
      .filter(
        (file) =>
          !file.startsWith('src/storage/') &&
          !file.endsWith('-store.ts') &&
          !file.startsWith('src/components/provided/'),
      )
      .flatMap((file) => matchesIn(file, starters));
    expectNone(
      problems,
      '"Show me every query" must stay a glob: move the statement to the store beside it.',
    );
  });

  test('outside storage nothing is decided by the name of the store', () => {
    const allowed = ['src/storage/', ...Object.keys(storeNameReaders)];
    const names = "'(?:sqlite|postgres)'";
    const pattern = new RegExp(
      `\\b(?:store|dialect)\\.name\\b|[!=]==?\\s*${names}|${names}\\s*[!=]==?|\\bcase\\s+${names}`,
      'gi',
    );
    const problems = productFiles
      .filter(
        (file) => !allowed.some((place) => file === place || (place.endsWith('/') && file.startsWith(place))),
      )
      .flatMap((file) => matchesIn(file, pattern));
    expectNone(
      problems,
      `Ask the dialect a question (src/storage/dialect.ts). To show the name: ${JSON.stringify(storeNameReaders, null, 2)}`,
    );
  });

  test('a table is written by one folder', () => {
    const owners = new Map(
      Object.entries(tableOwners).flatMap(([folder, tables]) =>
        tables.map((table) => [table, folder] as const),
      ),
    );
    const writes = [
      /\b(?:insertInto|updateTable|deleteFrom|mergeInto|replaceInto)\(\s*'(\w+)/g,
      /\bRowInsert<'(\w+)'>/g,
      /\bownedRows\('(\w+)'/g,
      /\b(?:insert into|delete from|update) (\w+)\s+(?:set\b|\(|where\b|as\b|using\b|\$\{)/g,
    ];
    const problems: string[] = [];
    const written = new Set<string>();
    for (const file of productFiles) {
      if (file.startsWith('src/storage/') || file.startsWith('src/components/provided/')) continue;
      for (const pattern of writes) {
        for (const [, table = ''] of readProjectFile(file).matchAll(pattern)) {
          const owner = owners.get(table);
          const write = `${file} writes ${table}`;
          written.add(write);
          if (placeOf(file) !== owner && !(write in foreignWrites))
            problems.push(`${write}: its owner is ${owner ?? 'not in the list'}`);
        }
      }
    }
    assert.ok(written.size > 60, `${written.size} writes found`);
    expectNone(problems, 'Call a function of a store of the owner (tableOwners of this test).');
    expectNone(
      Object.keys(foreignWrites).filter((write) => !written.has(write)),
      'No file does this: remove it from foreignWrites.',
    );
    assert.deepEqual([...owners.keys()].sort(), membersOf('src/storage/tables.ts', 'Tables').sort());
  });

  test('environment variables are read only in config/settings.ts', () => {
    const allowed = ['src/config/settings.ts', ...Object.keys(environmentReaders)];
    const problems = productFiles
      .filter(
        (file) => !allowed.some((place) => file === place || (place.endsWith('/') && file.startsWith(place))),
      )
      .flatMap((file) => matchesIn(file, /\bprocess\.env\b|\bprocess\[['"]env['"]\]|\bloadEnvFile\b/g));
    expectNone(
      problems,
      `Add a setting to src/config/settings.ts. Also allowed: ${JSON.stringify(environmentReaders, null, 2)}`,
    );
  });

  test('the service ends its process only in main.ts and admin.ts', () => {
    const problems = productFiles
      .filter(
        (file) => !['src/main.ts', 'src/admin.ts'].includes(file) && !file.startsWith('src/runner/sandbox/'),
      )
      .flatMap((file) => matchesIn(file, /\bprocess\.(?:exit|abort)\(/g));
    expectNone(problems, 'Throw, and let main.ts stop everything in order.');
  });

  test('the service calls out only through egress', () => {
    const inChild = ['src/runner/sandbox/', 'src/components/provided/'];
    const problems = productFiles
      .filter((file) => !file.startsWith('src/egress/') && !inChild.some((place) => file.startsWith(place)))
      .flatMap((file) => matchesIn(file, /(?<![.\w])fetch\(|^import (?!type\b)[^;]*\bfrom 'undici'/gm));
    expectNone(
      problems,
      'Use src/egress: an address that was not vetted is the way into the private network.',
    );
  });
});

describe('states', () => {
  const tableFiles = productFiles.filter((file) => file.startsWith('src/storage/tables/'));

  test('columns that hold a state, a kind or a reason have a union as their type', () => {
    const named =
      /^(?:\w+_)?(?:state|kind|reason|status|role|level|outcome|mode|type|action|format|encoding)$/;
    const found = tableFiles.flatMap((file) =>
      [...codeOf(file).matchAll(/^export interface (\w+)[^{]*\{\n([\s\S]*?)^\}/gm)].flatMap(
        ([, table = '', body = '']) =>
          [...body.matchAll(/^ {2}(\w+): ([^;]+);/gm)]
            .filter(([, column = '', type = '']) => named.test(column) && /\bstring\b/.test(type))
            .map(([, column = '']) => ({ file, column: `${table}.${column}` })),
      ),
    );
    expectNone(
      found.filter(({ column }) => !(column in freeTexts)).map(({ file, column }) => `${file}: ${column}`),
      'List its values beside the table (`const xStates = […] as const`), and use them in the schemas of routes with OneOf.',
    );
    const unused = Object.keys(freeTexts).filter((name) => !found.some(({ column }) => column === name));
    expectNone(unused, 'These are no longer free texts: remove them from freeTexts.');
  });

  test('no text is cast to one of these unions', () => {
    const unions = tableFiles.flatMap((file) =>
      [...codeOf(file).matchAll(/^export type (\w+) = \(typeof \w+\)\[number\];/gm)].map(([, name]) => name),
    );
    assert.ok(unions.length > 20, `${unions.length} unions`);
    const cast = new RegExp(`\\bas (?:${unions.join('|')})\\b(?!\\[)`, 'g');
    expectNone(
      productFiles.flatMap((file) => matchesIn(file, cast)),
      'Rows have the type of their table; text from outside is looked up in the list of values.',
    );
  });

  test('every kind of job has a payload', () => {
    assert.deepEqual(membersOf('src/jobs/job-kinds.ts', 'JobPayloads').sort(), [...jobKinds].sort());
  });
});

describe('tables of contents', () => {
  test('http/routes.ts lists every file of routes', () => {
    const routes = productFiles.filter((file) => /^src\/http\/routes\/.*-routes\.ts$/.test(file));
    if (!files.includes('src/http/routes.ts')) return;
    const listed = new Set(
      (importsOf.get('src/http/routes.ts') ?? []).map((it) => resolveSpecifier('src/http/routes.ts', it)),
    );
    expectNone(
      routes.filter((file) => !listed.has(file)),
      'Every URL must be found from src/http/routes.ts.',
    );
  });

  test('background-jobs.ts maps every job kind', () => {
    if (!files.includes('src/background-jobs.ts')) return;
    const kinds = membersOf('src/jobs/job-kinds.ts', 'JobPayloads');
    assert.ok(kinds.length > 0, 'no job kinds found in src/jobs/job-kinds.ts');
    expectNone(
      kinds.filter(
        (kind) => !new RegExp(`^\\s*'?${kind}'?\\s*[:(,]`, 'm').test(codeOf('src/background-jobs.ts')),
      ),
      'Every background job must be found from src/background-jobs.ts.',
    );
  });

  test('storage/tables.ts lists exactly the tables that the migrations make', () => {
    const made = new Set<string>();
    for (const file of productFiles.filter((name) => name.startsWith('src/storage/migrations/'))) {
      const statements =
        /\b(create|drop)\s+table\s+(?:if\s+(?:not\s+)?exists\s+)?"?(\w+)|\balter\s+table\s+"?(\w+)"?\s+rename\s+to\s+"?(\w+)/gi;
      for (const [, verb, name = '', before = '', after] of readProjectFile(file).matchAll(statements)) {
        if (after !== undefined) {
          made.delete(before);
          made.add(after);
        } else if (verb?.toLowerCase() === 'create') made.add(name);
        else made.delete(name);
      }
    }
    assert.deepEqual(membersOf('src/storage/tables.ts', 'Tables').sort(), [...made].sort());
  });

  test('the reference pages in docs are what the code says', async () => {
    for (const page of await referencePages()) {
      const present = files.includes(page.path) ? readProjectFile(page.path) : '';
      assert.equal(present, page.text, `${page.path} is out of date: run npm run reference`);
    }
  });

  test('every error code that is thrown is in the catalogue, and every code of the catalogue is used', async () => {
    const catalogue = await loadErrorCatalogue();
    if (catalogue === undefined) return;
    const thrown = new Map<string, string>();
    for (const file of productFiles) {
      const construction = /new (?:CallerError|UnavailableError)\(\s*'([^']+)'/g;
      for (const [, errorCode = ''] of codeOf(file).matchAll(construction)) thrown.set(errorCode, file);
    }
    const unlisted = [...thrown].filter(([errorCode]) => !(errorCode in catalogue));
    expectNone(
      unlisted.map(([errorCode, file]) => `${file} throws ${errorCode}`),
      'Add it to errorCatalogue in src/http/error-response.ts, then npm run reference.',
    );
    const quoted = new Set(
      productFiles.flatMap((file) =>
        [...codeOf(file).matchAll(/'([a-z][a-z0-9_]*)'/g)].map(([, text = '']) => text),
      ),
    );
    expectNone(
      Object.keys(catalogue).filter((errorCode) => !quoted.has(errorCode)),
      'Nothing gives this code: remove it from errorCatalogue.',
    );
  });

  test('npm run check and .ci/run type-check every project that has a tsconfig.json', () => {
    const { scripts } = JSON.parse(readProjectFile('package.json')) as { scripts: Record<string, string> };
    const ci = readProjectFile('.ci/run');
    for (const config of files.filter((file) => file.endsWith('tsconfig.json'))) {
      const command = new RegExp(`\\btsc -p ${config.replace('.', '\\.')}(?:\\s|$)`);
      assert.match(scripts.check ?? '', command);
      assert.match(ci, command);
    }
  });

  test('ARCHITECTURE.md shows the bands, with their folders in order', () => {
    const text = readProjectFile('ARCHITECTURE.md');
    for (const [band, folders] of Object.entries(bands)) {
      const line = new RegExp(`^ +${band} +${folders.join(' +')}$`, 'm');
      assert.match(text, line, `a line with ${band} and ${folders.join(', ')}, in this order`);
    }
  });
});

/** Names of the members directly inside an interface. */
function membersOf(file: string, interfaceName: string): string[] {
  const text = codeOf(file);
  const body = new RegExp(`interface ${interfaceName} \\{\\n([\\s\\S]*?)^\\}`, 'm').exec(text)?.[1] ?? '';
  return [...body.matchAll(/^ {2}(\w+)\??:/gm)].map(([, name = '']) => name);
}
