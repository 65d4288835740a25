import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withRelativeRequires } from './folder-requires.ts';

test('a require of a file by the folder of the one that asks becomes relative, and nothing else does', () => {
  for (const [before, after] of [
    ["require(__dirname + '/reserved.js')", "require('./reserved.js')"],
    ['require( __dirname+"/a/b" )', 'require("./a/b")'],
    ["require(path.join(__dirname, 'lib', 'a'))", undefined],
    ["require(path.join(__dirname, '../a.json'))", "require('./../a.json')"],
    ["require(resolve(__dirname, './a'))", "require('./a')"],
    ["require(__dirname + '/' + name)", undefined],
    ["fs.readFileSync(__dirname + '/a')", undefined],
    ["myrequire(__dirname + '/a')", undefined],
    ["require('./a')", undefined],
  ] as const)
    assert.equal(String(withRelativeRequires(Buffer.from(before))), after ?? before);
});
