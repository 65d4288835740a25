import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { crc32, deflateRawSync } from 'node:zlib';
import { makeZip, type ZipEntry } from '../../test/support/zip-archive.ts';
import { checkFiles, readArchive } from './read-archive.ts';

const definition = { path: 'one-p_One111/workflow.yaml', content: 'name: One\n' };
const read = async (...entries: ZipEntry[]) => [...(await readArchive(makeZip([definition, ...entries])))];

describe('an archive', () => {
  test('gives what defines workflows and the code in their folders, and nothing else', async () => {
    const files = await read(
      { path: 'README.md', content: 'hello' },
      { path: 'one-p_One111/.workflow.state', content: 'id: p_One111' },
      { path: 'one-p_One111/step/', content: '' },
      { path: 'one-p_One111/step/entry.js', content: 'é'.repeat(1000) },
      { path: 'one-p_One111/step/photo.png', content: 'png' },
      { path: 'elsewhere/other.js', content: 'x' },
      { path: '.git/objects/aa/entry.js', content: 'x' },
      { path: 'one-p_One111/node_modules/a/index.js', content: 'x' },
    );
    assert.deepEqual(files, [
      ['one-p_One111/workflow.yaml', 'name: One\n'],
      ['one-p_One111/.workflow.state', 'id: p_One111'],
      ['one-p_One111/step/entry.js', 'é'.repeat(1000)],
    ]);
  });

  test('that is hostile is refused with a sentence', async () => {
    const refusal = async (...entries: ZipEntry[]) => {
      const error = await read(...entries).then(
        () => undefined,
        (caught: { code?: string; message: string }) => caught,
      );
      assert.equal(error?.code, 'invalid_import');
      return error?.message ?? '';
    };
    assert.match(
      await refusal({ path: '../../etc/passwd', content: 'x' }),
      /invalid relative path|cannot be in an export/,
    );
    assert.match(
      await refusal({ path: '/etc/passwd', content: 'x' }),
      /absolute path|cannot be in an export/,
    );
    assert.match(await refusal({ path: 'C:/windows', content: 'x' }), /absolute path|cannot be in an export/);
    assert.match(await refusal({ path: 'a\u0001b', content: 'x' }), /cannot be in an export/);
    assert.match(
      await refusal({ path: 'link.js', content: '/etc/passwd', mode: 0o120777 }),
      /"link.js" is a symbolic link/,
    );
    // 200 MB of code in some KB: it is not decompressed beyond its limit.
    const bomb = deflateRawSync(Buffer.alloc(8 * 1024 * 1024, 'x'));
    assert.match(
      await refusal({ path: 'one-p_One111/bomb.js', raw: bomb, size: 200 * 1024 * 1024, crc: 0 }),
      /"one-p_One111\/bomb.js" is larger than 2 MB/,
    );
    const many: ZipEntry[] = Array.from({ length: 10 }, (_, at) => ({
      path: `one-p_One111/step${at}/entry.js`,
      content: 'x'.repeat(2 * 1024 * 1024),
    }));
    assert.match(await refusal(...many), /larger than 16 MB together/);
    assert.match(await refusal(definition), /has "one-p_One111\/workflow.yaml" twice/);
    const crowd = Array.from({ length: 100_000 }, (_, at) => ({
      path: `f${at}`,
      raw: Buffer.alloc(0),
      size: 0,
      crc: 0,
    }));
    await assert.rejects(readArchive(makeZip(crowd)), {
      ...{ code: 'invalid_import', message: /has 65,535 entries, expected at most 20,000: leave out .git/ },
    });
  });

  test('whose header says that a bomb is small is refused', async () => {
    const content = Buffer.alloc(3 * 1024 * 1024, 'x');
    const packed = deflateRawSync(content);
    const zip = makeZip([
      definition,
      { path: 'one-p_One111/liar.js', raw: packed, size: 10, crc: crc32(content) },
    ]);
    await assert.rejects(readArchive(zip), {
      code: 'invalid_import',
      message: /cannot be read as a ZIP|larger than/,
    });
  });

  test('that is none is refused', async () => {
    await assert.rejects(readArchive(Buffer.from('no archive')), {
      code: 'invalid_import',
      message: /cannot be read as a ZIP archive/,
    });
    const zip = makeZip([definition]);
    await assert.rejects(readArchive(zip.subarray(0, zip.length - 30)), { code: 'invalid_import' });
    await assert.rejects(readArchive(makeZip([{ ...definition, encrypted: true }])), {
      message: '"one-p_One111/workflow.yaml" is encrypted, expected a ZIP archive without a password',
    });
    // Bit 6 of the flags: the whole entry, its header included, is encrypted with a certificate or a password.
    const strong = makeZip([definition]);
    const central = strong.indexOf('PK\u0001\u0002');
    strong.writeUInt16LE(strong.readUInt16LE(central + 8) | 0x41, central + 8);
    await assert.rejects(readArchive(strong), {
      message: 'the archive is encrypted, expected a ZIP archive without a password',
    });
  });
});

test('files without an archive have the same limits', () => {
  assert.throws(() => checkFiles({ '../a/workflow.yaml': '' }), /cannot be in an export/);
  const large = 'x'.repeat(3 * 1024 * 1024);
  assert.throws(() => checkFiles({ 'workflow.yaml': large }), {
    message: '"workflow.yaml" is larger than 2 MB, expected the definition of one workflow',
  });
  assert.throws(() => checkFiles({ 'workflow.yaml': '', 'a/entry.js': large }), {
    message: '"a/entry.js" is larger than 2 MB, expected a file of code',
  });
  assert.deepEqual([...checkFiles({ 'a.txt': '', 'workflow.yaml': 'a' }).keys()], ['workflow.yaml']);
});
