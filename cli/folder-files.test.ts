import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import {
  chmod,
  link,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import type { Workflow } from '#sdk';
import { FolderConfig } from './folder-config.ts';
import { FolderFiles } from './folder-files.ts';
import { lockFileOf, lockText, withFolderLock } from './folder-lock.ts';
import { FolderNames } from './folder-names.ts';
import { markdownReport } from './import-report.ts';
import { readProject } from './read-project.ts';
import type { Session } from './session.ts';
import { workflowForm } from './workflow-file.ts';

const workflow =
  'schema: millrace.workflow/1\nname: A\nsteps:\n  - namespace: step\n    uses: ./step/entry.js\n';

/** A folder `shop` with one workflow `orders`, and a secret beside the folder and in it. */
async function withFolder(
  code: string,
  body: (place: {
    files: FolderFiles;
    root: string;
    codeOf: () => Promise<string | undefined>;
  }) => Promise<void>,
): Promise<void> {
  const outer = await mkdtemp(join(tmpdir(), 'folder-files-'));
  try {
    const root = join(outer, 'shop');
    const written = {
      'orders/workflow.yaml': workflow,
      'orders/step/entry.js': code,
      'orders/lib/add.js': 'export const add = (a, b) => a + b;\n',
      'orders/lib/note.txt': 'a note',
      'orders/.env': 'TOKEN=secret-value\n',
      'other/step/entry.js': 'export default "secret-value";\n',
      '../.env': 'TOKEN=secret-value\n',
    };
    for (const [path, text] of Object.entries(written)) {
      await mkdir(dirname(join(root, path)), { recursive: true });
      await writeFile(join(root, path), text);
    }
    const files = new FolderFiles(root);
    const codeOf = async () => (await files.thing('workflows', 'orders'))?.form.code.get('./step/entry.js');
    await body({ files, root, codeOf });
  } finally {
    await rm(outer, { recursive: true, force: true });
  }
}

test('code of a folder is one text with the files of its workflow that it imports', async () => {
  const code = `import { add } from '../lib/add';\nimport note from '../lib/note.txt' with { type: 'text' };
import ky from 'ky';\nexport default () => ky(note + add(1, 2));\n`;
  await withFolder(code, async ({ codeOf }) => {
    const text = (await codeOf()) ?? '';
    assert.match(text, /a \+ b/);
    assert.match(text, /a note/);
    assert.match(text, /from "ky"/);
  });
});

for (const [what, code] of Object.entries({
  'the environment of the command': `import s from "${'../'.repeat(20)}proc/self/environ" with { type: 'text' };`,
  'an absolute path': `import '../lib/add.js'; import s from '/proc/self/environ' with { type: 'text' };`,
  'a file above the folder': `import s from '../../../.env' with { type: 'text' };`,
  'a hidden file of the workflow': `import s from '../.env' with { type: 'text' };`,
  'another workflow': `import s from '../../other/step/entry.js';`,
  'a pattern': `import '../lib/add.js'; const name = 'x'; const s = await import(\`../../other/\${name}/entry.js\`);`,
  'a private name': `import '../lib/add.js'; import s from '#secret';`,
  'a required file': `import '../lib/add.js'; const s = require('../../other/step/entry.js');`,
})) {
  test(`code of a folder does not import ${what}`, async () => {
    await withFolder(`${code}\nexport default () => s;\n`, async ({ codeOf }) => {
      await assert.rejects(codeOf, /entry\.js:1.*(?:code imports only files|files are imported as)/);
    });
  });
}

test('code of a folder imports no symbolic link', async () => {
  const code = `import s from './link.txt' with { type: 'text' };\nexport default () => s;\n`;
  await withFolder(code, async ({ root, codeOf }) => {
    await symlink(join(root, '../.env'), join(root, 'orders/step/link.txt'));
    await assert.rejects(codeOf, /is a symbolic link/);
  });
});

test('a pipe in place of a file is refused instead of waited for', async () => {
  await withFolder('', async ({ root, codeOf }) => {
    await rm(join(root, 'orders/step/entry.js'));
    execFileSync('mkfifo', [join(root, 'orders/step/entry.js')]);
    await assert.rejects(codeOf, /is no regular file/);
  });
});

test('a deleted file of code comes back where it is asked for', async () => {
  await withFolder('export default 1;\n', async ({ files, root, codeOf }) => {
    const before = await files.thing('workflows', 'orders');
    await rm(join(root, 'orders/step/entry.js'));
    await assert.rejects(codeOf, /there is no file/);
    const found = (await files.things('workflows', { isCodeRestored: true })).get('orders');
    assert.notEqual(found?.version, before?.version);
    assert.ok(before !== undefined);
    const { form, version } = before;
    assert.equal(await files.writeThing('workflows', 'orders', form, { version }), 'edited');
    assert.equal(await files.writeThing('workflows', 'orders', form, 'anything'), 'written');
    assert.equal(await codeOf(), 'export default 1;\n');
  });
});

test('a file is replaced whole, keeps its mode, and leaves nothing beside it', async () => {
  await withFolder('before', async ({ files, root }) => {
    const folder = join(root, 'orders/step');
    await chmod(join(folder, 'entry.js'), 0o750);
    // Another name of the file that was there: writing into it would change this one too.
    await link(join(folder, 'entry.js'), join(root, 'kept'));
    assert.equal(await files.write('orders/step/entry.js', 'after'), true);
    assert.equal(await readFile(join(root, 'kept'), 'utf8'), 'before');
    assert.equal(await files.read('orders/step/entry.js'), 'after');
    assert.equal((await stat(join(folder, 'entry.js'))).mode & 0o777, 0o750);
    assert.deepEqual(await readdir(folder), ['entry.js']);
  });
});

test('one command at a time changes a folder, and a killed one is in no way', async () => {
  await withFolder('', async ({ root }) => {
    const done = await withFolderLock(root, async () => {
      await assert.rejects(
        withFolderLock(join(root, '.'), async () => assert.fail()),
        /another push or pull of .* is under way/,
      );
      return 'done';
    });
    assert.equal(done, 'done');
    const gone = execFileSync(process.execPath, ['-p', 'process.pid'], { encoding: 'utf8' });
    await writeFile(lockFileOf(await realpath(root)), gone.trim());
    assert.equal(await withFolderLock(root, async () => 'again'), 'again');
    await assert.rejects(readFile(lockFileOf(await realpath(root))), { code: 'ENOENT' });
  });
});

test('a process that has got the id of a killed command is in no way', {
  skip: !existsSync('/proc/self/stat') && 'the start of a process is read from /proc',
}, async () => {
  await withFolder('', async ({ root }) => {
    const file = lockFileOf(await realpath(root));
    await writeFile(file, await lockText(process.pid));
    await assert.rejects(
      withFolderLock(root, async () => assert.fail()),
      /another push or pull/,
    );
    await writeFile(
      file,
      (await lockText(process.pid)).replace(/\d+$/, (start) => `${Number(start) - 1}`),
    );
    assert.equal(await withFolderLock(root, async () => 'mine'), 'mine');
  });
});

test('a file with conflict markers says so', async () => {
  await withFolder('', async ({ files }) => {
    await files.write('orders/workflow.yaml', `<<<<<<< HEAD\n${workflow}=======\n>>>>>>> theirs\n`);
    await assert.rejects(
      files.things('workflows'),
      /orders\/workflow\.yaml: it has conflict markers of Git: resolve them first/,
    );
  });
});

test('files that were edited since they were read stay as they are', async () => {
  await withFolder('read', async ({ files, root }) => {
    const read = await files.thing('workflows', 'orders');
    assert.ok(read !== undefined);
    const { version, form } = read;
    const renamed = { ...form, file: { ...form.file, name: 'B' } };
    const write = () => files.writeThing('workflows', 'orders', renamed, { version });
    for (const [path, edited] of [
      ['orders/step/entry.js', 'edited'],
      ['orders/workflow.yaml', 'name: [half'],
    ] as const) {
      const before = (await files.read(path)) ?? '';
      await files.write(path, edited);
      assert.equal(await write(), 'edited');
      assert.equal(await files.read(path), edited);
      await writeFile(join(root, path), before);
    }
    assert.equal(await write(), 'written');
    assert.equal(await write(), 'same');
  });
});

test('a workflow behind a symbolic link is refused, and no other link is', async () => {
  await withFolder('', async ({ files, root }) => {
    await symlink(join(root, 'orders/lib'), join(root, 'docs'));
    assert.deepEqual([...(await files.things('workflows')).keys()], ['orders']);
    await rename(join(root, 'orders'), join(root, '../elsewhere'));
    await symlink(join(root, '../elsewhere'), join(root, 'orders'));
    await assert.rejects(files.things('workflows'), /orders is a symbolic link, expected a folder with/);
  });
});

test('what a user or another command writes into millrace.yaml meanwhile stays', async () => {
  await withFolder('', async ({ files }) => {
    const mine = FolderConfig.create(files);
    mine.add('production', { url: 'https://a.example', workspace: undefined, project: undefined });
    await mine.save();
    const other = await FolderConfig.read(files);
    const thing = (id: string) => ({ id, version: undefined, triggers: {} });
    other?.setKnown('production', 'workflows', 'theirs', thing('p_Theirs'));
    await other?.save();
    const text = (await files.read('millrace.yaml')) ?? '';
    await files.write('millrace.yaml', `${text}# A note.\n`);
    mine.setKnown('production', 'workflows', 'mine', thing('p_Mine'));
    await mine.save();
    const after = await FolderConfig.read(files);
    assert.deepEqual([...(after?.known('production', 'workflows').keys() ?? [])], ['mine', 'theirs']);
    assert.match((await files.read('millrace.yaml')) ?? '', /# A note\./);
  });
});

test('steps whose names differ only in case have files of their own on every file system', () => {
  const step = (namespace: string) => ({
    ...{ namespace, block: null, component_key: null, savedComponent: null, component_owner_id: null },
    ...{ code_raw: namespace, configured_props_json: null, disabled: false, note: null },
    ...{ timeout_seconds: null, retries: null },
  });
  const names = ['Fetch', 'fetch', 'FETCH'];
  const workflow = { name: 'A', active: true, settings: {}, triggers: [], steps: names.map(step) };
  const { code } = workflowForm(workflow as unknown as Workflow, {
    ...{ names: new FolderNames(), warn: () => undefined },
  });
  assert.deepEqual(
    [...code],
    [
      ['./Fetch/entry.js', 'Fetch'],
      ['./fetch-2/entry.js', 'fetch'],
      ['./FETCH-3/entry.js', 'FETCH'],
    ],
  );
});

test('a key goes to the address that the caller expects, and not over plain http to the Internet', async () => {
  await withFolder('', async ({ files }) => {
    const connect = async (url: string, environment: Record<string, string>, isInsecureAllowed = false) => {
      const config = FolderConfig.create(files);
      config.add('production', { url, workspace: undefined, project: undefined });
      const variables = { MILLRACE_API_KEY_PRODUCTION: 'key', ...environment };
      const session = { environment: variables, interrupted: undefined } as unknown as Session;
      await config.connect(session, 'production', { isInsecureAllowed });
    };
    const bound = { MILLRACE_URL_PRODUCTION: 'https://millrace.example.com/' };
    await connect('https://millrace.example.com', bound);
    await assert.rejects(connect('https://evil.example.com', bound), /but MILLRACE_URL_PRODUCTION is/);
    await assert.rejects(connect('http://evil.example.com', {}), /is not encrypted/);
    await assert.rejects(connect('http://93.184.216.34', {}), /is not encrypted/);
    await connect('http://evil.example.com', {}, true);
    for (const host of ['127.0.0.1:8080', 'localhost', 'millrace:8080', '10.1.2.3', '[::1]'])
      await connect(`http://${host}`, {});
  });
});

test('an import reads regular files only', async () => {
  const session = { path: (path: string) => path } as unknown as Session;
  await assert.rejects(readProject(session, '/dev/zero'), /is neither a file nor a folder/);
  await withFolder('export default 1;\n', async ({ root }) => {
    const pipe = join(root, 'pipe');
    execFileSync('mkfifo', [pipe]);
    await assert.rejects(readProject(session, pipe), /is neither a file nor a folder/);
    const zip = join(root, 'a.zip');
    await writeFile(zip, 'PK and more');
    assert.deepEqual(await readProject(session, zip), { bytes: Buffer.from('PK and more') });
    const content = await readProject(session, join(root, 'orders'));
    assert.equal('files' in content && content.files['step/entry.js'], 'export default 1;\n');
  });
});

test('what an archive says is no markup in a report', () => {
  const text = markdownReport(
    [
      {
        title: 'a <b>\n# x',
        lines: ['- see [this](http://x) `y` \u202e', '      millrace env set A'],
        table: { columns: ['A'], rows: [['a|b\nc <img>']] },
      },
    ],
    'Title',
  );
  assert.ok(text.includes('## a &lt;b&gt;\\\\n# x\n'), text);
  assert.ok(text.includes('- see \\[this\\](http://x) \\`y\\` \\\\u202e\n'), text);
  assert.ok(text.includes('  ~~~sh\n  millrace env set A\n  ~~~'), text);
  assert.ok(text.includes('| a\\|b\\\\nc &lt;img&gt; |'), text);
});
