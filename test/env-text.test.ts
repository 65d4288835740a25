import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseEnv } from 'node:util';
import { readEnvText } from '../dashboard/src/editing/env-text.ts';

describe('a .env file in the dashboard', () => {
  for (const text of [
    '',
    'A=1',
    'A=1\nB=2\n',
    'A=1\r\nB="two"\r\n',
    '# comment\n\nA = spaced out  \n',
    'export A=1\n  B=2',
    'A=value # comment\nB="kept # here" # comment',
    "A='single $B'\nB=`back`",
    'A="one\\ntwo"\nB=\'one\\ntwo\'',
    'A="one\ntwo"\nB=3',
    'A=\nB=2',
    'A=1\nA=2',
    'A=a=b==',
    'nothing here\nA=1',
    'A="it\'s"\nB=$A',
  ])
    test(`${JSON.stringify(text)} is read as Node.js reads it`, () => {
      assert.deepEqual(Object.fromEntries(readEnvText(text)), { ...parseEnv(text) });
    });
});
